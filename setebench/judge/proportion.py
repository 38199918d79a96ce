"""How often something happened, with the error that so few trials, or so few machines, leave."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import msgspec
import numpy as np
from scipy.special import stdtrit

CONFIDENCE = 0.95
"""Of the interval of a fraction."""


class Proportion(msgspec.Struct, frozen=True, kw_only=True):
    """`hits` of `trials`, their fraction, and its interval at `CONFIDENCE`; None where nothing can be said."""

    hits: int
    trials: int
    fraction: float | None = None
    low: float | None = None
    high: float | None = None


def proportion(hits: int, trials: int) -> Proportion:
    """The fraction with Wilson's score interval (1927), which holds near 0 and 1 too (Brown, Cai and DasGupta 2001).
    Trials count as independent."""
    if trials == 0:
        return Proportion(hits=hits, trials=trials)
    low, high = _wilson(hits / trials, trials, NormalDist().inv_cdf(0.5 + CONFIDENCE / 2))
    return Proportion(hits=hits, trials=trials, fraction=hits / trials, low=low, high=high)


def clustered(hits: Sequence[int], trials: Sequence[int]) -> Proportion:
    """The fraction of all trials, whose trials come in clusters that hang together: one number of each a cluster.

    Wilson's interval with as many independent trials as would leave the error that the clusters show (Korn and Graubard
    1998; with Student's quantile for few clusters). Where all of them are alike, each counts as a single trial. One
    cluster alone has no interval."""
    total, whole = sum(trials), sum(hits)
    if total == 0:
        return Proportion(hits=whole, trials=total)
    fraction, clusters = whole / total, len(trials)
    if clusters < 2:
        return Proportion(hits=whole, trials=total, fraction=fraction)
    variance = ratio_variance(hits, trials)
    independent = min(fraction * (1 - fraction) / variance, total) if variance > 0 else clusters
    low, high = _wilson(fraction, independent, student(clusters - 1))
    return Proportion(hits=whole, trials=total, fraction=fraction, low=low, high=high)


def ratio_variance(numbers: Sequence[int], trials: Sequence[int]) -> float:
    """Of the ratio of both sums, over clusters that are independent of each other; of two or more."""
    off = np.asarray(numbers) - sum(numbers) / sum(trials) * np.asarray(trials)
    return float(len(trials) / (len(trials) - 1) * np.sum(off**2) / sum(trials) ** 2)


def student(freedom: int) -> float:
    """How many standard errors an interval at `CONFIDENCE` reaches to either side."""
    return float(stdtrit(freedom, 0.5 + CONFIDENCE / 2))


def _wilson(fraction: float, trials: float, z: float) -> tuple[float, float]:
    middle = fraction + z * z / (2 * trials)
    half = z * math.sqrt(fraction * (1 - fraction) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    # at the ends the formula gives 0 and 1 but for rounding
    return 0.0 if fraction == 0 else (middle - half) / scale, 1.0 if fraction == 1 else (middle + half) / scale
