"""Robust estimates of centre and spread, which a minority of outliers hardly changes.

These are tau estimators (Maronna and Zamar 2002, Technometrics 44:307): they start from the median and the median
absolute deviation, weight values less the further out they lie, and limit the squared deviations of outliers.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Numbers = NDArray[np.float64]

FAR = 4.5
"""Distance from the median, in median absolute deviations, from which on a value has no weight (the paper's c1)."""

CUT = 3.0
"""Distance from the centre, in median absolute deviations, to which outliers are limited (the paper's c2)."""

_OF_NORMAL = 0.9616
"""The uncorrected spread of standard normal values, by which spreads are divided so as to estimate the standard
deviation: the root of the mean of min(x², k²), with k = CUT times their median absolute deviation of 0.6745."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Robust centre and spread of `count` values; for normal values the spread estimates their standard deviation."""

    centre: float
    spread: float
    count: int

    @property
    def degrees(self) -> int:
        """Degrees of freedom of Student's t for a value's distance from the centre, in spreads: half the number of
        values, as up to half may be outliers. `tests/stats/test_robust.py` shows that this isn't too many."""
        return self.count // 2


def spread(values: Numbers) -> Spread:
    """Return centre and spread of finite values, shape (n,), n >= 1; the spread is 0 if more than half are equal."""
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
    """Return two-sided p-values of distances (in spreads, any shape) by Student's t; 1 without `degrees` of freedom."""
    known = np.asarray(degrees)
    found: Numbers = np.where(known < 1, 1.0, 2 * special.stdtr(np.maximum(known, 1), -np.abs(distances)))
    return found


def limit(probability: float, degrees: float) -> float:
    """Return the distance (in spreads) that has this two-sided p-value by Student's t; infinite without `degrees`."""
    return -float(special.stdtrit(degrees, probability / 2)) if degrees >= 1 else float("inf")
