"""Bursts of lines in a level between level 1 and memory, where a traversal behind their loading left them.

A queue that limits loads from memory limits these as well, at the same number; the way to memory does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from setebench.calibration import Walk
from setebench.experiments.bursts.bursts import EVICTORS, TARGETS, Bursts, Times, dependent_loads
from setebench.experiments.calibrate import step_ticks
from setebench.experiments.lines.layout import TLB_PAGE_BYTES, span_bytes
from setebench.experiments.lines.placing import LEAST_REPETITIONS, WALK_STEPS
from setebench.machine import Region
from setebench.probe import Probe
from setebench.scenario import Context


class BurstsInLevel(Bursts):
    """Bursts behind one level's traversal."""

    def __init__(self, context: Context, region: Region, rng: np.random.Generator, walk: Walk) -> None:
        super().__init__(context, region, rng)
        self.evicted(Probe(), walk.bytes)
        self._steps = len(self._evictors) * walk.turns
        # beside a long traversal it matters little what is warm
        runs = self.params.runs
        self._repetitions = min(max(WALK_STEPS // self._steps, LEAST_REPETITIONS), runs)
        self._warmup = self.params.warmup if self._repetitions == runs else 0

    @staticmethod
    def fits(region: Region, walk: Walk) -> bool:
        """Whether the region's second half has room for the traversal, apart from all targets."""
        return span_bytes(walk.bytes, region.line_size) <= region.size // 2

    @property
    def step_cycles(self) -> float:
        """The clock's step."""
        return self.cycles_per_tick * step_ticks(self._context)

    def chases_of(self, shapes: Sequence[tuple[int, int]]) -> Times:
        """As `Bursts.chases`, for each of `shapes` (count, steps), of lines in the level, all behind the same
        traversal. Shape (repetitions, shapes).

        Prefetchers may ask for the lines beside, which the evictors pushed out as well, and take entries for them; and
        code may have been pushed out. So fewer loads may be in flight than there are entries, but never more."""
        pages = np.cumsum([0, *(count * steps for count, steps in shapes)])
        targets = [
            tuple(int(page) * TLB_PAGE_BYTES + target for target in self.spread(count * steps).targets)
            for page, (count, steps) in zip(pages, shapes, strict=False)
        ]
        probe = Probe()
        for target in (target for own in targets for target in own):
            probe = probe.load(TARGETS + target)
        probe = probe.fence().chase(EVICTORS, self._steps).fence()
        for number, (own, (count, _)) in enumerate(zip(targets, shapes, strict=True)):
            # the traversal took the TLB entries too; a flush brings those back and trains nothing; the first ones last
            for target in reversed(own):
                probe = probe.flush(TARGETS + _far(target))
            probe = dependent_loads(self.settled(probe).start(number), own, count).stop(number)
        # elsewhere every time: what shares its sets with evictors is pushed out further, again and again
        bases = [self.base(int(pages[-1])) for _ in range(self._repetitions)]
        placements = {TARGETS: np.array(bases), EVICTORS: np.resize(self._evictors[:1], self._repetitions)}
        machine, cpu = self._context.machine, self._context.cpu
        ticks = self.alone.run(lambda: machine.run(probe, placements, cpu=cpu, warmup=self._warmup))
        return np.asarray(ticks * self.cycles_per_tick, dtype=np.float64)


def _far(target: int) -> int:
    """A line half a page from the target, in the same page."""
    page, offset = divmod(target, TLB_PAGE_BYTES)
    return page * TLB_PAGE_BYTES + (offset + TLB_PAGE_BYTES // 2) % TLB_PAGE_BYTES
