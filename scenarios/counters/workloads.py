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
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.calibration import MEMORY
from setebench.counters.roles import ROLES, Scope
from setebench.experiments.calibrate import cycles_per_tick, step_ticks
from setebench.experiments.levels import find_levels
from setebench.experiments.lines.layout import lay, span_bytes
from setebench.machine import Region
from setebench.probe import Base, Placements, Probe
from setebench.probe.kernels import BLOCK_BYTES, KERNELS, stream_bytes
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

HOT, CHASE, CHASE_STEPS, STREAM_LINES = 24, 8, 256, 512
"""Repetitions of work that touches no memory; lines of the shortest flushed chase; steps of one around a working set;
lines of a stream, beside which a prefetcher's overshoot is nothing."""
BURSTS = (2, 4, 8)
"""Misses at once, around the 4 where a floor of quarters begins."""
FULL_LINES, FULL_PAGES = 480, 8
"""Misses at once, four times the largest queue known, and pages of these in turn: half of what the smallest first TLB
holds."""
IDLE_CYCLES = 2000

Runs = tuple[tuple[Probe, Placements], ...]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What `make` says is run for so many units of `unit` pieces of work each, what `partners` run meanwhile on CPUs of
    these numbers, and what one piece causes.

    `expected`: events by role; a role that is not in it is not known here. Those with a `tolerance` hold within so many
    lines a piece: a level served them that was found by timing. `timed`: roles that count cycles, of which the timed
    interval (number 0) is the measure. `beside`: what an event loses beside a busy sibling shows here, too. What is in
    `warm` is run once an epoch: others have evicted its lines."""

    name: str
    make: Callable[[int], tuple[Probe, Placements]]
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


def sized(name: str, probe: Callable[[int], Probe], size: int, placements: Placements, **fields: Any) -> Workload:
    """A probe of so much work, repeated `HOT` times: nothing of the loop around it is in the slope over amounts."""
    return Workload(name=name, make=lambda amount: (probe(amount * size), placements), unit=size * HOT, **fields)


def repeated(name: str, probe: Probe, placements: Callable[[int], Placements], unit: int, **fields: Any) -> Workload:
    """A workload that repeats a probe `unit` times for each unit of its amount. One probe has so many `pieces` (1):
    loads, say."""
    pieces = fields.pop("pieces", 1)
    return Workload(name=name, make=lambda amount: (probe, placements(amount * unit)), unit=unit * pieces, **fields)


@dataclass
class Lines:
    """Lines of a working set in a cyclic order. Runs go on where the last one ended: else the first lines would come
    again too soon."""

    order: NDArray[np.int64]
    next: int = 0

    def placed(self, steps: int, count: int) -> Placements:
        """Where `count` pieces of so many steps begin, one behind the other."""
        at = (self.next + np.arange(count) * steps) % len(self.order)
        self.next = int(self.next + count * steps) % len(self.order)
        return {TARGET: self.order[at]}

    def first(self, count: int) -> Placements:
        """The first line, `count` times."""
        return {TARGET: np.full(count, self.order[0])}

    def flushed(self, count: int) -> Probe:
        """A probe that flushes the first `count` lines; its base is the first one."""
        probe = Probe()
        for offset in (self.order[:count] - self.order[0]).tolist():
            probe = probe.flush(TARGET + offset)
        return probe.fence()

    def burst(self, count: int, how: str) -> Probe:
        """So many flushed lines loaded, or stored to, at once."""
        probe = self.flushed(count).start()
        for offset in (self.order[:count] - self.order[0]).tolist():
            probe = probe.store(TARGET + 8 + offset) if how == "store" else probe.load(TARGET + offset)
        return probe.stop()

    def chased(self) -> Runs:
        """Runs that go round the whole working set twice first: each line was then last used one round ago."""
        return ((Probe().chase(TARGET, 2 * len(self.order)), {TARGET: self.order[[self.next]]}),)

    def stored(self) -> Runs:
        """A store to each line, so that each is modified when it leaves a cache."""
        return ((STORE, self.placed(1, len(self.order))),)


class Battery:
    """The workloads of a machine. The memory that they use is given back with `stack`."""

    def __init__(self, context: Context, params: Params, stack: ExitStack) -> None:
        self._context, self._params, self._stack = context, params, stack
        context.progress("where the levels are")
        self._chased = self._targets(17)
        self.levels = find_levels(context)
        parts = (self._lines(), self._hot(), self._misses(), self._streams(), self._served(), self._handed_over())
        own = [workload for part in parts for workload in part]
        self.workloads = {workload.name: workload for workload in (*own, *self._beside(own))}

    def _allocate(self, size: int) -> Region:
        return self._stack.enter_context(self._context.memory(size))

    def _targets(self, seed: int) -> Lines:
        """Irregular lines, linked: one in each of some pages, at random places and in random order. No other line of
        these pages is ever used, or a prefetcher that learns a region's lines would bring one for the other; a flush
        translates its address, so that the TLB entry is warm without."""
        region, rng = self._allocate(PAGES * PAGE_BYTES), self._context.rng(seed)
        lines = PAGE_BYTES // region.line_size
        at = rng.integers(lines // 4, lines * 3 // 4, PAGES)  # away from the edges, which neighbours could reach
        order = region.address + rng.permutation(PAGES) * PAGE_BYTES + at * region.line_size
        self._context.machine.link(region, order)
        return Lines(order)

    # -- the workloads ----------------------------------------------------------------------------------------------

    def _lines(self) -> Iterator[Workload]:
        """Single lines from memory: loaded, loaded twice at once, or stored to."""
        ready, lines = Probe().flush(TARGET).fence(), partial(self._targets(18).placed, 1)
        read = QUIET | dict.fromkeys(READS, 1.0)
        # a flush is no write-back of one level to the next, but a core may count it as one
        owned = {role: read[role] for role in read if role not in GIVEN_AWAY}
        owned |= {"load_l1_miss": 0.0} | dict.fromkeys((*OWNED, *IN_MEMORY), 1.0)
        load = ready.load(TARGET)
        for name, probe, expected in (
            ("far_load", load, read),
            ("far_pair", load.load(TARGET + 8), read | {"load_fb_hit": 1.0}),
            ("far_store", ready + STORE, owned),
        ):
            yield repeated(name, probe.fence(), lines, self._params.repetitions, expected=expected, beside=True)

    def _hot(self) -> Iterator[Workload]:
        """What touches no memory, or one line that stays in L1."""
        none = QUIET | dict.fromkeys(("load", "store", "fp_op", "stall_store_buffer", *WHILE_LOADING), 0.0)
        yield repeated("idle", Probe().start().wait(IDLE_CYCLES).stop(), int, HOT, expected=none)
        line = self._targets(19).first(HOT)
        for kind, access in (("load", Probe().load(TARGET)), ("store", STORE)):
            repeat = partial(Probe().repeat, body=access)
            yield sized(f"hot_{kind}", repeat, 64, line, expected={kind: 1.0}, beside=True)
        nops, adds = (lambda count: Probe().start().nop(count).stop(), lambda count: Probe().start().add(count).stop())
        yield sized("nops", nops, 640, HOT, expected={"instructions": 1.0})
        yield sized("additions", adds, 640, HOT, expected={"cycles": 1.0, "no_execute": 0.0})

    def _chase(self, count: int, work: str = "") -> Probe:
        return self._chased.flushed(count).start().chase(TARGET, count, work=work).stop()

    def _misses(self) -> Iterator[Workload]:
        """Chases and bursts over flushed lines; and over more than any queue holds: every second line of some pages in
        turn, then of some others, so that no prefetcher brings a line that is still to come, none sees two lines of a
        page in a row, and few loads wait for a TLB entry instead of a line."""
        chained = partial(self._chase, work="chained")
        yield sized("far_chase", self._chase, CHASE, self._chased.first(HOT), timed=STALLS)
        yield sized("far_chase_chained", chained, CHASE, self._chased.first(HOT), timed=STALLS)
        for count in BURSTS:
            burst = self._chased.burst(count, "load")
            yield repeated(f"burst_{count}", burst, self._chased.first, 8, timed=("l1d_inflight_sum",))
        rng, stride = self._context.rng(23), 2 * self._context.line_size
        turns = -(-2 * FULL_LINES // (FULL_PAGES * (PAGE_BYTES // stride - 1)))
        region = self._allocate(turns * FULL_PAGES * PAGE_BYTES)
        pages = rng.permutation(np.arange(0, region.size, PAGE_BYTES)).reshape(-1, FULL_PAGES, 1)
        offsets = rng.permuted(np.tile(np.arange(stride, PAGE_BYTES, stride), (*pages.shape[:2], 1)), axis=2)
        full = Lines(region.address + (offsets + pages).transpose(0, 2, 1).ravel()[: 2 * FULL_LINES])
        for how, timed in (("load", ("fb_full", "sq_full")), ("store", ("stall_store_buffer",))):
            for end, count in (("", 2 * FULL_LINES), ("_half", FULL_LINES)):
                yield repeated(f"full_{how}{end}", full.burst(count, how), full.first, 8, timed=timed)

    def _streams(self) -> Iterator[Workload]:
        """Consecutive flushed lines, chased and written past the caches; floating-point work on arrays that stay in L1
        (Röhl et al. 2015, Fig. 1.2)."""
        machine, facts, line = self._context.machine, self._context.machine.facts, self._context.line_size
        size, width = STREAM_LINES * line, max(self._context.machine.facts.access_sizes)
        region = self._allocate(stream_bytes(KERNELS["store_nt"], size))
        lines = Lines(region.address + np.arange(STREAM_LINES) * line)
        machine.link(region, lines.order)
        away = Probe().repeat(STREAM_LINES, Probe().flush(TARGET), advance=line).fence()
        # how long a step takes says how near prefetchers bring its lines
        chase, expected = away.start().chase(TARGET, STREAM_LINES).stop(), dict.fromkeys(FILLS, 1.0)
        yield repeated("far_ascending", chase, lines.first, 2, pieces=STREAM_LINES, expected=expected)
        if "store_nt" in facts.kernels:
            probe = away.stream(TARGET, "store_nt", size, width).fence()
            expected = dict.fromkeys(IN_MEMORY, 1.0) | dict.fromkeys(GIVEN_AWAY, 0.0)
            yield repeated("stream_store_nt", probe, lines.first, 1, pieces=STREAM_LINES, expected=expected)
        if "triad" in facts.kernels:
            small, kernel = 1024, KERNELS["triad"]
            probe = Probe().repeat(8, Probe().stream(TARGET, kernel.name, small, width))
            pieces = int(8 * small / BLOCK_BYTES * kernel.block_flops)
            yield repeated("arithmetic", probe, lines.first, 8, pieces=pieces, expected={"fp_op": 1.0})

    def _served(self) -> Iterator[Workload]:
        """Chases around a working set that the second level serves and around one that it can't hold, and stores to
        both: each line of the latter leaves both levels modified, once a round. Which part of the former the first
        level lacks, and of the latter the third, is what a step takes between what it takes in either level."""
        if len(self.levels.caches) < 2 or self.levels.caches[0] not in self.levels.ends_bytes:
            return
        first, second, *third = self.levels.caches
        cycles, ends, loose = self.levels.cycles, self.levels.ends_bytes, self._params.looseness
        inside = (ends.get(first, 0.0) * ends[second]) ** 0.5 if second in ends else 2 * ends.get(first, 0.0)
        near, beyond = self._lines_of(inside), self._lines_of(self._params.beyond * ends.get(second, inside))
        part = self._part(near, cycles[first], cycles[second])
        read = {"load_fb_hit": 0.0, "hitm_local": 0.0}
        expected = read | dict.fromkeys(("load_l1_miss", "l1d_fill"), part)
        expected |= dict.fromkeys(("l2_fill", *MEMORY_READS), 0.0)
        for name, work, own in (("l2_chase", "", expected), ("l2_chase_chained", "chained", {})):
            yield self._chased_around(name, near, work=work, expected=own, timed=STALLS)
        expected = {"l2_rfo": part, "l2_rfo_miss": 0.0, "l1d_writeback": part, "l2_writeback": 0.0}
        tolerance = dict.fromkeys((*expected, *IN_MEMORY), loose) | {"l2_rfo": 0.3, "l1d_writeback": 0.3}
        fields: dict[str, Any] = {"expected": expected | dict.fromkeys(IN_MEMORY, 0.0), "tolerance": tolerance}
        yield repeated("l2_store", STORE, partial(near.placed, 1), 1024, warm=near.stored, **fields)
        expected = read | dict.fromkeys(("load_l1_miss", "l1d_fill", "l2_fill"), 1.0)
        if third:
            part = self._part(beyond, cycles[third[0]], cycles[MEMORY])
            expected |= dict.fromkeys(MEMORY_READS, part)
        yield self._chased_around("beyond_chase", beyond, expected=expected)
        fields = {"expected": dict.fromkeys(GIVEN_AWAY, 1.0), "beside": True}
        yield repeated("beyond_store", STORE, partial(beyond.placed, 1), 1024, warm=beyond.stored, **fields)

    def _part(self, lines: Lines, before: float, own: float) -> float:
        """The part of a step's lines that a level serves, once all were gone around twice; none or all of them where
        that is as good."""
        context, probe = self._context, Probe().start().chase(TARGET, CHASE_STEPS).stop()
        for untimed, placements in lines.chased():
            context.machine.run(untimed, placements, cpu=context.cpu)
        ticks = context.machine.run(probe, lines.placed(CHASE_STEPS, 32), cpu=context.cpu, warmup=4)
        step = mean_ticks(ticks[:, 0], step_ticks(context)) * cycles_per_tick(context) / CHASE_STEPS
        part, loose = (step - before) / (own - before), self._params.looseness
        return part if loose < part < 1 - loose else float(part >= 0.5)

    def _chased_around(self, name: str, lines: Lines, work: str = "", **fields: Any) -> Workload:
        loose = self._params.looseness
        tolerance = {role: max(loose, min(n, 1 - n)) for role, n in fields["expected"].items()}
        chase = Probe().start().chase(TARGET, CHASE_STEPS, work=work).stop()
        fields |= {"tolerance": tolerance, "warm": lines.chased, "pieces": CHASE_STEPS}
        return repeated(name, chase, partial(lines.placed, CHASE_STEPS), 12, **fields)

    def _lines_of(self, size_bytes: float) -> Lines:
        context = self._context
        rng = context.rng(int(size_bytes))
        region = self._allocate(span_bytes(size_bytes, context.line_size))
        order = lay(region, size_bytes, rng).order
        context.machine.link(region, order)
        # linking wrote to the lines: a modified one would leave a cache whenever it goes, and be counted
        context.machine.run(Probe().flush(TARGET), {TARGET: order}, cpu=context.cpu)
        return Lines(order)

    def _siblings(self) -> list[int]:
        """Other threads of the core."""
        own = self._context.own_cpu
        return [cpu for group in self._context.machine.facts.siblings if own in group for cpu in group if cpu != own]

    def _handed_over(self) -> Iterator[Workload]:
        """A line that one CPU modifies and another one then loads (Röhl et al. 2015, Table 1.3, a line a step)."""
        elsewhere = {*self._context.machine.facts.cpus} - {self._context.own_cpu, *self._siblings()}
        if elsewhere:
            probe, writes = Probe().barrier().load(TARGET).fence().barrier(), STORE.fence().barrier().barrier()
            fields: dict[str, Any] = {"partners": {min(elsewhere): writes}, "expected": {"hitm_local": 1.0}}
            yield repeated(
                "handed_over", probe, partial(self._targets(20).placed, 1), self._params.repetitions, **fields
            )

    def _beside(self, own: list[Workload]) -> Iterator[Workload]:
        """The same work while another thread of the core is busy with a line and with arithmetic, for events of a
        thread: no others can lose what one does beside another."""
        siblings, spare = self._siblings(), self._allocate(PAGE_BYTES).address
        busy = Probe().repeat(16, Probe().load(BUSY).add(64)).fence()

        def with_busy(work: Workload, amount: int) -> tuple[Probe, Placements]:
            probe, placed = work.make(amount)
            assert not isinstance(placed, int)
            return probe, {**placed, BUSY: np.full(len(np.asarray(placed[TARGET])), spare)}

        for work in own if siblings else ():
            if work.beside:
                expected = {role: n for role, n in work.expected.items() if ROLES[role].scope is Scope.THREAD}
                make, partners = partial(with_busy, work), {siblings[0]: busy}
                yield replace(work, name=work.name + BESIDE, make=make, partners=partners, expected=expected)
