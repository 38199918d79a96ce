"""A value with its uncertainty, from epochs: repeated measures that are seconds apart.

What differs from epoch to epoch (frequency, neighbours, where pages lie) is not seen within one, so the spread of epoch
means is the only honest error of their mean: Student's t with epochs - 1 degrees of freedom (Searle, Casella and
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
"""Of every interval."""

EPSILON = float(np.finfo(np.float64).eps)
"""Divisors and arguments of logarithms are no less."""


def errors_to_end(degrees: float) -> float:
    """Standard errors from the middle of an interval to its end, by Student's t; infinite degrees make it normal."""
    upper = 0.5 + CONFIDENCE / 2
    return float(special.stdtrit(degrees, upper) if degrees < math.inf else special.ndtri(upper))


class Interval(NamedTuple):
    """A value with the ends of its interval, which need not lie equally far off."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> Interval:
        """In another unit."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A value, its standard error, and the degrees of freedom that the error was estimated with (infinite where it is
    known)."""

    value: float
    error: float = 0.0
    degrees: float = math.inf

    @property
    def half_width(self) -> float:
        """Of the interval at `CONFIDENCE`; infinite without degrees of freedom."""
        return math.inf if self.degrees < 1 else errors_to_end(self.degrees) * self.error

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.value - self.half_width

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.value + self.half_width

    def doubted(self, relative: float) -> Estimate:
        """The same with a further standard error, relative to the value, that no number of epochs makes smaller."""
        return msgspec.structs.replace(self, error=math.hypot(self.error, relative * self.value))

    def within(self, low: float, high: float) -> bool:
        """Whether the whole interval lies in [low, high]."""
        return low <= self.low and self.high <= high

    def outside(self, low: float, high: float) -> bool:
        """Whether no part of the interval lies in [low, high]."""
        return self.high < low or self.low > high


def over_epochs(values: ArrayLike) -> Estimate:
    """The mean of epoch means, shape (epochs,), finite; NaN with infinite width where there is none."""
    means = np.asarray(values, dtype=np.float64)
    if len(means) < 2:
        return Estimate(value=float(means[0]) if len(means) else math.nan, error=math.inf, degrees=0)
    error = float(means.std(ddof=1)) / math.sqrt(len(means))
    return Estimate(value=float(means.mean()), error=error, degrees=len(means) - 1)
