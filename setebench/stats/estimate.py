"""Values with their uncertainty, estimated from epochs: repetitions of a measurement that are seconds apart.

Clock frequency, co-runners and page placement differ between epochs but not within one, so the standard error is
computed from the spread of the epochs' means, with Student's t of epochs - 1 degrees of freedom (Searle, Casella and
McCulloch 1992, Variance Components, chapter 3, the balanced one-way case).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike
from scipy import special

CONFIDENCE = 0.95
"""Confidence level of every interval."""

EPSILON = float(np.finfo(np.float64).eps)
"""Lower limit of divisors and of arguments of logarithms, against division by zero."""


def errors_to_end(degrees: float) -> float:
    """Return half the width of an interval at `CONFIDENCE`, in standard errors, by Student's t with `degrees` of
    freedom; infinite degrees give the normal distribution."""
    upper = 0.5 + CONFIDENCE / 2
    return float(special.stdtrit(degrees, upper) if degrees < math.inf else special.ndtri(upper))


class Interval(NamedTuple):
    """A value and the ends of its confidence interval, which need not be symmetric, all in one unit."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> Interval:
        """Return the interval with value and ends multiplied by `factor`, as for another unit."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A value, its standard error (in the same unit) and the error's degrees of freedom (infinite: it is exact)."""

    value: float
    error: float = 0.0
    degrees: float = math.inf

    @property
    def half_width(self) -> float:
        """Half the width of the interval at `CONFIDENCE`; infinite without degrees of freedom."""
        return math.inf if self.degrees < 1 else errors_to_end(self.degrees) * self.error

    @property
    def low(self) -> float:
        """Lower end of the confidence interval."""
        return self.value - self.half_width

    @property
    def high(self) -> float:
        """Upper end of the confidence interval."""
        return self.value + self.half_width

    def doubted(self, relative: float) -> Estimate:
        """Return the estimate with a systematic error, `relative` to the value, added to its error in quadrature."""
        return msgspec.structs.replace(self, error=math.hypot(self.error, relative * self.value))

    def within(self, low: float, high: float) -> bool:
        """Return whether the whole confidence interval lies in [low, high]."""
        return low <= self.low and self.high <= high

    def outside(self, low: float, high: float) -> bool:
        """Return whether no part of the confidence interval lies in [low, high]."""
        return self.high < low or self.low > high


def over_epochs(values: ArrayLike) -> Estimate:
    """Return the mean of epochs' `values` (finite, shape (epochs,)); one epoch's error is infinite, none give NaN."""
    means = np.asarray(values, dtype=np.float64)
    if len(means) < 2:
        return Estimate(value=float(means[0]) if len(means) else math.nan, error=math.inf, degrees=0)
    error = float(means.std(ddof=1)) / math.sqrt(len(means))
    return Estimate(value=float(means.mean()), error=error, degrees=len(means) - 1)
