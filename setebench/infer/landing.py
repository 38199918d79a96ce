"""Where prefetched lines are, from chases over a few of them: near or far, and which of the near levels.

Knows no machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from setebench.infer.ticks import over_replicates

NEAR = ("l1", "l2")

UNSTEADY = "unsteady"
"""Where a hint fills that leaves its lines in a near level only now and then, or in one of two that can't be told
apart."""

AGREEING = 0.75
"""Share of rounds that must tell the same distance. Of twelve rounds of which each tells the right one with 90 %, nine
do in all but 3 runs of 100; of a hint that works in half of the rounds, nine tell the same in 7 of 100 each way."""


@dataclass(frozen=True)
class Landing:
    """Cycles of a step of a chase over prefetched lines in one round: from the median of its repetitions, which a
    single interrupt doesn't make look like memory, and from their mean, which a coarse clock doesn't round."""

    median: float
    mean: float


def landed(rounds: Sequence[Landing], cycles: Mapping[str, float]) -> str:
    """The level that holds the lines, `memory` where they stay out more often than not, or `UNSTEADY`. `cycles` are
    the latencies of the levels, `l1` to `memory`."""
    levels = [_nearest(each.median, cycles) for each in rounds]
    near = [each.mean for each, level in zip(rounds, levels, strict=True) if level in NEAR]
    if len(near) >= AGREEING * len(rounds):
        return _which_near(near, cycles)
    level, times = Counter(levels).most_common(1)[0]
    if level not in NEAR and times >= AGREEING * len(rounds):
        return level
    return "memory" if len(rounds) - len(near) >= AGREEING * len(rounds) else UNSTEADY


def _which_near(means: Sequence[float], cycles: Mapping[str, float]) -> str:
    """The near level, of all rounds together: near ones differ by less than a clock step, so one round may not tell."""
    near = {level: cycles[level] for level in NEAR if level in cycles}
    found = over_replicates(means)
    low, high = _nearest(found.low, near), _nearest(found.high, near)
    return low if low == high else UNSTEADY


def _nearest(own: float, cycles: Mapping[str, float]) -> str:
    least = min(cycles.values())
    return min(cycles, key=lambda level: abs(float(np.log(max(own, least) / cycles[level]))))
