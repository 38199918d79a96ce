"""Workloads whose events are known beforehand: how many of each role one repetition causes, by what is flushed first,
driven out, or hot.

Lines are flushed before they are used, so that nothing has to be known of the caches: a flushed line comes from memory,
once. Irregular ones lie in pages of their own, so that no prefetcher foresees them, and what it brings along beside
them stays in the caches from the first repetition on. Streams are those of Röhl et al. 2015 (Fig. 1.1) with their
write-allocates; chases with and without multiplications those of Molka et al. 2017 (section 3.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from setebench.counters.roles import FLITS_PER_LINE, ROLES, Scope
from setebench.kernels import BLOCK_BYTES, KERNELS, Kernel, array_spacing, stream_bytes
from setebench.machine import Region
from setebench.probe import Base, Kind, Placements, Probe

PAGE_BYTES = 4096
"""The smallest page, within which prefetchers stay."""

PAGES = 16
"""Pages of the irregular lines: any first TLB holds their entries."""

TARGET, ARRAY, EVICTOR, BUSY = (Base(name) for name in ("target", "array", "evictor", "busy"))

BESIDE_POINTER = TARGET + 8
"""Where stores go: the first 8 bytes of a line hold the pointer that chases follow."""

BESIDE = "_beside_sibling"
"""Ends the name of a workload that is run beside a busy sibling thread."""

READS = ("load_l1_miss", "l1d_fill", "l2_fill", "offcore_mem_read", "mem_read", "home_read")
"""Roles of a load's way to memory."""

OWNED = ("l2_rfo", "l2_rfo_miss")
BEYOND = {
    **dict.fromkeys(("load_l1_miss", "l1d_fill", "l2_rfo"), "l2"),
    **dict.fromkeys(("l2_fill", "l2_rfo_miss"), "l3"),
    **dict.fromkeys(("offcore_mem_read", "mem_read", "home_read"), "memory"),
}
"""The nearest level from which lines of these roles come."""

WRITES = ("l1d_writeback", "l2_writeback", "mem_write", "home_write")
REMOTE = ("remote_read", "link_flit")
QUIET = dict.fromkeys((*READS, *OWNED, *WRITES, *REMOTE, "load_fb_hit", "hitm_local"), 0.0)
"""Nothing of all that."""

STREAMS = ("load", "ddot", "store", "store_nt", "copy", "daxpy", "triad", "vector_triad")
"""Kernels of Röhl et al., Fig. 1.1. Its text says seven and names six; what it calls ddot is daxpy by its formula, so
both are here. Its stream is our triad, its triad our vector_triad."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A probe for each CPU that takes part, and what one repetition causes.

    `volumes`: events by role; a role that is not in it is not known here. Those of `loose` roles hold about, within so
    many lines per access: a level served them that was found by timing. Of roles `unknown` nobody knows how many there
    are; that others have so many distinguishes them. `elapsed`: roles that count cycles, of which the timed
    interval (number 0, of the first CPU) is the measure; `steps`: of what the interval is about. `unit`: repetitions in
    a unit of amount. What is `before` is run before every reading, `warm` once an epoch, and once for all workloads
    that share it: others have driven its lines out. `at_once` is what the first CPU runs for so many repetitions
    together, instead of its probe so many times, where what they have in common takes the time."""

    name: str
    probes: Mapping[int | None, Probe]
    placements: Callable[[int], Placements]
    volumes: Mapping[str, float] = field(default_factory=dict)
    loose: Mapping[str, float] = field(default_factory=dict)
    elapsed: tuple[str, ...] = ()
    steps: int = 1
    unit: int = 96
    before: tuple[tuple[Probe, Placements], ...] = ()
    warm: tuple[tuple[Probe, Placements], ...] = ()
    unknown: frozenset[str] = frozenset()
    at_once: Callable[[int], Probe] | None = None

    @property
    def roles(self) -> set[str]:
        """Roles that are counted under this workload."""
        return {*self.volumes, *self.elapsed, *self.unknown}


def volumes(base: Mapping[str, float], **more: float) -> dict[str, float]:
    """These volumes, and others in their place."""
    return {**base, **more}


class Targets:
    """Irregular lines: one in each of some pages, at random places and in random order. No other line of these pages is
    ever used, or a prefetcher that learns a region's lines would bring one for the other; a flush translates its
    address, so that the TLB entry is warm without."""

    def __init__(self, region: Region, rng: np.random.Generator) -> None:
        self.region = region
        lines = PAGE_BYTES // region.line_size
        pages = region.address + rng.permutation(region.size // PAGE_BYTES) * PAGE_BYTES
        at = rng.integers(lines // 4, lines * 3 // 4, len(pages))  # away from the edges, which neighbours could reach
        self.lines: NDArray[np.int64] = pages + at * region.line_size
        self._rng = rng

    def draw(self, count: int) -> Placements:
        """`count` of the lines in random order, each as often as the others: what a prefetcher brings along beside a
        line comes with its first use, so that all of them must have been used before anything is counted."""
        rounds = -(-count // len(self.lines))
        return {TARGET: np.concatenate([self._rng.permutation(self.lines) for _ in range(rounds)])[:count]}

    def first(self, count: int) -> Placements:
        """The first line, `count` times."""
        return {TARGET: np.full(count, self.lines[0])}


def flushed(targets: Targets, cpu: int | None, unit: int) -> list[Workload]:
    """Single lines from memory: loaded, loaded twice at once, or stored to."""
    ready = Probe().flush(TARGET).fence()
    read = volumes(QUIET, **dict.fromkeys(READS, 1.0))
    twice = volumes(read, load_fb_hit=1)
    owned = volumes(read, load_l1_miss=0, l2_rfo=1, l2_rfo_miss=1, mem_write=1, home_write=1)
    # a flush is no write-back of one level to the next, but a core may count it as one
    flushes = frozenset(("l1d_writeback", "l2_writeback"))
    made = {
        "far_load": (ready.load(TARGET), read),
        "far_pair": (ready.load(TARGET).load(TARGET + 8), twice),
        "far_store": (ready.store(BESIDE_POINTER), {role: owned[role] for role in owned if role not in flushes}),
    }
    return [
        Workload(
            name=name,
            probes={cpu: probe.fence()},
            placements=targets.draw,
            volumes=known,
            unknown=flushes - set(known),
            unit=unit,
        )
        for name, (probe, known) in made.items()
    ]


STORE = Probe().store(BESIDE_POINTER)
"""One access to a working set of `Served.stores`."""

IDLE_CYCLES = ("l1d_inflight_sum", "l1d_inflight_cycles", "stall_l1d_miss", "stall_load_any", "fb_full", "sq_full")
"""Roles of cycles that can't come while nothing is loaded."""


def hot(targets: Targets, cpu: int | None, cycles: int, unit: int) -> list[Workload]:
    """What touches no memory, or one line that stays in L1. Two sizes of each, as the loop around a probe has
    instructions, loads and stores of its own: their difference has none of these."""
    quiet = volumes(QUIET, load=0, store=0, fp_op=0, stall_store_buffer=0, **dict.fromkeys(IDLE_CYCLES, 0.0))
    made: dict[str, tuple[Probe, dict[str, float]]] = {"idle": (Probe().start().wait(cycles).stop(), quiet)}
    for few in (64, 192):
        load, store = Probe().repeat(few, Probe().load(TARGET)), Probe().repeat(few, Probe().store(BESIDE_POINTER))
        made[f"hot_load_{few}"] = load, volumes(QUIET, load=few)
        made[f"hot_store_{few}"] = store, volumes(QUIET, store=few)
        made[f"nops_{few}"] = Probe().start().nop(20 * few).stop(), {"instructions": 20.0 * few}
        additions = {"cycles": 20.0 * few, "no_execute": 0.0}
        made[f"additions_{few}"] = Probe().start().add(20 * few).stop(), additions
        slow = Probe().start().multiply(20 * few).stop()
        made[f"multiplications_{few}"] = slow, {"instructions": 20.0 * few}
    return [
        Workload(
            name=name,
            probes={cpu: probe},
            placements=targets.first if TARGET in probe.bases else int,
            volumes=known,
            unit=unit,
        )
        for name, (probe, known) in made.items()
    ]


def streams(region: Region, cpu: int | None, names: Iterable[str], array_bytes: int, width: int) -> list[Workload]:
    """One pass of each streaming kernel over flushed arrays, the number of lines of each kind known to the line."""
    line, made = region.line_size, []
    for name in names:
        kernel = KERNELS[name]
        read, written = _stream_lines(kernel, array_bytes, line)
        known = dict.fromkeys(("l1d_fill", "l2_fill", "offcore_mem_read", "mem_read", "home_read"), read)
        known |= {"mem_write": written, "home_write": written}
        if not kernel.allocated_bytes and not kernel.read_bytes:  # past the caches: none of them gives a line away
            known |= {"l1d_writeback": 0.0, "l2_writeback": 0.0}
        away = Probe().repeat(stream_bytes(kernel, array_bytes) // line, Probe().flush(ARRAY), advance=line).fence()
        made.append(_stream(f"stream_{name}", (away, kernel, array_bytes, width), region, cpu, known))
    return made


def level_streams(
    level: str, region: Region, cpu: int | None, names: Iterable[str], sizes: tuple[int, int]
) -> list[Workload]:
    """One pass of each streaming kernel over arrays that `level` serves, so that the level before it passes all lines
    on; `sizes`: bytes of all arrays together, and of one access. How much stays in the nearer levels depends on their
    replacement."""
    made = []
    for name in names:
        kernel = KERNELS[name]
        array_bytes = sizes[0] // kernel.arrays // BLOCK_BYTES * BLOCK_BYTES
        read, written = _stream_lines(kernel, array_bytes, region.line_size)
        beyond = float(level == "l3")
        known = {"l1d_fill": read, "l1d_writeback": written, "l2_fill": beyond * read, "l2_writeback": beyond * written}
        known |= dict.fromkeys(("mem_read", "home_read", "mem_write", "home_write"), 0.0)
        made.append(_stream(f"stream_{name}_{level}", (Probe(), kernel, array_bytes, sizes[1]), region, cpu, known))
    return made


def _stream_lines(kernel: Kernel, array_bytes: int, line: int) -> tuple[float, float]:
    """Lines that a pass brings in, and lines that it leaves modified."""
    blocks = array_bytes / BLOCK_BYTES
    return blocks * (kernel.read_bytes + kernel.allocated_bytes) / line, blocks * kernel.written_bytes / line


def _stream(
    name: str, what: tuple[Probe, Kernel, int, int], region: Region, cpu: int | None, known: dict[str, float]
) -> Workload:
    """`what`: operations before it, the kernel, and bytes of an array and of an access."""
    before, kernel, array_bytes, width = what
    blocks = array_bytes / BLOCK_BYTES
    accesses = {"load": blocks * kernel.read_bytes / width, "store": blocks * kernel.written_bytes / width}
    return Workload(
        name=name,
        probes={cpu: before.stream(ARRAY, kernel.name, array_bytes, width).fence()},
        placements=lambda count: {ARRAY: np.full(count, region.address)},
        volumes={**known, **accesses},
        unit=1,
    )


def arithmetic(region: Region, cpu: int | None, widths: Iterable[int]) -> list[Workload]:
    """Floating-point work on arrays that stay in L1, in every width (Röhl et al. 2015, Fig. 1.2)."""
    small, passes, kernel = 1024, 8, KERNELS["triad"]
    known = {"fp_op": passes * small / BLOCK_BYTES * kernel.block_flops}
    return [
        Workload(
            name=f"arithmetic_{width}",
            probes={cpu: Probe().repeat(passes, Probe().stream(ARRAY, kernel.name, small, width))},
            placements=lambda count: {ARRAY: np.full(count, region.address)},
            volumes=known,
            unit=8,
        )
        for width in widths
    ]


def flushes(region: Region) -> Probe:
    """All lines of a region that begins at `ARRAY` flushed."""
    return Probe().repeat(region.size // region.line_size, Probe().flush(ARRAY), advance=region.line_size).fence()


class Ring:
    """Lines of a working set in a cyclic order, gone on with from run to run: else the first ones would come again too
    soon. `rounds`: a chase around all of it, twice, from where the next run begins: what is given from level to level
    is where it belongs then, and each line was last used a whole round ago."""

    def __init__(self, order: NDArray[np.int64]) -> None:
        self.order = order
        self._next = 0
        self._first = order[:1].copy()  # the placement of `rounds`, moved on with every run
        self.rounds: tuple[tuple[Probe, Placements], ...] = (
            (Probe().chase(TARGET, 2 * len(order)), {TARGET: self._first}),
        )

    def starts(self, count: int, steps: int) -> NDArray[np.int64]:
        """Where `count` chases of so many steps begin, one behind the other."""
        at = (self._next + np.arange(count) * steps) % len(self.order)
        self._next = int(self._next + count * steps) % len(self.order)
        self._first[0] = self.order[self._next]
        return self.order[at]


@dataclass(frozen=True, kw_only=True)
class Pass:
    """A pass over so many bytes of other lines, and what each modified line behind it has caused by then, by role, and
    within how much that is known where it isn't exact. What is not in `known` is not known."""

    size_bytes: int
    known: Mapping[str, float]
    doubts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Dirty:
    """Lines to modify, `count` of them in each repetition, each `apart` lines from the one before, and the region of
    the evictor lines that drive them out."""

    region: Region
    evictors: Region
    count: int
    apart: int

    @property
    def step_bytes(self) -> int:
        """From one modified line to the next."""
        return self.apart * self.region.line_size

    @property
    def begins(self) -> NDArray[np.int64]:
        """Where the lines of each repetition begin that the region has room for."""
        size = self.count * self.step_bytes
        return self.region.address + np.arange(self.region.size // size) * size

    def each(self, operation: Probe, repetitions: int = 1) -> Probe:
        """An operation at `ARRAY` on each of the lines of so many repetitions."""
        return Probe().repeat(repetitions * self.count, operation, advance=self.step_bytes).fence()


def passing(size_bytes: int, evictors: Region) -> tuple[tuple[Probe, dict[Base, NDArray[np.int64]]], ...]:
    """A pass over so many bytes of evictor lines."""
    line = evictors.line_size
    probe = Probe().repeat(size_bytes // line, Probe().load(EVICTOR), advance=line).fence()
    return ((probe, {EVICTOR: np.array([evictors.address])}),)


def driven_out(name: str, dirty: Dirty, passed: Pass, cpu: int | None, looseness: float) -> Workload:
    """Modified lines that a pass over evictor lines drives out of the caches whose write-backs are known, per line.
    Every repetition has lines of its own, flushed beforehand: one that comes again would come modified from the next
    cache, where that gives away what it holds, and might leave more than once. Nothing is ever written to an evictor
    line, or it would be counted when it leaves. One pass drives out the lines of all repetitions where it is so long
    that these are nothing beside it."""
    known = passed.known
    ((driving, evictors),) = passing(passed.size_bytes, dirty.evictors)
    # a cache that includes the first one may take a line's data from there, without a write-back
    nearer = "" if name == "l1d" else "l1d_writeback"

    def at_once(repetitions: int) -> Probe:
        return dirty.each(Probe().store(ARRAY + 8), repetitions) + driving

    return Workload(
        name=f"driven_out_{name}",
        probes={cpu: at_once(1)},
        at_once=at_once if name != "l1d" else None,
        placements=lambda count: {
            ARRAY: dirty.begins[:count],
            EVICTOR: np.repeat(evictors[EVICTOR], count),
        },
        volumes={role: dirty.count * volume for role, volume in known.items()},
        loose={
            role: max(looseness, passed.doubts.get(role, 0.0))
            for role, volume in known.items()
            if role in passed.doubts or not volume or role == nearer
        },
        unit=1,
        before=((flushes(dirty.region), {ARRAY: dirty.begins[:1]}),),
        unknown=frozenset(WRITES) - set(known),
    )


@dataclass(frozen=True, kw_only=True)
class Served:
    """A working set that a level serves: the fractions of its `loads` and `stores` that each role counts, by where
    their lines were when some were timed."""

    level: str
    ring: Ring
    loads: Mapping[str, float]
    stores: Mapping[str, float]


def served(what: Served, cpu: int | None, stalls: tuple[str, ...], looseness: float) -> list[Workload]:
    """A chase over a working set that a level serves, with and without multiplications, and stores to it."""
    steps, ring, warm = 256, what.ring, what.ring.rounds
    known, loose = _volumes_of({**QUIET, **what.loads}, looseness)
    for name in WRITES:
        known.pop(name)
    chases = [
        Workload(
            name=f"{what.level}_chase{'_' + work if work else ''}",
            probes={cpu: Probe().start().chase(TARGET, steps, work=work).stop()},
            placements=lambda count: {TARGET: ring.starts(count, steps)},
            volumes={role: steps * volume for role, volume in known.items()} if not work else {},
            loose=loose,
            elapsed=stalls,
            steps=steps,
            unit=12,
            warm=warm,
        )
        for work in ("", "free", "chained")
    ]
    known, loose = _volumes_of(what.stores, looseness)
    stores = Workload(
        name=f"{what.level}_store",
        probes={cpu: STORE},
        placements=lambda count: {TARGET: ring.starts(count, 1)},
        volumes=known,
        loose=loose,
        unit=1024,
        warm=warm,
    )
    return [*chases, stores]


def _volumes_of(fractions: Mapping[str, float], looseness: float) -> tuple[dict[str, float], dict[str, float]]:
    """Events of an access by role, none or one where that is as good, and how far off each may be: a mixture's fraction
    is about right, as what its two levels take is known about."""
    known = {role: each if looseness < each < 1 - looseness else float(round(each)) for role, each in fractions.items()}
    return known, {role: max(looseness, min(each, 1 - each)) for role, each in known.items()}


def flushed_chases(
    targets: Targets, cpu: int | None, lines: tuple[int, ...], stalls: tuple[str, ...]
) -> list[Workload]:
    """Chases over so many flushed lines, with and without multiplications. The region must be linked in the order of
    the lines."""
    return [
        Workload(
            name=f"far_chase_{count}{'_' + work if work else ''}",
            probes={cpu: _prepared(targets, count).start().chase(TARGET, count, work=work).stop()},
            placements=targets.first,
            elapsed=stalls,
            steps=count,
            unit=24,
        )
        for count in lines
        for work in ("", "free", "chained")
    ]


def remote(targets: Targets, ascending: Region, cpu: int | None, unit: int) -> list[Workload]:
    """Single flushed lines of another node's memory, and a chase over such lines one behind the other. At whose memory
    controllers a machine counts them is its own affair."""
    probe = Probe().flush(TARGET).fence().load(TARGET).fence()
    known = dict.fromkeys(("l1d_fill", "l2_fill"), 1.0) | _remote_lines(1.0)
    single = Workload(name="remote_load", probes={cpu: probe}, placements=targets.draw, volumes=known, unit=unit)
    chase = ascending_chase(ascending, cpu)
    return [single, replace(chase, name="remote_ascending", volumes=_remote_lines(float(chase.steps)))]


def _remote_lines(count: float) -> dict[str, float]:
    return {"remote_read": count, "link_flit": FLITS_PER_LINE * count}


def ascending_chase(region: Region, cpu: int | None) -> Workload:
    """A chase over flushed lines one behind the other, as the region must be linked."""
    line = region.line_size
    lines = region.size // line
    away = Probe().repeat(lines, Probe().flush(ARRAY), advance=line).fence()
    return Workload(
        name="far_ascending",
        probes={cpu: away.chase(ARRAY, lines).fence()},
        placements=lambda count: {ARRAY: np.full(count, region.address)},
        volumes=dict.fromkeys(("l1d_fill", "l2_fill", "offcore_mem_read", "mem_read", "home_read"), float(lines)),
        steps=lines,
        unit=2,
    )


def bursts(targets: Targets, cpu: int | None, counts: Iterable[int], roles: tuple[str, ...]) -> list[Workload]:
    """So many flushed lines loaded at once."""
    made = []
    for count in counts:
        probe = _prepared(targets, count).start()
        for offset in _offsets(targets, count):
            probe = probe.load(TARGET + offset)
        made.append(_burst(f"burst_{count}", probe.stop(), targets, cpu, roles))
    return made


def full_queues(region: Region, cpu: int | None, counts: tuple[int, ...], order: NDArray[np.int64]) -> list[Workload]:
    """More flushed lines loaded, or stored to, at once than any queue holds; `order` are their offsets."""
    made = []
    targets = Targets(region, np.random.default_rng(0))
    targets.lines = region.address + order
    for count in counts:
        offsets = [int(each) for each in order[:count] - order[0]]
        ready = _prepared(targets, count)
        for what, roles in (("load", ("fb_full", "sq_full")), ("store", ("stall_store_buffer",))):
            probe = ready.start()
            for offset in offsets:
                probe = probe.load(TARGET + offset) if what == "load" else probe.store(BESIDE_POINTER + offset)
            made.append(_burst(f"full_{what}_{count}", probe.stop(), targets, cpu, roles))
    return made


def _burst(name: str, probe: Probe, targets: Targets, cpu: int | None, roles: tuple[str, ...]) -> Workload:
    return Workload(
        name=name,
        probes={cpu: probe},
        placements=targets.first,
        elapsed=roles,
        unit=8,
    )


def _offsets(targets: Targets, count: int) -> list[int]:
    return [int(each) for each in targets.lines[:count] - targets.lines[0]]


def _prepared(targets: Targets, count: int) -> Probe:
    """The first lines flushed."""
    probe = Probe()
    for offset in _offsets(targets, count):
        probe = probe.flush(TARGET + offset)
    return probe.fence()


def handed_over(targets: Targets, reader: int, writer: int, unit: int) -> Workload:
    """A line that one CPU modifies and another one then loads (Röhl et al. 2015, Table 1.3, a line a step)."""
    return Workload(
        name="handed_over",
        probes={
            reader: Probe().barrier().load(TARGET).fence().barrier(),
            writer: Probe().store(BESIDE_POINTER).fence().barrier().barrier(),
        },
        placements=lambda count: {TARGET: targets.lines[np.arange(count) % len(targets.lines)]},
        volumes={"hitm_local": 1.0},
        unit=unit,
    )


def beside_sibling(workload: Workload, cpu: int, sibling: int, spare: int) -> Workload:
    """The same work while another thread of the core is busy with the line at `spare` and with arithmetic, for events
    of a thread: no others can lose what one does beside another."""
    (own, *others) = workload.probes.items()
    barriers = int((own[1].rows[:, 0] == Kind.BARRIER).sum())
    busy = Probe().repeat(16, Probe().load(BUSY).add(64)).fence()
    for _ in range(barriers):  # or the others would wait for ever
        busy = busy.barrier()

    def placements(count: int) -> Placements:
        placed = workload.placements(count)
        return {**(placed if isinstance(placed, Mapping) else {}), BUSY: np.full(count, spare)}

    return replace(
        workload,
        name=workload.name + BESIDE,
        probes={cpu: own[1], **dict(others), sibling: busy},
        volumes={role: volume for role, volume in workload.volumes.items() if ROLES[role].scope is Scope.THREAD},
        unknown=frozenset(role for role in workload.unknown if ROLES[role].scope is Scope.THREAD),
        placements=placements,
    )


def array_room(array_bytes: int) -> int:
    """Memory that the largest stream takes."""
    return max(stream_bytes(KERNELS[name], array_bytes) for name in STREAMS) + array_spacing(array_bytes)
