"""How long a pass over other lines must be to drive modified lines out of a cache: found by timing them afterwards.

No size of a cache and no replacement policy is assumed: where the lines are behind a pass is what a chase over some of
them says. Policies that let a pass through (a last level that keeps what it has) show as lines that stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from setebench.experiments.calibrate import step_ticks
from setebench.probe import Probe
from setebench.scenario import Context
from setebench.stats.ticks.location import mean_ticks

from .levels import Levels
from .params import Params
from .workloads import ARRAY, EVICTOR, PAGE_BYTES, TARGET, Dirty, Pass, flushes, passing


@dataclass
class Eviction:
    """Passes over evictor lines behind which lines that were modified before are timed."""

    context: Context
    params: Params
    levels: Levels
    dirty: Dirty
    _ticks: dict[int, float] = field(default_factory=dict)
    _clean: int = 0
    _memory: float = np.nan

    def passes(self) -> dict[str, Pass]:
        """The pass that drives lines out of the first level ("l1d"), and of the second one ("l2") where one was found
        that does."""
        levels, params = self.levels, self.params
        self._memory = self._reload(0, flushed=True)
        first, *longer = self._sizes(levels.first_bytes)
        gone = (size for size in (first, *longer) if self.behind(size) >= (1 - params.still_there) * levels.lost_ticks)
        passes = {"l1d": self._own_pass(next(gone, first))}
        # a working set in the third level also misses TLBs, which the few lines behind a pass don't
        least = levels.third_ticks / params.slower if levels.third else (1 - params.still_there) * self._memory
        second = next((size for size in self._sizes(levels.second_bytes) if self.behind(size) >= least), None)
        if second is not None:
            passes["l2"] = Pass(size_bytes=second, known=self._left(self.behind(second)))
        self.context.evidence["driven_out"] = {
            "bytes": list(self._ticks),
            "ticks": list(self._ticks.values()),
            "memory_ticks": self._memory,
        }
        return passes

    def _sizes(self, cache_bytes: float | None) -> list[int]:
        """Passes long enough to leave nothing in a cache, whatever it replaces, and longer ones, as some policies let a
        pass through; none where it is not known where the cache ends."""
        if cache_bytes is None:
            return []
        sizes = self.params.beyond * cache_bytes * 2.0 ** np.arange(4)
        return [int(size) // PAGE_BYTES * PAGE_BYTES for size in sizes if size <= self.params.largest_pass_bytes]

    def _own_pass(self, size: int) -> Pass:
        """What has left the second level too, or is in memory, takes longer than the next level does: of lines behind
        as many passes as a reading has, as the first ones are passed again and again."""
        levels, params, memory = self.levels, self.params, self._memory
        behind = max(self._reload(size, turns=params.amounts[-1]) - levels.lost_ticks, 0.0)
        left = {"l2_writeback": behind / max(levels.next_ticks - levels.lost_ticks, 1e-9)}
        left |= dict.fromkeys(("mem_write", "home_write"), behind / max(memory - levels.lost_ticks, 1e-9))
        left = {role: most for role, most in left.items() if most < params.before_memory}
        known = {role: most if most > params.looseness else 0.0 for role, most in left.items()}
        return Pass(size_bytes=size, known={"l1d_writeback": 1.0, **known}, doubts=left)

    def _left(self, behind: float) -> dict[str, float]:
        """What a line has caused that left the second level and comes in so many ticks afterwards."""
        known = {"l1d_writeback": 1.0, "l2_writeback": 1.0}
        params, memory = self.params, self._memory
        if behind >= (1 - params.still_there) * memory:
            return known | dict.fromkeys(("mem_write", "home_write"), 1.0)
        third = self.levels.third_ticks
        if self.levels.third and behind - third <= params.looseness * (memory - third):
            return known | dict.fromkeys(("mem_write", "home_write"), 0.0)
        return known

    def behind(self, size_bytes: int) -> float:
        """Ticks of a step over some of the modified lines behind a pass over so many bytes."""
        if size_bytes not in self._ticks:
            self._ticks[size_bytes] = self._reload(size_bytes)
        return self._ticks[size_bytes]

    def _reload(self, size_bytes: int, *, flushed: bool = False, turns: int = 1) -> float:
        """Ticks of a step over some of the lines that were modified and then flushed, or passed by other lines so
        often, over those of a step over lines that are in the first level."""
        context, dirty, run = self.context, self.dirty, self.context.machine.run
        begins, evictors = dirty.begins[: 2 if size_bytes > self.params.evicted_bytes else None], dirty.evictors
        firsts = [self._link(begin) for begin in begins.tolist()]
        run(flushes(dirty.region), {ARRAY: begins[:1]}, cpu=context.cpu)
        if size_bytes > self._clean:  # nothing of it may be modified, or it would be written back too
            run(flushes(evictors), {ARRAY: np.array([evictors.address])}, cpu=context.cpu)
            self._clean = evictors.size
        probe = dirty.each(Probe().store(ARRAY + 8))
        if flushed:
            probe += dirty.each(Probe().flush(ARRAY))
        else:
            ((driving, _),) = passing(size_bytes, evictors)
            for _ in range(turns):
                probe += driving
        # a flush translates its address: the pages' entries are in the TLB without any line of them being used
        probe = probe.repeat(self._timed, Probe().flush(ARRAY), advance=PAGE_BYTES).fence()
        probe = probe.start(0).chase(TARGET, self._timed).stop(0).start(1).chase(TARGET, self._timed).stop(1)
        placements = {
            ARRAY: begins,
            EVICTOR: np.full(len(firsts), evictors.address),
            TARGET: np.array(firsts),
        }
        placements = {base: at for base, at in placements.items() if base in probe.bases}
        ticks = run(probe, placements, cpu=context.cpu)
        first, again = (mean_ticks(ticks[:, number], step_ticks(context)) for number in (0, 1))
        return (first - again) / self._timed + self.levels.near_ticks

    @property
    def _timed(self) -> int:
        """Lines that are timed: one a page."""
        return min(self.params.evicted_lines, self.dirty.count * self.dirty.step_bytes // PAGE_BYTES)

    def _link(self, begin: int) -> int:
        """One modified line of each of some pages from `begin` on, but none that begins a page, linked in random order;
        the first one's address."""
        rng = self.context.rng(begin)
        at = rng.permutation(np.arange(self.dirty.count) * self.dirty.step_bytes)
        at = at[at % PAGE_BYTES != 0]
        _, firsts = np.unique(at // PAGE_BYTES, return_index=True)
        order = begin + rng.permutation(at[firsts[: self._timed]])
        self.context.machine.link(self.dirty.region, order)
        return int(order[0])
