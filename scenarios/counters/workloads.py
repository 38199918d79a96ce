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

from setebench.counters.roles import ROLES, Scope
from setebench.kernels import BLOCK_BYTES, KERNELS, array_spacing, stream_bytes
from setebench.machine import Region
from setebench.probe import Base, Kind, Placements, Probe

from .params import Params

PAGE_BYTES = 4096
"""The smallest page, within which prefetchers stay."""

PAGES = 16
"""Pages of the irregular lines: any first TLB holds their entries."""

TARGET, ARRAY, EVICTOR, BUSY = (Base(name) for name in ("target", "array", "evictor", "busy"))
STORE = Probe().store(TARGET + 8)
"""One store: the first 8 bytes of a line hold the pointer that chases follow."""

BESIDE = "_beside_sibling"
"""Ends the name of a workload that is run beside a busy sibling thread."""

READS = ("load_l1_miss", "l1d_fill", "l2_fill", "offcore_mem_read", "mem_read", "home_read")
"""Roles of a load's way to memory."""
FILLS = READS[1:]
OWNED = ("l2_rfo", "l2_rfo_miss")
WRITES = ("l1d_writeback", "l2_writeback", "mem_write", "home_write")
IN_MEMORY = ("mem_write", "home_write")
QUIET = dict.fromkeys((*READS, *OWNED, *WRITES, "load_fb_hit", "hitm_local"), 0.0)
"""Nothing of all that."""
BEYOND_FIRST = ("load_l1_miss", "l1d_fill", "l2_rfo")
BEYOND_SECOND = ("l2_fill", "l2_rfo_miss")
"""Roles of lines from the second level or beyond, and from beyond it."""

STALLS = ("l1d_inflight_sum", "l1d_inflight_cycles", "no_execute", "stall_l1d_miss", "stall_load_any", "cycles")
"""Roles that count cycles of a chase."""
IDLE_CYCLES = ("l1d_inflight_sum", "l1d_inflight_cycles", "stall_l1d_miss", "stall_load_any", "fb_full", "sq_full")
"""Roles of cycles that can't come while nothing is loaded."""

STREAMS = ("load", "ddot", "store", "store_nt", "copy", "daxpy", "triad", "vector_triad")
"""Kernels of Röhl et al., Fig. 1.1. Its text says seven and names six; what it calls ddot is daxpy by its formula, so
both are here. Its stream is our triad, its triad our vector_triad."""

Runs = tuple[tuple[Probe, Placements], ...]


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
    before: Runs = ()
    warm: Runs = ()
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

    def each(self, count: int, operation: Callable[[Probe, int], Probe], probe: Probe | None = None) -> Probe:
        """An operation at the offset of each of so many lines from the first one, one after the other."""
        probe = probe or Probe()
        for offset in (self.lines[:count] - self.lines[0]).tolist():
            probe = operation(probe, offset)
        return probe

    def flushed(self, count: int) -> Probe:
        """So many lines flushed."""
        return self.each(count, lambda probe, offset: probe.flush(TARGET + offset)).fence()


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
    owned = read | {"load_l1_miss": 0.0} | dict.fromkeys((*OWNED, *IN_MEMORY), 1.0)
    # a flush is no write-back of one level to the next, but a core may count it as one
    flushes = frozenset(("l1d_writeback", "l2_writeback"))
    made = {
        "far_load": (ready.load(TARGET), read, frozenset[str]()),
        "far_pair": (ready.load(TARGET).load(TARGET + 8), read | {"load_fb_hit": 1.0}, frozenset[str]()),
        "far_store": (ready + STORE, {role: owned[role] for role in owned if role not in flushes}, flushes),
    }
    for name, (probe, known, unknown) in made.items():
        probe, placed = probe.fence(), targets.draw
        yield Workload(name=name, probe=probe, placements=placed, volumes=known, unknown=unknown, unit=unit)


def hot(targets: Targets, cycles: int) -> Iterator[Workload]:
    """What touches no memory, or one line that stays in L1. Two sizes of each, as the loop around a probe has
    instructions, loads and stores of its own: their difference has none of these."""
    none = dict.fromkeys(("load", "store", "fp_op", "stall_store_buffer", *IDLE_CYCLES), 0.0)
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
        yield Workload(name=name, probe=probe, placements=placements, volumes=known, unit=24)


def streams(region: Region, names: Iterable[str], array_bytes: int, width: int) -> Iterator[Workload]:
    """One pass of each streaming kernel over flushed arrays, the number of lines of each kind known to the line."""
    line, blocks = region.line_size, array_bytes / BLOCK_BYTES
    for kernel in (KERNELS[name] for name in names):
        known = dict.fromkeys(FILLS, blocks * (kernel.read_bytes + kernel.allocated_bytes) / line)
        known |= dict.fromkeys(IN_MEMORY, blocks * kernel.written_bytes / line)
        if not kernel.allocated_bytes and not kernel.read_bytes:  # past the caches: none of them gives a line away
            known |= {"l1d_writeback": 0.0, "l2_writeback": 0.0}
        known |= {"load": blocks * kernel.read_bytes / width, "store": blocks * kernel.written_bytes / width}
        away = Probe().repeat(stream_bytes(kernel, array_bytes) // line, Probe().flush(ARRAY), advance=line).fence()
        probe = away.stream(ARRAY, kernel.name, array_bytes, width).fence()
        yield Workload(name=f"stream_{kernel.name}", probe=probe, placements=_at(region), volumes=known, unit=1)


def _at(region: Region) -> Callable[[int], Placements]:
    return lambda count: {ARRAY: np.full(count, region.address)}


def array_room(array_bytes: int) -> int:
    """Memory that the largest stream takes."""
    return max(stream_bytes(KERNELS[name], array_bytes) for name in STREAMS) + array_spacing(array_bytes)


def arithmetic(region: Region, widths: Iterable[int]) -> Iterator[Workload]:
    """Floating-point work on arrays that stay in L1, in every width (Röhl et al. 2015, Fig. 1.2)."""
    small, passes, kernel = 1024, 8, KERNELS["triad"]
    for width in widths:
        probe = Probe().repeat(passes, Probe().stream(ARRAY, kernel.name, small, width))
        known = {"fp_op": passes * small / BLOCK_BYTES * kernel.block_flops}
        yield Workload(name=f"arithmetic_{width}", probe=probe, placements=_at(region), volumes=known, unit=8)


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
        self.rounds: Runs = ((Probe().chase(TARGET, 2 * len(order)), {TARGET: self._first}),)

    def starts(self, count: int, steps: int) -> NDArray[np.int64]:
        """Where `count` chases of so many steps begin, one behind the other."""
        at = (self._next + np.arange(count) * steps) % len(self.order)
        self._next = int(self._next + count * steps) % len(self.order)
        self._first[0] = self.order[self._next]
        return self.order[at]


def served(level: str, ring: Ring, fraction: float, params: Params) -> Iterator[Workload]:
    """A chase over a working set that a level serves, with and without multiplications, and stores to the second
    level's. `fraction` of the accesses whose lines the level before it lacks: none or one where that is as good."""
    looseness = params.looseness
    part = fraction if looseness < fraction < 1 - looseness else float(round(fraction))
    lines = dict.fromkeys(BEYOND_FIRST, 1.0 if level == "l3" else part)
    lines |= dict.fromkeys(BEYOND_SECOND, part if level == "l3" else 0.0)
    steps = 256
    known = {role: lines.get(role, volume) for role, volume in QUIET.items() if role not in (*WRITES, *OWNED)}
    yield from _chases(
        Workload(
            name=f"{level}_chase",
            probe=Probe(),
            placements=lambda count: {TARGET: ring.starts(count, steps)},
            volumes={role: steps * volume for role, volume in known.items()},
            loose={role: max(looseness, min(volume, 1 - volume)) for role, volume in known.items()},
            elapsed=STALLS,
            steps=steps,
            unit=12,
            warm=ring.rounds,
        )
    )
    if level == "l2":
        yield Workload(
            name=f"{level}_store",
            probe=STORE,
            placements=lambda count: {TARGET: ring.starts(count, 1)},
            volumes={role: lines[role] for role in OWNED},
            loose={"l2_rfo": params.store_looseness, "l2_rfo_miss": looseness},
            unit=1024,
            warm=ring.rounds,
        )


def _chases(plain: Workload) -> Iterator[Workload]:
    """A chase of `steps` behind what the workload's probe does, timed: without arithmetic, and with multiplications
    within it, whose volumes are not known."""
    for work in ("", "chained"):
        probe = plain.probe.start().chase(TARGET, plain.steps, work=work).stop()
        name = f"{plain.name}_{work}" if work else plain.name
        yield replace(plain, name=name, probe=probe, volumes={} if work else plain.volumes)


def flushed_chases(targets: Targets, lines: tuple[int, ...]) -> Iterator[Workload]:
    """Chases over so many flushed lines, with and without multiplications. The region must be linked in the order of
    the lines."""
    for count in lines:
        name, probe, placed = f"far_chase_{count}", targets.flushed(count), targets.first
        yield from _chases(Workload(name=name, probe=probe, placements=placed, elapsed=STALLS, steps=count, unit=24))


def ascending_chase(region: Region) -> Workload:
    """A chase over flushed lines one behind the other, as the region must be linked. How long a step takes says how
    near prefetchers bring its lines."""
    lines = region.size // region.line_size
    return Workload(
        name="far_ascending",
        probe=flushes(region).start().chase(ARRAY, lines).stop(),
        placements=_at(region),
        volumes=dict.fromkeys(FILLS, float(lines)),
        steps=lines,
        unit=2,
    )


def burst(name: str, targets: Targets, count: int, roles: tuple[str, ...], *, stores: bool = False) -> Workload:
    """So many flushed lines loaded, or stored to, at once."""

    def access(probe: Probe, offset: int) -> Probe:
        return probe.store(TARGET + 8 + offset) if stores else probe.load(TARGET + offset)

    probe = targets.each(count, access, targets.flushed(count).start()).stop()
    return Workload(name=name, probe=probe, placements=targets.first, elapsed=roles, unit=8)


# -- lines that are driven out -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Dirty:
    """Lines to modify, some in each repetition, and the region of the evictor lines that drive them out."""

    region: Region
    evictors: Region
    params: Params

    @property
    def step_bytes(self) -> int:
        """From one modified line to the next."""
        return self.params.dirty_apart * self.region.line_size

    @property
    def begins(self) -> NDArray[np.int64]:
        """Where the lines of each repetition begin that the region has room for."""
        size = self.params.dirty_lines * self.step_bytes
        return self.region.address + np.arange(self.region.size // size) * size

    def each(self, operation: Probe, repetitions: int = 1) -> Probe:
        """An operation at `ARRAY` on each of the lines of so many repetitions."""
        return Probe().repeat(repetitions * self.params.dirty_lines, operation, advance=self.step_bytes).fence()

    def passing(self, size_bytes: int) -> Probe:
        """A pass over so many bytes of evictor lines."""
        line = self.evictors.line_size
        return Probe().repeat(size_bytes // line, Probe().load(EVICTOR), advance=line).fence()


def driven_out(
    name: str, dirty: Dirty, size_bytes: int, known: Mapping[str, float], loose: Mapping[str, float]
) -> Workload:
    """Modified lines that a pass over so many bytes of evictor lines drives out, and what each has caused then. Every
    repetition has lines of its own, flushed beforehand: one that comes again would come modified from the next
    cache, where that gives away what it holds, and might leave more than once. Nothing is ever written to an evictor
    line, or it would be counted when it leaves. One pass drives out the lines of all repetitions where it is so long
    that these are nothing beside it."""
    driving = dirty.passing(size_bytes)

    def at_once(repetitions: int) -> Probe:
        return dirty.each(Probe().store(ARRAY + 8), repetitions) + driving

    return Workload(
        name=f"driven_out_{name}",
        probe=at_once(1),
        at_once=at_once if name != "l1d" else None,
        placements=lambda count: {ARRAY: dirty.begins[:count], EVICTOR: np.full(count, dirty.evictors.address)},
        volumes={role: dirty.params.dirty_lines * volume for role, volume in known.items()},
        loose=loose,
        unit=1,
        before=((flushes(dirty.region), {ARRAY: dirty.begins[:1]}),),
        # what other workloads modified leaves the caches with the first of these
        warm=((driving, {EVICTOR: np.full(2, dirty.evictors.address)}),),
        unknown=frozenset(WRITES) - set(known),
    )


# -- beside others ---------------------------------------------------------------------------------------------------


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
