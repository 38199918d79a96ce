"""What all questions about misses in flight share: volleys, how fast the levels are, and the staircases climbed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.infer.steps import Staircase
from setebench.infer.ticks import mean_ticks, over_replicates
from setebench.measure.calibrate import step_ticks
from setebench.measure.climb import FAST, THOROUGH, Effort, Measure, climb, once_more
from setebench.measure.siblings import Siblings
from setebench.scenario import Context

MOST = 256
"""Requests that are tried at most; no level-1 or level-2 miss queue of a published core is larger."""

NEAR_RUNS, NEAR_BATCHES, NEAR_MOST = 6, 4, 24
"""Runs whose mean tells the latency of the line of the hit, how many such means are taken at a time, and at most."""

FAR_SHARE, MOST_GONE = 0.5, 0.3
"""Loads that take so much of a miss longer than a hit in level 1 came from memory: a walk over half a cache that hashes
its index empties some sets. So many of them may: the calm part of samples leaves those out as well."""


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

    def levels_off(self, near: Callable[[float], NDArray[np.float64]], walk_bytes: float) -> int:
        """0 where a line that ought to be in level 2 behind a walk really comes from there, by its latency, -1 where it
        is nearer, 1 where it is further; asked until that is clear, for near levels may differ by less than a clock
        step. `near` times the line behind a walk of so many bytes; 0 leaves it in level 1."""
        ordered = sorted(self.cycles.values())
        inner, own, outer = ordered[(at := ordered.index(self.cycles["l2"])) - 1 : at + 2]
        low, high = (inner * own) ** 0.5, (own * outer) ** 0.5
        found: list[float] = []
        gone: list[float] = []
        while len(found) < NEAR_MOST:
            for _ in range(NEAR_BATCHES):
                first = self.mean(partial(near, 0.0), NEAR_RUNS)
                behind = np.concatenate([near(walk_bytes) for _ in range(NEAR_RUNS)])
                far = behind - first > FAR_SHARE * self.cycles["memory"]
                gone.append(float(far.mean()))
                found.append(self.mean_of(behind[~far] if gone[-1] < 1 else behind) - first + self.cycles["l1"])
            told = over_replicates(found)
            if told.high < low or low < told.low < told.high < high or told.low > high:
                break
        if np.mean(gone) > MOST_GONE:
            return 1
        return int(told.value >= high) - int(told.value <= low)
