"""All workloads of a machine: memory for them, and the working sets that each level serves, found by timing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict

import numpy as np

from setebench.experiments.calibrate import quick_cycles_per_tick, step_ticks
from setebench.experiments.levels import find_levels, working_memory
from setebench.experiments.lines.layout import by_windows, lay, span_bytes
from setebench.machine import Region
from setebench.probe import Probe
from setebench.scenario import Context
from setebench.stats.ticks.location import mean_ticks

from . import workloads as make
from .levels import Levels, levels_of
from .params import Params
from .workloads import ARRAY, EVICTOR, PAGE_BYTES, PAGES, TARGET, Dirty, Ring, Targets, Workload, scattered

NEVER_BESIDE = ("idle", "additions", "multiplications", "burst", "stream", "far_ascending", "l2_store", "l3")
"""Beginnings of workloads that say nothing of what an event loses beside a busy sibling."""


class Battery:
    """The workloads, and the memory that they use until `close`."""

    def __init__(self, context: Context, params: Params) -> None:
        self._context, self._params = context, params
        self._stack = ExitStack()
        try:
            context.progress("where the levels are")
            self.levels = self._find_levels()
            parts = (self._plain, self._streaming, self._full, self._served, self._driven, self._handed_over)
            own = [workload for part in parts for workload in part()]
            self.workloads = [*own, *self._beside(own)]
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the memory back."""
        self._stack.close()

    def _allocate(self, size: int) -> Region:
        return self._stack.enter_context(self._context.memory(size))

    def _targets(self, seed: int = 17) -> Targets:
        return scattered(self._allocate(PAGES * PAGE_BYTES), self._context.rng(seed))

    # -- the levels -------------------------------------------------------------------------------------------------

    def _find_levels(self) -> Levels:
        """The levels; of several draws of flushed lines the slowest, as a prefetcher that happens to bring a line makes
        a chase faster, and what waits for such a line is no miss."""
        context = self._context
        region = working_memory(context)
        self._stack.callback(context.machine.release, region)
        found, per_tick = find_levels(context, region), quick_cycles_per_tick(context)
        draws = [self._targets(17 + number) for number in range(self._params.draws)]
        ticks = [self._flushed_ticks(each) for each in draws]
        self._chased = draws[int(np.argmax(ticks))]
        levels = levels_of(found, per_tick, max(ticks), self._params)
        context.evidence["working_sets"] = asdict(levels)
        return levels

    def _flushed_ticks(self, targets: Targets) -> float:
        """Ticks of a step of a chase over flushed lines."""
        context = self._context
        few, many = self._params.chase_lines
        context.machine.link(targets.region, targets.lines[:many])
        found = []
        for count in (few, many):
            chase = targets.flushed(count).start().chase(TARGET, count).stop()
            ticks = context.machine.run(chase, targets.first(64), cpu=context.cpu, warmup=4)
            found.append(mean_ticks(ticks[:, 0], step_ticks(context)))
        return (found[1] - found[0]) / (many - few)

    # -- the workloads ----------------------------------------------------------------------------------------------

    def _plain(self) -> Iterator[Workload]:
        """Single lines, chases and bursts of flushed lines; a chase over lines whose pointers lead to the next ones."""
        params = self._params
        targets = self._targets()
        yield from make.flushed(self._targets(), params.repetitions)
        yield from make.hot(targets, params.work_cycles)
        yield from make.flushed_chases(self._chased, params.chase_lines)
        for count in params.burst_lines:
            yield make.burst(f"burst_{count}", targets, count, ("l1d_inflight_sum",))
        region = self._allocate(params.stream_bytes)
        lines = np.arange(region.address, region.address + region.size, region.line_size)
        self._context.machine.link(region, lines)
        yield make.ascending_chase(region)

    def _streaming(self) -> Iterator[Workload]:
        """Streaming kernels, where the machine has them."""
        params, facts = self._params, self._context.machine.facts
        names = [name for name in make.STREAMS if name in facts.kernels]
        if names:
            arrays = self._allocate(make.array_room(params.stream_bytes))
            yield from make.streams(arrays, names, params.stream_bytes, max(facts.access_sizes))
        if "triad" in names:
            yield from make.arithmetic(arrays, sorted({min(facts.access_sizes), max(facts.access_sizes)}))

    def _full(self) -> Iterator[Workload]:
        """One line of every few of some pages in turn, then of some others: no prefetcher brings a line that is still
        to come, none sees two lines of a page in a row, and few loads wait for a TLB entry instead of a line."""
        rng, params = self._context.rng(23), self._params
        apart = params.full_apart * self._context.machine.facts.line_size
        turns = -(-max(params.full_lines) // (params.full_pages * (PAGE_BYTES // apart - 1)))
        region = self._allocate(turns * params.full_pages * PAGE_BYTES)
        pages = rng.permutation(np.arange(0, region.size, PAGE_BYTES)).reshape(-1, params.full_pages, 1)
        lines = rng.permuted(np.tile(np.arange(apart, PAGE_BYTES, apart), (*pages.shape[:2], 1)), axis=2)
        order = (lines + pages).transpose(0, 2, 1).ravel()[: max(params.full_lines)]
        targets = Targets(region, region.address + order, rng)
        for count in params.full_lines:
            yield make.burst(f"full_load_{count}", targets, count, ("fb_full", "sq_full"))
            yield make.burst(f"full_store_{count}", targets, count, ("stall_store_buffer",), stores=True)

    def _served(self) -> Iterator[Workload]:
        """What the second level and one beyond it serve: how many of the lines is what a step over them takes, between
        what it takes in the level before and in this one."""
        levels = self.levels
        for level, size, before, own in (
            ("l2", levels.second, levels.near_ticks, levels.lost_ticks),
            ("l3", levels.third, levels.lost_ticks, levels.third_ticks),
        ):
            if size is not None:
                ring = self._ring(size)
                fraction = float(np.clip((self._step_ticks(ring) - before) / (own - before), 0.0, 1.0))
                yield from make.served(level, ring, fraction, self._params)

    def _ring(self, size_bytes: float) -> Ring:
        context = self._context
        rng = context.rng(int(size_bytes))
        region = self._allocate(span_bytes(size_bytes, context.machine.facts.line_size))
        order = by_windows(lay(region, size_bytes, rng), rng)
        context.machine.link(region, order)
        # linking wrote to the lines: a modified one would leave a cache whenever it goes, and be counted
        context.machine.run(Probe().flush(TARGET), {TARGET: order}, cpu=context.cpu)
        return Ring(order)

    def _step_ticks(self, ring: Ring) -> float:
        """Ticks of a step over a working set, once it has been gone around twice."""
        context, steps = self._context, 256
        for probe, placements in ring.rounds:
            context.machine.run(probe, placements, cpu=context.cpu)
        chase = Probe().start().chase(TARGET, steps).stop()
        ticks = context.machine.run(chase, {TARGET: ring.starts(32, steps)}, cpu=context.cpu)
        return mean_ticks(ticks[:, 0], step_ticks(context)) / steps

    def _handed_over(self) -> Iterator[Workload]:
        """Lines that another core modified."""
        elsewhere = set(self._context.machine.facts.cpus) - {self._context.own_cpu, *self._siblings()}
        if elsewhere:
            yield make.handed_over(self._targets(), min(elsewhere), self._params.repetitions)

    def _siblings(self) -> list[int]:
        """Other threads of the core."""
        own = self._context.own_cpu
        return [cpu for group in self._context.machine.facts.siblings if own in group for cpu in group if cpu != own]

    def _beside(self, own: list[Workload]) -> Iterator[Workload]:
        """The same beside a busy sibling thread, where there is one."""
        siblings = self._siblings()
        spare = self._allocate(PAGE_BYTES).address
        for workload in own if siblings else ():
            if not workload.name.startswith(NEVER_BESIDE) and not workload.name.endswith("_chained"):
                yield make.beside_sibling(workload, siblings[0], spare)

    # -- lines that are driven out: where they are behind a pass is what a chase over some of them says --------------

    def _driven(self) -> Iterator[Workload]:
        """Modified lines behind a pass that drives them out of the first level, and of the second one where one was
        found that does. No replacement policy is assumed."""
        context, params, levels = self._context, self._params, self.levels
        context.progress("what drives lines out of each level")
        size = params.amounts[-1] * params.dirty_lines * params.dirty_apart * context.machine.facts.line_size
        evictors = self._allocate(params.largest_pass_bytes)
        dirty = Dirty(region=self._allocate(size), evictors=evictors, params=params)
        # nothing of it may be modified, or it would be written back too
        context.machine.run(make.flushes(evictors), {ARRAY: np.array([evictors.address])}, cpu=context.cpu)
        gone = 1 - params.still_there
        first = self._first_pass(dirty, levels.first_bytes, gone * levels.lost_ticks)
        if first is not None:
            # what has left the second level as well takes longer: of lines behind as many passes as a reading has
            behind = self._behind(dirty, first[0], params.amounts[-1]) - levels.lost_ticks
            left = max(behind / max(levels.next_ticks - levels.lost_ticks, 1e-9), 0.0)
            known = {"l1d_writeback": 1.0} | ({"l2_writeback": left} if left < params.before_memory else {})
            loose = {"l2_writeback": max(params.looseness, left)}
            yield make.driven_out("l1d", dirty, first[0], known, loose)
        # a working set in the third level also misses TLBs, which the few lines behind a pass don't
        least = levels.third_ticks / params.slower if levels.third else gone * levels.memory_ticks
        second = None if levels.second_bytes is None else self._first_pass(dirty, levels.second_bytes, least)
        if second is not None:
            size, behind = second
            known = {"l1d_writeback": 1.0, "l2_writeback": 1.0}
            if behind >= gone * levels.memory_ticks:
                known |= dict.fromkeys(make.IN_MEMORY, 1.0)
            elif levels.third and behind < levels.third_ticks + params.looseness * levels.memory_ticks:
                known |= dict.fromkeys(make.IN_MEMORY, 0.0)
            # a cache that includes the first one may take a line's data from there, without a write-back
            loose = {role: params.looseness for role, volume in known.items() if not volume or role == "l1d_writeback"}
            yield make.driven_out("l2", dirty, size, known, loose)

    def _first_pass(self, dirty: Dirty, cache_bytes: float, least: float) -> tuple[int, float] | None:
        """The shortest pass, of those long enough to leave nothing in a cache whatever it replaces, behind which a step
        over the lines takes so long, and how long: some policies let a pass through."""
        sizes = self._params.beyond * cache_bytes * 2.0 ** np.arange(4)
        passes = (int(size) // PAGE_BYTES * PAGE_BYTES for size in sizes if size <= self._params.largest_pass_bytes)
        timed = ((size, self._behind(dirty, size)) for size in passes)
        return next((each for each in timed if each[1] >= least), None)

    def _behind(self, dirty: Dirty, size_bytes: int, turns: int = 1) -> float:
        """Ticks of a step over some of the lines that were modified and then passed by other lines so often, over those
        of a step over lines that are in the first level."""
        context, run, params = self._context, self._context.machine.run, self._params
        rng = context.rng(size_bytes)
        begins = dirty.begins[: 2 if size_bytes > params.long_pass_bytes else None]
        timed = min(params.evicted_lines, params.dirty_lines * dirty.step_bytes // PAGE_BYTES)
        firsts = [self._linked(dirty, begin, timed, rng) for begin in begins.tolist()]
        run(make.flushes(dirty.region), {ARRAY: begins[:1]}, cpu=context.cpu)
        probe = dirty.each(Probe().store(ARRAY + 8))
        for _ in range(turns):
            probe += dirty.passing(size_bytes)
        # a flush translates its address: the pages' entries are in the TLB without any line of them being used
        probe = probe.repeat(timed, Probe().flush(ARRAY), advance=PAGE_BYTES).fence()
        probe = probe.start(0).chase(TARGET, timed).stop(0).start(1).chase(TARGET, timed).stop(1)
        evictors = np.full(len(firsts), dirty.evictors.address)
        ticks = run(probe, {ARRAY: begins, EVICTOR: evictors, TARGET: np.array(firsts)}, cpu=context.cpu)
        first, again = (mean_ticks(ticks[:, number], step_ticks(context)) for number in (0, 1))
        return (first - again) / timed + self.levels.near_ticks

    def _linked(self, dirty: Dirty, begin: int, timed: int, rng: np.random.Generator) -> int:
        """One modified line of each of some pages from `begin` on, but none that begins a page, linked in random order;
        the first one's address."""
        at = rng.permutation(np.arange(self._params.dirty_lines) * dirty.step_bytes)
        at = at[at % PAGE_BYTES != 0]
        _, firsts = np.unique(at // PAGE_BYTES, return_index=True)
        order = begin + rng.permutation(at[firsts[:timed]])
        self._context.machine.link(dirty.region, order)
        return int(order[0])
