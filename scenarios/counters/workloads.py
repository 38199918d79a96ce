"""Workloads whose events are known beforehand: how many of each role one repetition causes, by what is flushed first,
driven out, or hot.

Lines are flushed before they are used, so that nothing has to be known of the caches: a flushed line comes from memory,
once. Irregular ones lie in pages of their own, so that no prefetcher foresees them, and what it brings along beside
them stays in the caches from the first repetition on. Streams are those of Röhl et al. 2015 (Fig. 1.1) with their
write-allocates; chases with and without multiplications those of Molka et al. 2017 (section 3.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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
    """A probe, what `partners` run meanwhile on CPUs of these numbers, and what one repetition causes.

    `volumes`: events by role; a role that is not in it is not known here. Those of `loose` roles hold about, within so
    many lines per access: a level served them that was found by timing. Of roles `unknown` nobody knows how many there
    are; that others have so many distinguishes them. `elapsed`: roles that count cycles, of which the timed
    interval (number 0) is the measure; `steps`: of what the interval is about. `unit`: repetitions in a unit of amount.
    What is `before` is run before every reading, `warm` once an epoch, and once for all workloads that share it: others
    have driven its lines out. `at_once` is the probe for so many repetitions together, instead of the probe so many
    times, where what they have in common takes the time."""

    name: str
    probe: Probe
    placements: Callable[[int], Placements]
    partners: Mapping[int, Probe] = field(default_factory=dict)
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


@dataclass(frozen=True)
class Targets:
    """Lines of a region in an order of their own, drawn from as `draw` says."""

    region: Region
    lines: NDArray[np.int64]
    rng: np.random.Generator

    def draw(self, count: int) -> Placements:
        """`count` of the lines in random order, each as often as the others: what a prefetcher brings along beside a
        line comes with its first use, so that all of them must have been used before anything is counted."""
        rounds = -(-count // len(self.lines))
        return {TARGET: np.concatenate([self.rng.permutation(self.lines) for _ in range(rounds)])[:count]}

    def first(self, count: int) -> Placements:
        """The first line, `count` times."""
        return {TARGET: np.full(count, self.lines[0])}

    def offsets(self, count: int) -> list[int]:
        """Of so many lines, from the first one on."""
        return [int(each) for each in self.lines[:count] - self.lines[0]]

    def flushed(self, count: int) -> Probe:
        """So many lines flushed."""
        probe = Probe()
        for offset in self.offsets(count):
            probe = probe.flush(TARGET + offset)
        return probe.fence()


def scattered(region: Region, rng: np.random.Generator) -> Targets:
    """Irregular lines: one in each of some pages, at random places and in random order. No other line of these pages is
    ever used, or a prefetcher that learns a region's lines would bring one for the other; a flush translates its
    address, so that the TLB entry is warm without."""
    lines = PAGE_BYTES // region.line_size
    pages = region.address + rng.permutation(region.size // PAGE_BYTES) * PAGE_BYTES
    at = rng.integers(lines // 4, lines * 3 // 4, len(pages))  # away from the edges, which neighbours could reach
    return Targets(region, pages + at * region.line_size, rng)


def flushed(targets: Targets, unit: int) -> Iterator[Workload]:
    """Single lines from memory: loaded, loaded twice at once, or stored to."""
    ready = Probe().flush(TARGET).fence()
    read = QUIET | dict.fromkeys(READS, 1.0)
    owned = read | {"load_l1_miss": 0} | dict.fromkeys((*OWNED, "mem_write", "home_write"), 1)
    # a flush is no write-back of one level to the next, but a core may count it as one
    flushes = frozenset(("l1d_writeback", "l2_writeback"))
    made = {
        "far_load": (ready.load(TARGET), read),
        "far_pair": (ready.load(TARGET).load(TARGET + 8), read | {"load_fb_hit": 1}),
        "far_store": (ready.store(BESIDE_POINTER), {role: owned[role] for role in owned if role not in flushes}),
    }
    for name, (probe, known) in made.items():
        unknown = flushes - set(known)
        yield Workload(
            name=name, probe=probe.fence(), placements=targets.draw, volumes=known, unknown=unknown, unit=unit
        )


STORE = Probe().store(BESIDE_POINTER)
"""One access to a working set that stores go to."""

IDLE_CYCLES = ("l1d_inflight_sum", "l1d_inflight_cycles", "stall_l1d_miss", "stall_load_any", "fb_full", "sq_full")
"""Roles of cycles that can't come while nothing is loaded."""


def hot(targets: Targets, cycles: int, unit: int) -> Iterator[Workload]:
    """What touches no memory, or one line that stays in L1. Two sizes of each, as the loop around a probe has
    instructions, loads and stores of its own: their difference has none of these."""
    none = dict.fromkeys(("load", "store", "fp_op", "stall_store_buffer"), 0) | dict.fromkeys(IDLE_CYCLES, 0.0)
    made: dict[str, tuple[Probe, dict[str, float]]] = {"idle": (Probe().start().wait(cycles).stop(), QUIET | none)}
    for few in (64, 192):
        work = 20 * few
        made |= {
            f"hot_load_{few}": (Probe().repeat(few, Probe().load(TARGET)), QUIET | {"load": few}),
            f"hot_store_{few}": (Probe().repeat(few, STORE), QUIET | {"store": few}),
            f"nops_{few}": (Probe().start().nop(work).stop(), {"instructions": float(work)}),
            f"additions_{few}": (Probe().start().add(work).stop(), {"cycles": float(work), "no_execute": 0.0}),
            f"multiplications_{few}": (Probe().start().multiply(work).stop(), {"instructions": float(work)}),
        }
    for name, (probe, known) in made.items():
        placements = targets.first if TARGET in probe.bases else int
        yield Workload(name=name, probe=probe, placements=placements, volumes=known, unit=unit)


def streams(region: Region, names: Iterable[str], array_bytes: int, width: int) -> Iterator[Workload]:
    """One pass of each streaming kernel over flushed arrays, the number of lines of each kind known to the line."""
    line = region.line_size
    for kernel in (KERNELS[name] for name in names):
        read, written = _stream_lines(kernel, array_bytes, line)
        known = dict.fromkeys(("l1d_fill", "l2_fill", "offcore_mem_read", "mem_read", "home_read"), read)
        known |= {"mem_write": written, "home_write": written}
        if not kernel.allocated_bytes and not kernel.read_bytes:  # past the caches: none of them gives a line away
            known |= {"l1d_writeback": 0.0, "l2_writeback": 0.0}
        away = Probe().repeat(stream_bytes(kernel, array_bytes) // line, Probe().flush(ARRAY), advance=line).fence()
        yield _stream(f"stream_{kernel.name}", (away, kernel, array_bytes, width), region, known)


def level_streams(level: str, region: Region, names: Iterable[str], sizes: tuple[int, int]) -> Iterator[Workload]:
    """One pass of each streaming kernel over arrays that `level` serves, so that the level before it passes all lines
    on; `sizes`: bytes of all arrays together, and of one access. How much stays in the nearer levels depends on their
    replacement."""
    beyond = float(level == "l3")
    for kernel in (KERNELS[name] for name in names):
        array_bytes = sizes[0] // kernel.arrays // BLOCK_BYTES * BLOCK_BYTES
        read, written = _stream_lines(kernel, array_bytes, region.line_size)
        known = {"l1d_fill": read, "l1d_writeback": written, "l2_fill": beyond * read, "l2_writeback": beyond * written}
        known |= dict.fromkeys(("mem_read", "home_read", "mem_write", "home_write"), 0.0)
        yield _stream(f"stream_{kernel.name}_{level}", (Probe(), kernel, array_bytes, sizes[1]), region, known)


def _stream_lines(kernel: Kernel, array_bytes: int, line: int) -> tuple[float, float]:
    """Lines that a pass brings in, and lines that it leaves modified."""
    blocks = array_bytes / BLOCK_BYTES
    return blocks * (kernel.read_bytes + kernel.allocated_bytes) / line, blocks * kernel.written_bytes / line


def _stream(name: str, what: tuple[Probe, Kernel, int, int], region: Region, known: dict[str, float]) -> Workload:
    """`what`: operations before it, the kernel, and bytes of an array and of an access."""
    before, kernel, array_bytes, width = what
    blocks = array_bytes / BLOCK_BYTES
    accesses = {"load": blocks * kernel.read_bytes / width, "store": blocks * kernel.written_bytes / width}
    return Workload(
        name=name,
        probe=before.stream(ARRAY, kernel.name, array_bytes, width).fence(),
        placements=lambda count: {ARRAY: np.full(count, region.address)},
        volumes={**known, **accesses},
        unit=1,
    )


def arithmetic(region: Region, widths: Iterable[int]) -> Iterator[Workload]:
    """Floating-point work on arrays that stay in L1, in every width (Röhl et al. 2015, Fig. 1.2)."""
    small, passes, kernel = 1024, 8, KERNELS["triad"]
    for width in widths:
        yield Workload(
            name=f"arithmetic_{width}",
            probe=Probe().repeat(passes, Probe().stream(ARRAY, kernel.name, small, width)),
            placements=lambda count: {ARRAY: np.full(count, region.address)},
            volumes={"fp_op": passes * small / BLOCK_BYTES * kernel.block_flops},
            unit=8,
        )


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


def driven_out(name: str, dirty: Dirty, passed: Pass, looseness: float) -> Workload:
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
        probe=at_once(1),
        at_once=at_once if name != "l1d" else None,
        placements=lambda count: {ARRAY: dirty.begins[:count], EVICTOR: np.repeat(evictors[EVICTOR], count)},
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


def served(
    level: str, ring: Ring, fractions: Mapping[str, float], stalls: tuple[str, ...], looseness: float
) -> Iterator[Workload]:
    """A chase over a working set that a level serves, with and without multiplications, and stores to it. `fractions`
    of the accesses that each role counts: of loads those of `READS`, of stores those of `OWNED`."""
    steps = 256
    known, loose = _volumes_of(QUIET | {role: fractions[role] for role in READS}, looseness)
    yield from _chases(
        Workload(
            name=f"{level}_chase",
            probe=Probe(),
            placements=lambda count: {TARGET: ring.starts(count, steps)},
            volumes={role: steps * volume for role, volume in known.items() if role not in WRITES},
            loose=loose,
            elapsed=stalls,
            steps=steps,
            unit=12,
            warm=ring.rounds,
        )
    )
    known, loose = _volumes_of({role: fractions[role] for role in OWNED}, looseness)
    yield Workload(
        name=f"{level}_store",
        probe=STORE,
        placements=lambda count: {TARGET: ring.starts(count, 1)},
        volumes=known,
        loose=loose,
        unit=1024,
        warm=ring.rounds,
    )


def _chases(plain: Workload) -> Iterator[Workload]:
    """A chase of `steps` behind what the workload's probe does, timed: without arithmetic, and with multiplications
    beside and within it, whose volumes are not known."""
    for work in ("", "free", "chained"):
        probe = plain.probe.start().chase(TARGET, plain.steps, work=work).stop()
        name = f"{plain.name}_{work}" if work else plain.name
        yield replace(plain, name=name, probe=probe, volumes={} if work else plain.volumes)


def _volumes_of(fractions: Mapping[str, float], looseness: float) -> tuple[dict[str, float], dict[str, float]]:
    """Events of an access by role, none or one where that is as good, and how far off each may be: a mixture's fraction
    is about right, as what its two levels take is known about."""
    known = {role: each if looseness < each < 1 - looseness else float(round(each)) for role, each in fractions.items()}
    return known, {role: max(looseness, min(each, 1 - each)) for role, each in known.items()}


def flushed_chases(targets: Targets, lines: tuple[int, ...], stalls: tuple[str, ...]) -> Iterator[Workload]:
    """Chases over so many flushed lines, with and without multiplications. The region must be linked in the order of
    the lines."""
    for count in lines:
        yield from _chases(
            Workload(
                name=f"far_chase_{count}",
                probe=targets.flushed(count),
                placements=targets.first,
                elapsed=stalls,
                steps=count,
                unit=24,
            )
        )


def remote(targets: Targets, ascending: Region, unit: int) -> Iterator[Workload]:
    """Single flushed lines of another node's memory, and a chase over such lines one behind the other. At whose memory
    controllers a machine counts them is its own affair."""
    probe = Probe().flush(TARGET).fence().load(TARGET).fence()
    known = dict.fromkeys(("l1d_fill", "l2_fill"), 1.0) | _remote_lines(1.0)
    yield Workload(name="remote_load", probe=probe, placements=targets.draw, volumes=known, unit=unit)
    chase = ascending_chase(ascending)
    yield replace(chase, name="remote_ascending", volumes=_remote_lines(float(chase.steps)))


def _remote_lines(count: float) -> dict[str, float]:
    return {"remote_read": count, "link_flit": FLITS_PER_LINE * count}


def ascending_chase(region: Region) -> Workload:
    """A chase over flushed lines one behind the other, as the region must be linked."""
    lines = region.size // region.line_size
    return Workload(
        name="far_ascending",
        probe=flushes(region).chase(ARRAY, lines).fence(),
        placements=lambda count: {ARRAY: np.full(count, region.address)},
        volumes=dict.fromkeys(("l1d_fill", "l2_fill", "offcore_mem_read", "mem_read", "home_read"), float(lines)),
        steps=lines,
        unit=2,
    )


def burst(name: str, targets: Targets, count: int, roles: tuple[str, ...], *, stores: bool = False) -> Workload:
    """So many flushed lines loaded, or stored to, at once."""
    probe = targets.flushed(count).start()
    for offset in targets.offsets(count):
        probe = probe.store(BESIDE_POINTER + offset) if stores else probe.load(TARGET + offset)
    return Workload(name=name, probe=probe.stop(), placements=targets.first, elapsed=roles, unit=8)


def handed_over(targets: Targets, writer: int, unit: int) -> Workload:
    """A line that one CPU modifies and another one then loads (Röhl et al. 2015, Table 1.3, a line a step)."""
    return Workload(
        name="handed_over",
        probe=Probe().barrier().load(TARGET).fence().barrier(),
        partners={writer: STORE.fence().barrier().barrier()},
        placements=lambda count: {TARGET: targets.lines[np.arange(count) % len(targets.lines)]},
        volumes={"hitm_local": 1.0},
        unit=unit,
    )


def beside_sibling(workload: Workload, sibling: int, spare: int) -> Workload:
    """The same work while another thread of the core is busy with the line at `spare` and with arithmetic, for events
    of a thread: no others can lose what one does beside another."""
    busy = Probe().repeat(16, Probe().load(BUSY).add(64)).fence()
    for _ in range(int((workload.probe.rows[:, 0] == Kind.BARRIER).sum())):  # or the others would wait for ever
        busy = busy.barrier()

    def placements(count: int) -> Placements:
        placed = workload.placements(count)
        return {**(placed if isinstance(placed, Mapping) else {}), BUSY: np.full(count, spare)}

    return replace(
        workload,
        name=workload.name + BESIDE,
        partners={**workload.partners, sibling: busy},
        volumes={role: volume for role, volume in workload.volumes.items() if ROLES[role].scope is Scope.THREAD},
        unknown=frozenset(role for role in workload.unknown if ROLES[role].scope is Scope.THREAD),
        placements=placements,
    )


def array_room(array_bytes: int) -> int:
    """Memory that the largest stream takes."""
    return max(stream_bytes(KERNELS[name], array_bytes) for name in STREAMS) + array_spacing(array_bytes)
