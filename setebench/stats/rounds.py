"""A quantity from several rounds that lie seconds apart, with the interval of a quantile by bootstrap over rounds.

What else runs on a core or in a cache adds time and takes room in some rounds. So a latency or a penalty is the 16th
percentile of rounds, a capacity or a rate the 84th, and a count the commonest value (of ties the larger one): the
middle would be a mixture of quiet and disturbed rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setebench.stats.estimate import CONFIDENCE, Interval

LATENCY, RATE, MIDDLE = 0.16, 0.84, 0.5
"""Quantiles of rounds: for what disturbance makes longer, for what it makes less, and for what it moves both ways."""

DRAWS = 999
"""Of the bootstrap: ends of a 95 % interval are the 25th and the 975th."""


def quantile_of_rounds(values: ArrayLike, quantile: float, bias: tuple[float, float] = (0.0, 0.0)) -> Interval:
    """The quantile of rounds, shape (rounds,), with its 95 % interval, widened below and above by what the harness may
    add to every round (`bias`, not negative). NaN rounds don't count; with none left all is NaN."""
    known = np.asarray(values, dtype=np.float64)
    known = known[np.isfinite(known)]
    if not len(known):
        return Interval(float("nan"), float("nan"), float("nan"))
    draws = np.random.default_rng(len(known)).integers(0, len(known), (DRAWS, len(known)))
    spread: NDArray[np.float64] = np.quantile(known[draws], quantile, axis=1)
    low, high = np.quantile(spread, ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    return Interval(float(np.quantile(known, quantile)), float(low) - bias[0], float(high) + bias[1])


def commonest(values: Sequence[int]) -> int:
    """The value that most rounds gave; of several the largest, as others take entries and ways and give none."""
    times = Counter(values)
    return max(times, key=lambda value: (times[value], value))
