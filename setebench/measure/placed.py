"""Volleys of lines in a level between level 1 and memory, where a walk behind their loading left them.

A queue that limits loads from memory limits these as well, at the same number; the way to memory does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from setebench.calibration import Walk
from setebench.machine import Region
from setebench.measure.calibrate import step_ticks
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.placing import LEAST_REPETITIONS, WALK_STEPS
from setebench.measure.volley import REPETITIONS, TARGETS, WALK, WARMUP, Spread, Volleys, settled, wave_loads
from setebench.probe import Probe
from setebench.scenario import Context


class Placed(Volleys):
    """Volleys behind one level's walk."""

    def __init__(self, context: Context, region: Region, rng: np.random.Generator, walk: Walk) -> None:
        super().__init__(context, region, rng)
        self._lay_walk(walk.bytes)
        self._steps = len(self._walk) * walk.turns
        # beside a long walk it matters little what is warm
        self._repetitions = min(max(WALK_STEPS // self._steps, LEAST_REPETITIONS), REPETITIONS + WARMUP)
        self._warmup = WARMUP if self._repetitions == REPETITIONS + WARMUP else 0

    @property
    def step_cycles(self) -> float:
        """The clock's step."""
        return self.cycles_per_tick * step_ticks(self._context)

    def chases(self, shapes: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
        """As `Volleys.waves`, for each of `shapes` (count, waves), of lines in the level, all behind the same walk. One
        wave is a volley of independent loads. Shape (repetitions, shapes).

        Prefetchers may ask for the lines beside, which the walk pushed out as well, and take entries for them; and the
        walk may have pushed out code. So fewer loads may be in flight than there are entries, but never more."""
        places = [self._spread(count * waves) for count, waves in shapes]
        first_pages = np.concatenate([[0], np.cumsum([len(place.targets) for place in places])])
        targets = [
            tuple(int(page) * TLB_PAGE_BYTES + target for target in place.targets)
            for page, place in zip(first_pages, places, strict=False)
        ]
        probe = Probe()
        for target in (target for own in targets for target in own):
            probe = probe.load(TARGETS + target)
        probe = probe.fence().chase(WALK, self._steps).fence()
        for number, (own, (count, waves)) in enumerate(zip(targets, shapes, strict=True)):
            # the walk took the TLB entries as well; a flush brings those back, and trains nothing; the first ones last
            for target in reversed(own):
                probe = probe.flush(TARGETS + _far(target))
            probe = wave_loads(settled(probe).start(number), Spread(own, ()), count, waves).stop(number)
        # elsewhere every time: what shares its sets with the walk is pushed out further, again and again
        bases = [self._base(int(first_pages[-1])) for _ in range(self._repetitions)]
        placements = {TARGETS: np.array(bases), WALK: np.resize(self._walk[:1], self._repetitions)}
        machine, cpu = self._context.machine, self._context.cpu
        ticks = self.alone.run(lambda: machine.run(probe, placements, cpu=cpu, warmup=self._warmup))
        return np.asarray(ticks * self.cycles_per_tick, dtype=np.float64)


def _far(target: int) -> int:
    """A line half a page from the target, in the same page."""
    page, offset = divmod(target, TLB_PAGE_BYTES)
    return page * TLB_PAGE_BYTES + (offset + TLB_PAGE_BYTES // 2) % TLB_PAGE_BYTES
