"""All workloads of a machine: memory for them, and the working sets that each level serves, found by timing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace

import numpy as np

from setebench.errors import UnsupportedError
from setebench.experiments.calibrate import quick_cycles_per_tick, step_ticks
from setebench.experiments.levels import find_levels, working_memory
from setebench.experiments.lines.layout import by_windows, lay, span_bytes
from setebench.experiments.streams.choice import nodes_for
from setebench.kernels import KERNELS, stream_bytes
from setebench.machine import BindsMemory, Region
from setebench.probe import Probe
from setebench.scenario import Context
from setebench.stats.ticks.location import mean_ticks

from . import workloads as make
from .ahead import prefetched_traffic
from .eviction import Eviction
from .levels import Levels, beyond, levels_of
from .params import Params
from .workloads import ARRAY, PAGE_BYTES, PAGES, TARGET, Dirty, Ring, Targets, Workload, scattered

STALLS = ("l1d_inflight_sum", "l1d_inflight_cycles", "no_execute", "stall_l1d_miss", "stall_load_any", "cycles")
"""Roles that count cycles of a chase."""


class Battery:
    """The workloads, and the memory that they use until `close`."""

    def __init__(self, context: Context, params: Params) -> None:
        self._context, self._params = context, params
        self._stack = ExitStack()
        try:
            context.progress("where the levels are")
            self.levels = self._find_levels()
            self._ascending = self._linked(self._allocate(params.stream_bytes))
            self.prefetched = prefetched_traffic(context, self._ascending, self.levels, params)
            self.workloads = list(self._all())
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
        context = self._context
        region = working_memory(context)
        self._stack.callback(context.machine.release, region)
        found, per_tick = find_levels(context, region), quick_cycles_per_tick(context)
        memory, self._chased = self._find_chased()
        levels = levels_of(found, per_tick, memory, self._params)
        context.evidence["working_sets"] = asdict(levels)
        return levels

    def _find_chased(self) -> tuple[float, Targets]:
        """What a step of a chase over flushed lines takes, ticks, and the lines: of several draws the slowest one, as a
        prefetcher that happens to bring a line makes a chase faster, and what waits for such a line is no miss."""
        draws = [self._targets(17 + number) for number in range(self._params.draws)]
        ticks = [self._flushed_ticks(each) for each in draws]
        slowest = int(np.argmax(ticks))
        return ticks[slowest], draws[slowest]

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

    def _all(self) -> Iterator[Workload]:
        parts = (self._plain, self._remote, self._streaming, self._full, self._served, self._handed_over)
        own = [workload for part in parts for workload in part()]
        return iter([*own, *self._beside(own)])

    def _plain(self) -> Iterator[Workload]:
        """Single lines, chases and bursts of flushed lines."""
        params = self._params
        targets, stored = self._targets(), self._targets()
        yield from make.flushed(stored, params.repetitions)
        yield from make.hot(targets, params.work_cycles, 24)
        yield from make.flushed_chases(self._chased, params.chase_lines, STALLS)
        for count in params.burst_lines:
            yield make.burst(f"burst_{count}", targets, count, ("l1d_inflight_sum",))
        yield make.ascending_chase(self._ascending)

    def _remote(self) -> Iterator[Workload]:
        """Lines of another node's memory, where there is one and it can be had."""
        machine, params = self._context.machine, self._params
        nodes = nodes_for(machine.facts, self._context.own_cpu)
        if nodes is None or not isinstance(machine, BindsMemory):
            return
        try:
            single = self._bound(machine, PAGES * PAGE_BYTES, nodes[1])
            ascending = self._bound(machine, params.stream_bytes, nodes[1])
        except UnsupportedError:
            return
        targets = scattered(single, self._context.rng(17))
        yield from make.remote(targets, self._linked(ascending), params.repetitions)

    def _bound(self, machine: BindsMemory, size: int, node: int) -> Region:
        """Touched memory of a node. Raises `UnsupportedError` where none is to be had, or not there."""
        context = self._context
        region = machine.allocate_on(size, min(context.machine.facts.page_sizes), node)
        self._stack.callback(context.machine.release, region)
        touch = Probe().repeat(size // PAGE_BYTES, Probe().store(ARRAY), advance=PAGE_BYTES)
        for probe in (touch, make.flushes(region)):
            context.machine.run(probe, {ARRAY: [region.address]}, cpu=context.cpu)
        if machine.node_of(region, 0) not in (node, None):
            raise UnsupportedError(f"memory bound to node {node} lies elsewhere")
        return region

    def _streaming(self) -> Iterator[Workload]:
        """Streaming kernels, where the machine has them."""
        params, facts = self._params, self._context.machine.facts
        names = [name for name in make.STREAMS if name in facts.kernels]
        if names:
            arrays = self._allocate(make.array_room(params.stream_bytes))
            yield from make.streams(arrays, names, params.stream_bytes, max(facts.access_sizes))
            yield from self._level_streams([name for name in params.level_kernels if name in names])
        if "triad" in names:
            widths = sorted({min(facts.access_sizes), max(facts.access_sizes)})
            yield from make.arithmetic(arrays, widths)

    def _level_streams(self, names: list[str]) -> Iterator[Workload]:
        width = max(self._context.machine.facts.access_sizes)
        for level, size in (("l2", self.levels.second), ("l3", self.levels.third)):
            if names and size is not None:
                arrays = self._allocate(max(stream_bytes(KERNELS[name], int(size)) for name in names))
                yield from make.level_streams(level, arrays, names, (int(size), width))

    def _served(self) -> Iterator[Workload]:
        """What the second level and one beyond it serve, and what leaves them modified."""
        context, params = self._context, self._params
        context.progress("what drives lines out of each level")
        size = params.amounts[-1] * params.dirty_lines * params.dirty_apart * context.machine.facts.line_size
        evictors = self._allocate(params.largest_pass_bytes)
        dirty = Dirty(
            region=self._allocate(size), evictors=evictors, count=params.dirty_lines, apart=params.dirty_apart
        )
        eviction = Eviction(context, params, self.levels, dirty)
        passes = eviction.passes()
        for level, served in (("l2", self.levels.second), ("l3", self.levels.third)):
            if served is not None:
                ring = self._ring(served)
                yield from make.served(level, ring, self._fractions(ring), STALLS, params.looseness)
        # what other workloads modified leaves the caches with the first of these, or with the next where that kept it
        clean = 2 * make.passing(max(each.size_bytes for each in passes.values()), dirty.evictors)
        for level, passed in passes.items():
            yield replace(make.driven_out(level, dirty, passed, params.looseness), warm=clean)

    def _fractions(self, ring: Ring) -> dict[str, float]:
        """Of accesses around a working set those that each role counts, by where their lines are."""
        loads, stores = (self._beyond(ring, access) for access in (Probe().load(TARGET), make.STORE))
        by_role = {role: loads[make.BEYOND[role]] for role in make.READS}
        return by_role | {role: stores[make.BEYOND[role]] for role in make.OWNED}

    def _beyond(self, ring: Ring, access: Probe) -> dict[str, float]:
        """The fractions of the accesses around a working set whose lines are in none of the levels before the one
        named. Some lines are timed that the next access is to: where they are then, whatever prefetchers brought, and
        whatever has room where their lines don't come."""
        context, apart, step = self._context, self._params.sampled_apart, step_ticks(self._context)
        for probe, placements in ring.rounds:
            context.machine.run(probe, placements, cpu=context.cpu)
        accesses = self._params.sampled * apart
        order = ring.starts(2 * accesses + 1, 1)
        timed = np.full(len(order), self._allocate(PAGE_BYTES).address)
        sampled = np.arange(accesses, 2 * accesses, apart)
        timed[sampled] = order[sampled + 1]
        probe = access.fence().start().load(ARRAY).stop()
        ticks = context.machine.run(probe, {TARGET: order, ARRAY: timed}, cpu=context.cpu)[:, 0]
        return beyond(ticks[sampled], np.delete(ticks, sampled)[accesses:], step, self.levels, self._params)

    def _linked(self, region: Region) -> Region:
        """A region whose lines point to the next ones."""
        self._context.machine.link(region, np.arange(region.address, region.address + region.size, region.line_size))
        return region

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

    def _ring(self, size_bytes: float) -> Ring:
        context = self._context
        rng = context.rng(int(size_bytes))
        region = self._allocate(span_bytes(size_bytes, context.machine.facts.line_size))
        order = by_windows(lay(region, size_bytes, rng), rng)
        context.machine.link(region, order)
        # linking wrote to the lines: a modified one would leave a cache whenever it goes, and be counted
        context.machine.run(Probe().flush(TARGET), {TARGET: order}, cpu=context.cpu)
        return Ring(order)

    def _siblings(self) -> list[int]:
        """Other threads of the core."""
        own = self._context.own_cpu
        return [cpu for group in self._context.machine.facts.siblings if own in group for cpu in group if cpu != own]

    def _handed_over(self) -> Iterator[Workload]:
        """Lines that another core modified."""
        elsewhere = set(self._context.machine.facts.cpus) - {self._context.own_cpu, *self._siblings()}
        if elsewhere:
            yield make.handed_over(self._targets(), min(elsewhere), self._params.repetitions)

    def _beside(self, own: list[Workload]) -> Iterator[Workload]:
        """The same beside a busy sibling thread, where there is one."""
        siblings = self._siblings()
        spare = self._allocate(PAGE_BYTES).address
        for workload in own if siblings else ():
            if workload.name.startswith(self._params.beside) and not workload.name.endswith(("_free", "_chained")):
                yield make.beside_sibling(workload, siblings[0], spare)
