"""Centre and spread that a minority of odd values can't move.

Tau estimators (Maronna and Zamar 2002, Technometrics 44:307): start from median and median absolute deviation, weigh
each value by how far out it lies, and cut off the squares of what is far.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Numbers = NDArray[np.float64]

FAR = 4.5
"""Deviations, in median absolute deviations, from which on a value has no weight in the centre (the paper's c1)."""

CUT = 3.0
"""Deviations, in median absolute deviations, beyond which squares are cut off for the spread (the paper's c2)."""

_OF_NORMAL = 0.9616
"""The spread of many normal values before it is made that of their standard deviation: the root of the mean of
min(x², k²) with k = CUT times their median absolute deviation, 0.6745."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Centre and spread of `count` values; the spread estimates the standard deviation of normal ones."""

    centre: float
    spread: float
    count: int

    @property
    def degrees(self) -> int:
        """Of Student's t for a value's distance from the centre in spreads: half the number of values, as the other
        half may be anything. It is never too many: of normal values, 3 to 200 of them, the distance passes the limits
        of t at 1 in 100, 1,000 and 10,000 at most so often (`tests/stats/test_robust.py`)."""
        return self.count // 2


def spread(values: Numbers) -> Spread:
    """Of finite values, shape (n,), n >= 1. The spread is 0 where more than half are equal."""
    middle = float(np.median(values))
    deviations = np.abs(values - middle)
    unit = float(np.median(deviations))
    if unit == 0:
        return Spread(centre=middle, spread=0.0, count=len(values))
    weights = np.clip(1 - (deviations / (FAR * unit)) ** 2, 0, None) ** 2
    centre = float(weights @ values / weights.sum())
    squares = np.minimum(((values - centre) / unit) ** 2, CUT**2)
    return Spread(centre=centre, spread=unit * float(np.sqrt(squares.mean())) / _OF_NORMAL, count=len(values))


def tail(distances: Numbers, degrees: ArrayLike) -> Numbers:
    """How probable a distance at least so large is, to both sides, by Student's t; 1 without degrees of freedom."""
    known = np.asarray(degrees)
    found: Numbers = np.where(known < 1, 1.0, 2 * special.stdtr(np.maximum(known, 1), -np.abs(distances)))
    return found


def limit(probability: float, degrees: float) -> float:
    """The distance that is passed with that probability, to both sides; infinite without degrees of freedom."""
    return -float(special.stdtrit(degrees, probability / 2)) if degrees >= 1 else float("inf")
