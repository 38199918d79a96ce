"""What all questions about misses in flight share: volleys, how fast the levels are, and the staircases climbed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.infer.steps import Staircase
from setebench.infer.ticks import mean_ticks
from setebench.measure.calibrate import step_ticks
from setebench.measure.climb import FAST, THOROUGH, Effort, Measure, climb, once_more
from setebench.measure.siblings import Siblings
from setebench.scenario import Context

MOST = 256
"""Requests that are tried at most; no level-1 or level-2 miss queue of a published core is larger."""


class Climber:
    """Climbs staircases one after the other, and keeps them to ask for their jumps again later. `cycles` are the
    latencies of the levels."""

    def __init__(self, context: Context, volleys: Siblings, cycles: dict[str, float]) -> None:
        self.context, self.volleys, self.cycles = context, volleys, cycles
        self.rng = context.rng(4)
        self._effort: Effort = FAST if context.fast else THOROUGH
        self._climbed: list[tuple[str, Staircase, Measure, int]] = []

    def climb(self, what: str, measure: Measure, first: int, most: int = MOST, unit: float | None = None) -> Staircase:
        """The staircase of `measure` from `first` to `most` requests; `unit` is the time of one, memory's without."""
        self.context.progress(what)
        self.volleys.refresh()
        found = climb(measure, first, most, unit or self.cycles["memory"], self.rng, self._effort)
        self._climbed.append((what, found, measure, first))
        return found

    def at_other_times(self) -> None:
        """Every jump once more, when all staircases have been climbed, and again: each time after all others."""
        for time in range(self._effort.again):
            for what, stairs, measure, first in self._climbed:
                self.context.progress(f"{what}, time {time + 2}")
                self.volleys.refresh()
                once_more(stairs, measure, first, self.rng, self._effort)

    def mean(self, measure: Callable[[], NDArray[np.float64]], runs: int) -> float:
        """Mean cycles of so many runs: small differences need a mean that the clock's step doesn't bias."""
        return self.mean_of(np.concatenate([measure() for _ in range(runs)]))

    def mean_of(self, times: NDArray[Any]) -> float:
        """Mean of samples in cycles, as `infer.ticks.mean_ticks` takes it."""
        return mean_ticks(times, self.volleys.cycles_per_tick * step_ticks(self.context))
