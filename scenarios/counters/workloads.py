"""Workloads that cause a known number of events per piece of work, for each role, by design of the accesses.

Most lines are flushed before use: such a line comes from memory exactly once, whatever the caches are. Others stay in
L1, or are served by a level that timing found. Irregular lines lie on pages of their own, so that no prefetcher
predicts them, and what one loads by mistake stays in the caches from the first repetition on. Streams are of Röhl
et al. 2015 (Fig. 1.1) with write-allocates, chases with and without multiplications those of Molka et al. 2017 (3.3).
"""

from __future__ import annotations

import itertools
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
"""Bytes of the smallest page; hardware prefetchers don't cross its ends."""
PAGES = 32
"""Pages of the irregular lines: any first TLB holds their translations."""
TARGET, BUSY = Base("target"), Base("busy")
STORE = Probe().store(TARGET + 8)
"""One store; it spares the first 8 bytes of the line, which hold the pointer that chases follow."""
BESIDE = "_beside_sibling"
"""Suffix of the names of workloads that run beside a busy sibling thread of the core."""

READS = ("load_l1_miss", "l1d_fill", "l2_fill", "offcore_mem_read", "mem_read", "home_read")
"""Roles of which a load from memory causes one event each."""
FILLS, MEMORY_READS = READS[1:], READS[3:]
OWNED = ("l2_rfo", "l2_rfo_miss")
GIVEN_AWAY = ("l1d_writeback", "l2_writeback")
IN_MEMORY = ("mem_write", "home_write")
QUIET = dict.fromkeys((*READS, *OWNED, *GIVEN_AWAY, *IN_MEMORY, "load_fb_hit", "hitm_local"), 0.0)
"""Expected events of each role by work without misses, stores or lines of other cores: 0."""
STALLS = ("l1d_inflight_sum", "l1d_inflight_cycles", "no_execute", "stall_l1d_miss", "stall_load_any")
"""Roles that count cycles of a chase: those with a load in flight, and those in which nothing executes."""
WHILE_LOADING = ("l1d_inflight_sum", "l1d_inflight_cycles", "stall_l1d_miss", "stall_load_any", "fb_full", "sq_full")
"""Roles of cycles that can't occur while nothing is being loaded."""

HOT, TIMES, INSTRUCTIONS = 24, 8, 640
"""Repetitions of work that misses no cache, of other work, and instructions of what is one kind of instruction."""
CHASE, CHASE_STEPS, STREAM_LINES, STORES = 8, 256, 512, 1024
"""Lines of the flushed chase; loads of a chase through a larger working set; lines of a stream, which are many against
those that a prefetcher loads beyond its end; stores to a working set."""
BURSTS = (2, 4, 8)
"""Numbers of simultaneous misses: an event that counts a quarter of them, rounded down, counts nothing below 4."""
FULL_LINES, FULL_PAGES = 480, 8
"""Simultaneous misses (four times the largest queue), and the pages they use in turn (half the smallest first TLB)."""
IDLE_CYCLES = 2000
"""Core cycles of the workload that does nothing."""

Runs = tuple[tuple[Probe, Placements], ...]
"""Probes to run one after the other, each with its placements."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Work of which the number of events per piece is known. `make(n)` returns the probe and placements of n units, of
    `unit` pieces each; meanwhile each CPU in `partners` runs its probe.

    `expected` has the number of events per piece by role (no entry: unknown), `tolerance` by how many it may be off
    where only timing shows the level that serves lines. Counts of the roles in `timed` are compared with the cycles of
    interval 0. If `beside`, the work also runs beside a busy sibling. `warm` returns uncounted first runs."""

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
        """Roles (kinds of event) that this workload says something about: only these are counted while it runs."""
        return {*self.expected, *self.timed}


def sized(
    name: str, probe: Callable[[int], Probe], placements: Placements, size: int = INSTRUCTIONS, **fields: Any
) -> Workload:
    """Return the workload `name`, of which n units are `HOT` repetitions, at `placements`, of `probe(n * size)`, a
    probe that does so many pieces of work. `fields` are further fields of the workload."""
    return Workload(name=name, make=lambda amount: (probe(amount * size), placements), unit=size * HOT, **fields)


def repeated(name: str, probe: Probe, placements: Callable[[int], Placements], unit: int, **fields: Any) -> Workload:
    """Return the workload `name`, whose unit is `unit` repetitions of `probe`; `placements(k)` returns those of k
    repetitions. `fields` are further fields of `Workload`, and `pieces`: pieces of work per repetition (else 1)."""
    pieces = fields.pop("pieces", 1)
    return Workload(name=name, make=lambda amount: (probe, placements(amount * unit)), unit=unit * pieces, **fields)


@dataclass
class Lines:
    """Addresses of lines in the cyclic `order` of their use; `next` is the index of the next one. Each run continues
    where the last one ended, so that no line is used again sooner than all others."""

    order: NDArray[np.int64]
    next: int = 0

    def placed(self, steps: int, count: int) -> Placements:
        """Return placements of `count` probes of `steps` lines each: every one begins where the one before ends."""
        at = (self.next + np.arange(count) * steps) % len(self.order)
        self.next = int(self.next + count * steps) % len(self.order)
        return {TARGET: self.order[at]}

    def first(self, count: int) -> Placements:
        """Return placements of `count` repetitions that all use the first line."""
        return {TARGET: np.full(count, self.order[0])}

    def flushed(self, count: int) -> Probe:
        """Return a probe that flushes the first `count` lines; its base `TARGET` is the address of the first."""
        probe = Probe()
        for offset in (self.order[:count] - self.order[0]).tolist():
            probe = probe.flush(TARGET + offset)
        return probe.fence()

    def burst(self, count: int, how: str) -> Probe:
        """Return a timed probe that flushes `count` lines, then loads them or stores to them (`how`) all at once."""
        probe = self.flushed(count).start()
        for offset in (self.order[:count] - self.order[0]).tolist():
            probe = probe.store(TARGET + 8 + offset) if how == "store" else probe.load(TARGET + offset)
        return probe.stop()

    def chased(self) -> Runs:
        """Return a warm-up, a chase twice through all lines: each was then used one traversal ago, as in any chase."""
        return ((Probe().chase(TARGET, 2 * len(self.order)), {TARGET: self.order[[self.next]]}),)

    def stored(self) -> Runs:
        """Return one store to each line, so that all are modified when they leave a cache."""
        return ((STORE, self.placed(1, len(self.order))),)


class Battery:
    """The workloads that this machine can run, by name, and its memory levels; `stack` frees their memory."""

    def __init__(self, context: Context, params: Params, stack: ExitStack) -> None:
        self._context, self._params, self._stack, self._seeds = context, params, stack, itertools.count()
        context.progress("where the levels are")
        self._chased = self._targets()
        self.levels = find_levels(context)
        parts = (self._lines(), self._hot(), self._misses(), self._streams(), self._served(), self._handed_over())
        own = [workload for part in parts for workload in part]
        self.workloads = {workload.name: workload for workload in (*own, *self._beside(own))}

    def _allocate(self, size: int) -> Region:
        return self._stack.enter_context(self._context.memory(size))

    def _rng(self) -> np.random.Generator:
        """Return a generator of its own for each use."""
        return self._context.rng(next(self._seeds))

    def _targets(self) -> Lines:
        """Return `PAGES` linked lines in random order, one at a random place of each page. No others of these pages are
        used, as prefetchers that learn a region's lines would load one for another. Flushes load the TLB entry."""
        region, rng = self._allocate(PAGES * PAGE_BYTES), self._rng()
        lines = PAGE_BYTES // region.line_size
        at = rng.integers(lines // 4, lines * 3 // 4, PAGES)  # away from the edges, which neighbours could reach
        order = region.address + rng.permutation(PAGES) * PAGE_BYTES + at * region.line_size
        self._context.machine.link(region, order)
        return Lines(order)

    # -- the workloads ----------------------------------------------------------------------------------------------

    def _lines(self) -> Iterator[Workload]:
        """Yield workloads of single lines from memory: loaded, loaded by two loads at once, or stored to."""
        ready, lines = Probe().flush(TARGET).fence(), partial(self._targets().placed, 1)
        read = QUIET | dict.fromkeys(READS, 1.0)
        # a flush is no write-back from level to level, but a core may count one: no number is expected
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
        """Yield workloads that access no memory, or one line that stays in L1."""
        none = QUIET | dict.fromkeys(("load", "store", "fp_op", "stall_store_buffer", *WHILE_LOADING), 0.0)
        yield repeated("idle", Probe().start().wait(IDLE_CYCLES).stop(), int, HOT, expected=none)
        line = self._targets().first(HOT)
        for kind, access in (("load", Probe().load(TARGET)), ("store", STORE)):
            repeat = partial(Probe().repeat, body=access)
            yield sized(f"hot_{kind}", repeat, line, expected={kind: 1.0}, beside=True)
        nops, adds = (lambda count: Probe().start().nop(count).stop(), lambda count: Probe().start().add(count).stop())
        yield sized("nops", nops, HOT, expected={"instructions": 1.0})
        yield sized("additions", adds, HOT, expected={"cycles": 1.0, "no_execute": 0.0})

    def _chase(self, count: int, work: str = "") -> Probe:
        return self._chased.flushed(count).start().chase(TARGET, count, work=work).stop()

    def _misses(self) -> Iterator[Workload]:
        """Yield chases and bursts over flushed lines, and bursts of more misses than any queue holds. The latter use
        every second line of a group of pages in turn, then of the next group, so that prefetchers neither load later
        lines nor see two lines of a page in a row, and few loads wait for a TLB entry."""
        chained = partial(self._chase, work="chained")
        yield sized("far_chase", self._chase, self._chased.first(HOT), CHASE, timed=STALLS)
        yield sized("far_chase_chained", chained, self._chased.first(HOT), CHASE, timed=STALLS)
        for count in BURSTS:
            burst = self._chased.burst(count, "load")
            yield repeated(f"burst_{count}", burst, self._chased.first, TIMES, timed=("l1d_inflight_sum",))
        rng, stride = self._rng(), 2 * self._context.line_size
        turns = -(-2 * FULL_LINES // (FULL_PAGES * (PAGE_BYTES // stride - 1)))
        region = self._allocate(turns * FULL_PAGES * PAGE_BYTES)
        pages = rng.permutation(np.arange(0, region.size, PAGE_BYTES)).reshape(-1, FULL_PAGES, 1)
        offsets = rng.permuted(np.tile(np.arange(stride, PAGE_BYTES, stride), (*pages.shape[:2], 1)), axis=2)
        full = Lines(region.address + (offsets + pages).transpose(0, 2, 1).ravel()[: 2 * FULL_LINES])
        for how, timed in (("load", ("fb_full", "sq_full")), ("store", ("stall_store_buffer",))):
            for end, count in (("", 2 * FULL_LINES), ("_half", FULL_LINES)):
                yield repeated(f"full_{how}{end}", full.burst(count, how), full.first, TIMES, timed=timed)

    def _streams(self) -> Iterator[Workload]:
        """Yield workloads over consecutive flushed lines (a chase, non-temporal stores), and floating-point work on
        arrays that stay in L1 (Röhl et al. 2015, Fig. 1.2)."""
        machine, facts, line = self._context.machine, self._context.machine.facts, self._context.line_size
        size, width = STREAM_LINES * line, max(self._context.machine.facts.access_sizes)
        region = self._allocate(stream_bytes(KERNELS["store_nt"], size))
        lines = Lines(region.address + np.arange(STREAM_LINES) * line)
        machine.link(region, lines.order)
        away = Probe().repeat(STREAM_LINES, Probe().flush(TARGET), advance=line).fence()
        # the time of a step shows into which level prefetchers load its lines
        chase, expected = away.start().chase(TARGET, STREAM_LINES).stop(), dict.fromkeys(FILLS, 1.0)
        yield repeated("far_ascending", chase, lines.first, 2, pieces=STREAM_LINES, expected=expected)
        if "store_nt" in facts.kernels:
            probe = away.stream(TARGET, "store_nt", size, width).fence()
            expected = dict.fromkeys(IN_MEMORY, 1.0) | dict.fromkeys(GIVEN_AWAY, 0.0)
            yield repeated("stream_store_nt", probe, lines.first, 1, pieces=STREAM_LINES, expected=expected)
        if "triad" in facts.kernels:
            blocks, kernel = 4, KERNELS["triad"]
            probe = Probe().repeat(TIMES, Probe().stream(TARGET, kernel.name, blocks * BLOCK_BYTES, width))
            pieces = TIMES * blocks * kernel.block_flops
            yield repeated("arithmetic", probe, lines.first, TIMES, pieces=pieces, expected={"fp_op": 1.0})

    def _served(self) -> Iterator[Workload]:
        """Yield chases through a working set that L2 serves and through one that it can't hold, and stores to both
        sets; all lines of the larger one leave both caches modified. The first cache may still serve a part of the
        smaller set, and the third a part of the larger: timing finds how much."""
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
        yield repeated("l2_store", STORE, partial(near.placed, 1), STORES, warm=near.stored, **fields)
        expected = read | dict.fromkeys(("load_l1_miss", "l1d_fill", "l2_fill"), 1.0)
        if third:
            part = self._part(beyond, cycles[third[0]], cycles[MEMORY])
            expected |= dict.fromkeys(MEMORY_READS, part)
        yield self._chased_around("beyond_chase", beyond, expected=expected)
        fields = {"expected": dict.fromkeys(GIVEN_AWAY, 1.0), "beside": True}
        yield repeated("beyond_store", STORE, partial(beyond.placed, 1), STORES, warm=beyond.stored, **fields)

    def _part(self, lines: Lines, before: float, own: float) -> float:
        """Return the share of loads (0 to 1) that a level serves in a settled cyclic chase through `lines`, by the
        latencies in cycles of this level (`own`) and of the next nearer one (`before`); near 0 and 1 it is rounded."""
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
        region = self._allocate(span_bytes(size_bytes, context.line_size))
        order = lay(region, size_bytes, self._rng()).order
        context.machine.link(region, order)
        # linking modified the lines, and their write-backs would be counted
        context.machine.run(Probe().flush(TARGET), {TARGET: order}, cpu=context.cpu)
        return Lines(order)

    def _siblings(self) -> list[int]:
        """Return the numbers of the other threads (CPUs) of the measured core."""
        own = self._context.own_cpu
        return [cpu for group in self._context.machine.facts.siblings if own in group for cpu in group if cpu != own]

    def _handed_over(self) -> Iterator[Workload]:
        """Yield a workload that loads lines which another core modified (Röhl et al. 2015, Table 1.3)."""
        elsewhere = {*self._context.machine.facts.cpus} - {self._context.own_cpu, *self._siblings()}
        if elsewhere:
            probe, writes = Probe().barrier().load(TARGET).fence().barrier(), STORE.fence().barrier().barrier()
            fields: dict[str, Any] = {"partners": {min(elsewhere): writes}, "expected": {"hitm_local": 1.0}}
            yield repeated("handed_over", probe, partial(self._targets().placed, 1), self._params.repetitions, **fields)

    def _beside(self, own: list[Workload]) -> Iterator[Workload]:
        """Yield the workloads marked `beside` again, while another thread of the core loads one line and does
        arithmetic. Only events of a thread are expected: others count what both threads do."""
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
