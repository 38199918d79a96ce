"""Workloads whose events are known beforehand: how many of each role one piece of work causes, by what is flushed
first, or hot, or served by a level that timing found.

Lines are flushed before they are used, so that nothing has to be known of the caches: a flushed line comes from memory,
once. Irregular ones lie in pages of their own, so that no prefetcher foresees them, and what it brings along beside
them stays in the caches from the first repetition on. Streams are those of Röhl et al. 2015 (Fig. 1.1) with their
write-allocates; chases with and without multiplications those of Molka et al. 2017 (section 3.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.counters.roles import ROLES, Scope
from setebench.experiments.calibrate import quick_cycles_per_tick, step_ticks
from setebench.experiments.levels import find_levels
from setebench.experiments.lines.layout import lay, span_bytes
from setebench.kernels import BLOCK_BYTES, KERNELS, stream_bytes
from setebench.machine import Region
from setebench.probe import Base, Kind, Placements, Probe
from setebench.scenario import Context
from setebench.stats.ticks.location import mean_ticks

from .params import Params

PAGE_BYTES = 4096
"""The smallest page, within which prefetchers stay."""
PAGES = 32
"""Pages of the irregular lines: any first TLB holds their entries."""
TARGET, BUSY = Base("target"), Base("busy")
STORE = Probe().store(TARGET + 8)
"""One store: the first 8 bytes of a line hold the pointer that chases follow."""
BESIDE = "_beside_sibling"
"""Ends the name of a workload that is run beside a busy sibling thread."""

READS = ("load_l1_miss", "l1d_fill", "l2_fill", "offcore_mem_read", "mem_read", "home_read")
"""Roles of a load's way to memory."""
FILLS, MEMORY_READS = READS[1:], READS[3:]
OWNED = ("l2_rfo", "l2_rfo_miss")
GIVEN_AWAY = ("l1d_writeback", "l2_writeback")
IN_MEMORY = ("mem_write", "home_write")
QUIET = dict.fromkeys((*READS, *OWNED, *GIVEN_AWAY, *IN_MEMORY, "load_fb_hit", "hitm_local"), 0.0)
"""Nothing of all that."""
STALLS = ("l1d_inflight_sum", "l1d_inflight_cycles", "no_execute", "stall_l1d_miss", "stall_load_any")
"""Roles that count cycles of a chase."""
WHILE_LOADING = ("l1d_inflight_sum", "l1d_inflight_cycles", "stall_l1d_miss", "stall_load_any", "fb_full", "sq_full")
"""Roles of cycles that can't come while nothing is loaded."""

HOT, CHASE, RING_STEPS, STREAM_LINES = 24, 8, 256, 512
"""Repetitions of work that touches no memory; lines of the shortest flushed chase; steps of one around a working set;
lines of a stream, beside which a prefetcher's overshoot is nothing."""
BURSTS = (1, 2, 3, 4, 6, 8)
"""Misses at once, around the 4 where a floor of quarters begins."""
FULL_LINES, FULL_PAGES = 480, 8
"""Misses at once, four times the largest queue known, and pages of these in turn: half of what the smallest first TLB
holds."""
IDLE_CYCLES = 2000

Runs = tuple[tuple[Probe, Placements], ...]
Make = Callable[[int], tuple[Probe, Placements]]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What `make` says is run for so many units of `unit` pieces of work each, what `partners` run meanwhile on CPUs of
    these numbers, and what one piece causes.

    `expected`: events by role; a role that is not in it is not known here. Those with a `tolerance` hold within so many
    lines a piece: a level served them that was found by timing. `timed`: roles that count cycles, of which the timed
    interval (number 0) is the measure. `beside`: what an event loses beside a busy sibling shows here, too. What is in
    `warm` is run once an epoch: others have evicted its lines."""

    name: str
    make: Make
    unit: int
    expected: Mapping[str, float] = field(default_factory=dict)
    tolerance: Mapping[str, float] = field(default_factory=dict)
    timed: tuple[str, ...] = ()
    beside: bool = False
    partners: Mapping[int, Probe] = field(default_factory=dict)
    warm: Callable[[], Runs] = tuple

    @property
    def roles(self) -> set[str]:
        """Roles that are counted under this workload."""
        return {*self.expected, *self.timed}


def sized(
    name: str,
    probe: Callable[[int], Probe],
    size: int,
    placements: Callable[[int], Placements],
    repetitions: int,
    **known: Any,
) -> Workload:
    """A probe of so much work, repeated: nothing of the loop around it is in the slope over amounts."""
    return Workload(
        name=name,
        make=lambda amount: (probe(amount * size), placements(repetitions)),
        unit=size * repetitions,
        **known,
    )


def repeated(
    name: str, probe: Probe, placements: Callable[[int], Placements], unit: int, pieces: int = 1, **known: Any
) -> Workload:
    """A probe of so many pieces of work, repeated so often for each unit of amount."""
    return Workload(name=name, make=lambda amount: (probe, placements(amount * unit)), unit=unit * pieces, **known)


@dataclass(frozen=True)
class Targets:
    """Lines of a region in an order of their own."""

    region: Region
    lines: NDArray[np.int64]
    rng: np.random.Generator

    def drawn(self, count: int) -> Placements:
        """So many of the lines in random order, each as often as the others: what a prefetcher brings along beside a
        line comes with its first use, so all of them must have been used before anything is counted."""
        order = [self.rng.permutation(self.lines) for _ in range(-(-count // len(self.lines)))]
        return {TARGET: np.concatenate(order)[:count]}

    def first(self, count: int) -> Placements:
        """The first line, `count` times."""
        return {TARGET: np.full(count, self.lines[0])}

    def each(self, count: int, operation: Callable[[Probe, int], Probe], probe: Probe) -> Probe:
        """An operation at the offset of each of so many lines from the first one, one after the other."""
        for offset in (self.lines[:count] - self.lines[0]).tolist():
            probe = operation(probe, offset)
        return probe

    def flushed(self, count: int) -> Probe:
        """So many lines flushed."""
        return self.each(count, lambda probe, offset: probe.flush(TARGET + offset), Probe()).fence()

    def burst(self, count: int, *, stores: bool = False) -> Probe:
        """So many flushed lines loaded, or stored to, at once."""

        def access(probe: Probe, offset: int) -> Probe:
            return probe.store(TARGET + 8 + offset) if stores else probe.load(TARGET + offset)

        return self.each(count, access, self.flushed(count).start()).stop()


class Ring:
    """Lines of a working set in a cyclic order, gone on with from run to run: else the first ones would come again too
    soon."""

    def __init__(self, order: NDArray[np.int64]) -> None:
        self.order = order
        self._next = 0

    def placed(self, steps: int, count: int) -> Placements:
        """Where `count` pieces of so many steps begin, one behind the other."""
        at = (self._next + np.arange(count) * steps) % len(self.order)
        self._next = int(self._next + count * steps) % len(self.order)
        return {TARGET: self.order[at]}

    def chased(self) -> Runs:
        """A chase around all of it, twice, from where the next run begins: each line was last used a round ago then."""
        return ((Probe().chase(TARGET, 2 * len(self.order)), {TARGET: self.order[[self._next]]}),)

    def stored(self) -> Runs:
        """A store to each line, so that each is modified when it leaves a cache."""
        return ((STORE, self.placed(1, len(self.order))),)


@dataclass(frozen=True, kw_only=True)
class Levels:
    """What timing says of the caches: bytes of a working set that the second level serves, and where it ends (None
    where none was found), whether it is known that there is a third one, or none (`numbered`), and ticks of a step that
    the first level, the second, the third (0 for none) and memory serves."""

    near_ticks: float
    second_ticks: float
    memory_ticks: float
    second: float | None = None
    second_bytes: float | None = None
    third_ticks: float = 0.0
    numbered: bool = False


def _count(repetitions: int) -> Placements:
    """Of probes that touch no memory."""
    return repetitions


def _timed(operation: str, count: int) -> Probe:
    """So many operations of a kind, one behind the other."""
    found: Probe = getattr(Probe().start(), operation)(count)
    return found.stop()


class Battery:
    """The workloads of a machine, and the memory that they use until `close`."""

    def __init__(self, context: Context, params: Params) -> None:
        self._context, self._params = context, params
        self._stack = ExitStack()
        try:
            context.progress("where the levels are")
            self._chased = self._targets(17)
            self.levels = self._find_levels()
            parts = (self._lines(), self._hot(), self._misses(), self._streams(), self._served(), self._handed_over())
            own = [workload for part in parts for workload in part]
            self.workloads = {workload.name: workload for workload in (*own, *self._beside(own))}
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the memory back."""
        self._stack.close()

    def _allocate(self, size: int) -> Region:
        return self._stack.enter_context(self._context.memory(size))

    def _targets(self, seed: int) -> Targets:
        """Irregular lines, linked: one in each of some pages, at random places and in random order. No other line of
        these pages is ever used, or a prefetcher that learns a region's lines would bring one for the other; a flush
        translates its address, so that the TLB entry is warm without."""
        region, rng = self._allocate(PAGES * PAGE_BYTES), self._context.rng(seed)
        lines = PAGE_BYTES // region.line_size
        at = rng.integers(lines // 4, lines * 3 // 4, PAGES)  # away from the edges, which neighbours could reach
        order = region.address + rng.permutation(PAGES) * PAGE_BYTES + at * region.line_size
        self._context.machine.link(region, order)
        return Targets(region, order, rng)

    def _find_levels(self) -> Levels:
        """The second level is the nearest that answers behind the first."""
        context = self._context
        found, per_tick = find_levels(context), quick_cycles_per_tick(context)
        few, many = (self._ticks(self._chase(count), self._chased.first(64)) for count in (CHASE, 2 * CHASE))
        before = found.ends_bytes.get("l1", 0.0)
        behind = []
        for name in found.caches[1:]:
            ends = found.ends_bytes.get(name)
            behind.append((found.cycles[name], (before * ends) ** 0.5 if ends else 2 * before, ends))
            before = ends or 2 * before
        nearest = min(behind, key=lambda each: each[0], default=None)
        memory = (many - few) / CHASE
        cycles, second, ends = nearest or (memory * per_tick, None, None)
        levels = Levels(
            near_ticks=found.cycles["l1"] / per_tick,
            second_ticks=cycles / per_tick,
            memory_ticks=memory,
            second=second,
            second_bytes=ends or second,
            numbered=bool(behind),
        )
        if levels.numbered and len(behind) > 1:
            levels = replace(levels, third_ticks=behind[1][0] / per_tick)
        context.evidence["working_sets"] = asdict(levels)
        return levels

    def _ticks(self, probe: Probe, placements: Placements) -> float:
        context = self._context
        ticks = context.machine.run(probe, placements, cpu=context.cpu, warmup=4)
        return mean_ticks(ticks[:, 0], step_ticks(context))

    # -- the workloads ----------------------------------------------------------------------------------------------

    def _lines(self) -> Iterator[Workload]:
        """Single lines from memory: loaded, loaded twice at once, or stored to."""
        ready, unit = Probe().flush(TARGET).fence(), self._params.repetitions
        read = QUIET | dict.fromkeys(READS, 1.0)
        # a flush is no write-back of one level to the next, but a core may count it as one
        owned = {role: read[role] for role in read if role not in GIVEN_AWAY}
        owned |= {"load_l1_miss": 0.0} | dict.fromkeys((*OWNED, *IN_MEMORY), 1.0)
        drawn = self._targets(18).drawn
        pair = ready.load(TARGET).load(TARGET + 8)
        yield repeated("far_load", ready.load(TARGET).fence(), drawn, unit, expected=read, beside=True)
        yield repeated("far_pair", pair.fence(), drawn, unit, expected=read | {"load_fb_hit": 1.0}, beside=True)
        yield repeated("far_store", (ready + STORE).fence(), drawn, unit, expected=owned, beside=True)

    def _hot(self) -> Iterator[Workload]:
        """What touches no memory, or one line that stays in L1."""
        none = QUIET | dict.fromkeys(("load", "store", "fp_op", "stall_store_buffer", *WHILE_LOADING), 0.0)
        yield repeated("idle", Probe().start().wait(IDLE_CYCLES).stop(), _count, HOT, expected=none)
        for kind, access in (("load", Probe().load(TARGET)), ("store", STORE)):
            probe, line = partial(Probe().repeat, body=access), self._targets(19).first
            yield sized(f"hot_{kind}", probe, 64, line, HOT, expected={kind: 1.0}, beside=True)
        for name, operation, expected in (
            ("nops", "nop", {"instructions": 1.0}),
            ("multiplications", "multiply", {"instructions": 1.0}),
            ("additions", "add", {"cycles": 1.0, "no_execute": 0.0}),
        ):
            yield sized(name, partial(_timed, operation), 640, _count, HOT, expected=expected, beside=True)

    def _chase(self, count: int, work: str = "") -> Probe:
        return self._chased.flushed(count).start().chase(TARGET, count, work=work).stop()

    def _misses(self) -> Iterator[Workload]:
        """Chases and bursts over flushed lines."""
        first, chained = self._chased.first, partial(self._chase, work="chained")
        yield sized("far_chase", self._chase, CHASE, first, HOT, timed=STALLS, beside=True)
        yield sized("far_chase_chained", chained, CHASE, first, HOT, timed=STALLS)
        for count in BURSTS:
            yield repeated(f"burst_{count}", self._chased.burst(count), first, 8, timed=("l1d_inflight_sum",))
        full = self._full()
        for name, timed in (("full_load", ("fb_full", "sq_full")), ("full_store", ("stall_store_buffer",))):
            for end, lines in (("", 2 * FULL_LINES), ("_half", FULL_LINES)):
                burst = full.burst(lines, stores="store" in name)
                yield repeated(f"{name}{end}", burst, full.first, 8, timed=timed, beside=True)

    def _full(self) -> Targets:
        """Every second line of some pages in turn, then of some others: no prefetcher brings a line that is still to
        come, none sees two lines of a page in a row, and few loads wait for a TLB entry instead of a line."""
        rng, most = self._context.rng(23), 2 * FULL_LINES
        stride = 2 * self._context.line_size
        turns = -(-most // (FULL_PAGES * (PAGE_BYTES // stride - 1)))
        region = self._allocate(turns * FULL_PAGES * PAGE_BYTES)
        pages = rng.permutation(np.arange(0, region.size, PAGE_BYTES)).reshape(-1, FULL_PAGES, 1)
        lines = rng.permuted(np.tile(np.arange(stride, PAGE_BYTES, stride), (*pages.shape[:2], 1)), axis=2)
        order = (lines + pages).transpose(0, 2, 1).ravel()[:most]
        return Targets(region, region.address + order, rng)

    def _streams(self) -> Iterator[Workload]:
        """Consecutive flushed lines, chased and written past the caches; floating-point work on arrays that stay in L1,
        in two widths (Röhl et al. 2015, Fig. 1.2)."""
        machine, facts, line = self._context.machine, self._context.machine.facts, self._context.line_size
        size = STREAM_LINES * line
        region = self._allocate(stream_bytes(KERNELS["store_nt"], size))
        machine.link(region, region.address + np.arange(STREAM_LINES) * line)
        away = Probe().repeat(STREAM_LINES, Probe().flush(TARGET), advance=line).fence()

        def at(count: int) -> Placements:
            return {TARGET: np.full(count, region.address)}

        # how long a step takes says how near prefetchers bring its lines
        chase, expected = away.start().chase(TARGET, STREAM_LINES).stop(), dict.fromkeys(FILLS, 1.0)
        yield repeated("far_ascending", chase, at, 2, STREAM_LINES, expected=expected)
        if "store_nt" in facts.kernels:
            probe = away.stream(TARGET, "store_nt", size, max(facts.access_sizes)).fence()
            expected = dict.fromkeys(IN_MEMORY, 1.0) | dict.fromkeys(GIVEN_AWAY, 0.0)
            yield repeated("stream_store_nt", probe, at, 1, STREAM_LINES, expected=expected)
        small, kernel = 1024, KERNELS["triad"]
        widths = {min(facts.access_sizes), max(facts.access_sizes)} if "triad" in facts.kernels else set()
        for width in sorted(widths):
            probe = Probe().repeat(8, Probe().stream(TARGET, kernel.name, small, width))
            pieces = int(8 * small / BLOCK_BYTES * kernel.block_flops)
            yield repeated(f"arithmetic_{width}", probe, at, 8, pieces, expected={"fp_op": 1.0}, beside=True)

    def _served(self) -> Iterator[Workload]:
        """Chases around a working set that the second level serves and around one that it can't hold, and stores to
        both: each line of the latter leaves both levels modified, once a round. Which part of the former the first
        level lacks, and of the latter the third, is what a step takes between what it takes in either level."""
        levels, params = self.levels, self._params
        if levels.second is None or levels.second_bytes is None:
            return
        near, beyond = self._ring(levels.second), self._ring(params.beyond * levels.second_bytes)
        part = self._part(near, levels.near_ticks, levels.second_ticks)
        expected = dict.fromkeys(("load_l1_miss", "l1d_fill"), part) | dict.fromkeys(("l2_fill", *MEMORY_READS), 0.0)
        yield from self._around("l2", near, expected)
        expected = {"l2_rfo": part, "l2_rfo_miss": 0.0, "l1d_writeback": part, "l2_writeback": 0.0}
        expected |= dict.fromkeys(IN_MEMORY, 0.0)
        tolerance = dict.fromkeys(expected, params.looseness)
        yield self._stored("l2", near, expected, tolerance | dict.fromkeys(("l2_rfo", "l1d_writeback"), 0.3))
        expected = dict.fromkeys(("load_l1_miss", "l1d_fill", "l2_fill"), 1.0)
        if levels.third_ticks:
            part = self._part(beyond, levels.third_ticks, levels.memory_ticks)
            expected |= dict.fromkeys(MEMORY_READS, part)
        yield from self._around("beyond", beyond, expected)
        yield self._stored("beyond", beyond, dict.fromkeys(GIVEN_AWAY, 1.0), {})

    def _part(self, ring: Ring, before: float, own: float) -> float:
        """The part of a step's lines that a level serves; none or all of them where that is as good."""
        part, loose = (self._step_ticks(ring) - before) / (own - before), self._params.looseness
        return part if loose < part < 1 - loose else float(part >= 0.5)

    def _around(self, level: str, ring: Ring, expected: Mapping[str, float]) -> Iterator[Workload]:
        """A chase around a working set; around the one in the second level with multiplications, too."""
        expected = {"load_fb_hit": 0.0, "hitm_local": 0.0, **expected}
        tolerance = {role: max(self._params.looseness, min(n, 1 - n)) for role, n in expected.items()}
        near, starts = level == "l2", partial(ring.placed, RING_STEPS)
        known: dict[str, Any] = {"timed": STALLS if near else (), "warm": ring.chased, "beside": near}
        chase = partial(Probe().start().chase, TARGET, RING_STEPS)
        yield repeated(
            f"{level}_chase", chase().stop(), starts, 12, RING_STEPS, expected=expected, tolerance=tolerance, **known
        )
        if near:
            yield repeated("l2_chase_chained", chase(work="chained").stop(), starts, 12, RING_STEPS, **known)

    @staticmethod
    def _stored(level: str, ring: Ring, expected: Mapping[str, float], tolerance: Mapping[str, float]) -> Workload:
        known: dict[str, Any] = {
            "expected": expected,
            "tolerance": tolerance,
            "warm": ring.stored,
            "beside": not tolerance,
        }
        return repeated(f"{level}_store", STORE, partial(ring.placed, 1), 1024, **known)

    def _ring(self, size_bytes: float) -> Ring:
        context = self._context
        rng = context.rng(int(size_bytes))
        region = self._allocate(span_bytes(size_bytes, context.line_size))
        order = lay(region, size_bytes, rng).order
        context.machine.link(region, order)
        # linking wrote to the lines: a modified one would leave a cache whenever it goes, and be counted
        context.machine.run(Probe().flush(TARGET), {TARGET: order}, cpu=context.cpu)
        return Ring(order)

    def _step_ticks(self, ring: Ring) -> float:
        """Ticks of a step over a working set, once it has been gone around twice."""
        for probe, placements in ring.chased():
            self._context.machine.run(probe, placements, cpu=self._context.cpu)
        chase = Probe().start().chase(TARGET, RING_STEPS).stop()
        return self._ticks(chase, ring.placed(RING_STEPS, 32)) / RING_STEPS

    def _handed_over(self) -> Iterator[Workload]:
        """A line that one CPU modifies and another one then loads (Röhl et al. 2015, Table 1.3, a line a step)."""
        facts, own = self._context.machine.facts, self._context.own_cpu
        elsewhere = set(facts.cpus) - {own, *self._siblings()}
        if elsewhere:
            probe, writes = Probe().barrier().load(TARGET).fence().barrier(), STORE.fence().barrier().barrier()
            known: dict[str, Any] = {
                "partners": {min(elsewhere): writes},
                "expected": {"hitm_local": 1.0},
                "beside": True,
            }
            yield repeated("handed_over", probe, self._targets(20).drawn, self._params.repetitions, **known)

    # -- beside others ------------------------------------------------------------------------------------------------

    def _siblings(self) -> list[int]:
        """Other threads of the core."""
        own = self._context.own_cpu
        return [cpu for group in self._context.machine.facts.siblings if own in group for cpu in group if cpu != own]

    def _beside(self, own: list[Workload]) -> Iterator[Workload]:
        """The same work while another thread of the core is busy with a line and with arithmetic, for events of a
        thread: no others can lose what one does beside another."""
        siblings = self._siblings()
        spare = self._allocate(PAGE_BYTES).address
        for workload in own if siblings else ():
            if workload.beside:
                barriers = int((workload.make(1)[0].rows[:, 0] == Kind.BARRIER).sum())
                busy = Probe().repeat(16, Probe().load(BUSY).add(64)).fence()
                for _ in range(barriers):  # or the others would wait for ever
                    busy = busy.barrier()
                expected = {role: n for role, n in workload.expected.items() if ROLES[role].scope is Scope.THREAD}
                yield replace(
                    workload,
                    name=workload.name + BESIDE,
                    make=_with_busy(workload.make, spare),
                    partners={**workload.partners, siblings[0]: busy},
                    expected=expected,
                )


def _with_busy(make: Make, spare: int) -> Make:
    def made(amount: int) -> tuple[Probe, Placements]:
        probe, placed = make(amount)
        count = placed if isinstance(placed, int) else len(np.asarray(next(iter(placed.values()))))
        return probe, {**({} if isinstance(placed, int) else placed), BUSY: np.full(count, spare)}

    return made
