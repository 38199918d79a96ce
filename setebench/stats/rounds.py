"""A quantity from several rounds that lie seconds apart, with the interval of a quantile by bootstrap over rounds.

What else runs on a core or in a cache adds time and takes room in some rounds. So a latency or a penalty is the 16th
percentile of rounds, a capacity or a rate the 84th, and a count the commonest value (of ties the larger one): the
middle would be a mixture of quiet and disturbed rounds.

No resampling of few rounds goes beyond their ends, where a third of the time the quantile itself lies: of six rounds
the bootstrap's 95 % interval held it in 62 to 65 of 100 draws. So the interval reaches as far, too, as Student's t says
of their spread: then 87 to 97 of 100 draws, of normal, uniform, heavy-tailed rounds, and of half disturbed ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from setebench.stats.estimate import CONFIDENCE, Interval, errors_to_end

LATENCY, RATE, MIDDLE = 0.16, 0.84, 0.5
"""Quantiles of rounds: for what disturbance makes longer, for what it makes less, and for what it moves both ways."""

QUIET = 0.4
"""Of rounds, those from which the spread of quiet ones is taken."""

DENSEST = 0.3
"""Of samples, the part that lies closest together and shows how quiet ones differ."""

LEAST = 0.05
"""Of samples, a quantile that is little disturbed where most are: fewer are shorter by their references' noise."""

LEAST_SAMPLES = 4
"""Fewer have no densest part."""

PLACING = 0.03
"""Of a rate: what all rounds have in common, where pages and instructions lie."""

DRAWS = 999
"""Of the bootstrap: ends of a 95 % interval are the 25th and the 975th."""


def quantile_of_rounds(values: ArrayLike, quantile: float, bias: tuple[float, float] = (0.0, 0.0)) -> Interval:
    """The quantile of rounds, shape (rounds,), with its 95 % interval, widened below and above by what the harness may
    add to every round (`bias`, not negative). NaN rounds don't count; with none left all is NaN. One round says nothing
    of others: its interval is infinite."""
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        return Interval(float("nan"), float("nan"), float("nan"))
    value = float(np.quantile(finite, quantile))
    if len(finite) == 1:
        return Interval(value, float("-inf"), float("inf"))
    draws = np.random.default_rng(len(finite)).integers(0, len(finite), (DRAWS, len(finite)))
    resampled: NDArray[np.float64] = np.quantile(finite[draws], quantile, axis=1)
    low, high = np.quantile(resampled, ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    reach = _reach(finite, quantile)
    return Interval(value, float(min(low, value - reach) - bias[0]), float(max(high, value + reach) + bias[1]))


def rate_of_rounds(rounds: NDArray[np.float64]) -> Interval:
    """The 84th percentile of rounds, shape (rounds,), as what else runs only makes a rate less."""
    room = PLACING * float(rounds.max())
    found = quantile_of_rounds(rounds, RATE, (room, room))
    return Interval(found.value, max(found.low, 0.0), found.high)


def low_of_samples(values: ArrayLike, bias: float) -> Interval:
    """The 16th percentile of samples of all rounds and sizes, of any shape, with an interval by how close the densest
    of the lower half lie: others were disturbed, in parts of rounds, and say nothing of the spread of quiet ones. It
    holds the densest ones, and is wider by `bias` at both ends. NaN samples don't count; with none left all is NaN."""
    finite = np.sort(np.asarray(values, dtype=np.float64), axis=None)
    finite = finite[np.isfinite(finite)]
    if len(finite) < LEAST_SAMPLES:
        return quantile_of_rounds(finite, LATENCY, (bias, bias))
    lower, count = finite[: len(finite) // 2 + 1], max(LEAST_SAMPLES - 1, round(DENSEST * len(finite)))
    count = min(count, len(lower))
    begin = int(np.argmin(lower[count - 1 :] - lower[: len(lower) - count + 1]))
    dense = lower[begin : begin + count]
    # of a normal distribution the densest three tenths lie within 0.77 standard deviations
    low, high = float(min(dense[0], np.quantile(finite, LEAST))), float(dense[-1])
    deviation = float(dense[-1] - dense[0]) / float(2 * special.ndtri(0.5 + DENSEST / 2))
    value, reach = float(np.quantile(finite, LATENCY)), _student(len(finite), LATENCY) * deviation + bias
    return Interval(value, min(value, low) - reach, max(value, high) + reach)


def _reach(finite: NDArray[np.float64], quantile: float) -> float:
    """How far from the quantile Student's t reaches, by the spread of the rounds on its side: those that disturbance
    moved the other way say nothing of it. In the middle, by the median deviation."""
    if quantile == MIDDLE:
        deviation = float(np.median(np.abs(finite - np.median(finite)))) / special.ndtri(0.75)
    else:
        quiet = finite if quantile < MIDDLE else -finite
        deviation = float(np.quantile(quiet, QUIET) - quiet.min())  # a standard deviation of six normal ones
    return float(_student(len(finite), quantile) * deviation)


def _student(count: int, quantile: float) -> float:
    """Standard deviations from a quantile of so many normal values to the end of its interval."""
    density = np.exp(-(special.ndtri(quantile) ** 2) / 2) / np.sqrt(2 * np.pi)
    return float(errors_to_end(count - 1) * np.sqrt(quantile * (1 - quantile) / count) / density)


def commonest(values: Sequence[int]) -> int:
    """The value that most rounds gave; of several the largest, as others take entries and ways and give none."""
    times = Counter(values)
    return max(times, key=lambda value: (times[value], value))
