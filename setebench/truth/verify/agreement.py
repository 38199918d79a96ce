"""How far twin and machine agree, and the machine with itself. Knows labels and numbers only."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000
PERCENTILES = (2.5, 97.5)
SIGNIFICANCE = 0.01
"""False alarms that all trials together may raise on an exact twin."""


@dataclass(frozen=True)
class Compared:
    """One trial: labels, or times, of the machine, of the machine asked again, and of the twin."""

    first: tuple[float, ...]
    again: tuple[float, ...]
    twin: tuple[float, ...]

    @property
    def missed(self) -> int:
        """Lines on which the twin differs, although the machine says the same twice."""
        pairs = zip(self.first, self.again, self.twin, strict=True)
        return sum(one == two and one != other for one, two, other in pairs)


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % interval; in per cent where it is a part of something."""

    value: float
    low: float
    high: float


def share(rows: Sequence[Compared], which: str) -> Interval:
    """Lines on which machine and `which` (twin or again) agree, in per cent; resampled by trial."""
    same = np.array([sum(map(_equal, row.first, getattr(row, which))) for row in rows], float)
    count = np.array([len(row.first) for row in rows], float)
    return _resampled(lambda rows: 100 * same[rows].sum() / count[rows].sum(), len(rows))


def _equal(one: float, other: float) -> bool:
    return one == other


def kappa(rows: Sequence[Compared], which: str) -> Interval:
    """Cohen's kappa of the levels: agreement beyond chance, 1 at most; 1 where both always say the same one level."""
    levels = sorted({label for row in rows for label in (*row.first, *getattr(row, which))})
    tables = np.zeros((len(rows), len(levels), len(levels)))
    for index, row in enumerate(rows):
        for one, other in zip(row.first, getattr(row, which), strict=True):
            tables[index, levels.index(one), levels.index(other)] += 1

    def of(chosen: NDArray[np.int64]) -> float:
        return _kappa(tables[chosen].sum(axis=0))

    return _resampled(of, len(rows))


def _kappa(table: NDArray[np.float64]) -> float:
    total = table.sum()
    seen = np.trace(table) / total
    chance = float((table.sum(axis=0) * table.sum(axis=1)).sum() / total**2)
    return 1.0 if chance >= 1.0 else float((seen - chance) / (1 - chance))


def errors(rows: Sequence[Compared], which: str) -> NDArray[np.float64]:
    """Relative errors of times, over the machine's, shape (trials,)."""
    first = np.array([row.first[0] for row in rows])
    other = np.array([getattr(row, which)[0] for row in rows])
    relative: NDArray[np.float64] = np.abs(other - first) / first
    return relative


def percentile(values: NDArray[np.float64], which: float) -> Interval:
    """A percentile of relative errors, in per cent."""
    return _resampled(lambda rows: 100 * float(np.percentile(values[rows], which)), len(values))


def _resampled(figure: Callable[[NDArray[np.int64]], float], count: int) -> Interval:
    """The figure of all trials, and its bootstrap interval over trials."""
    rng = np.random.default_rng(count)
    draws = [figure(rng.integers(0, count, count)) for _ in range(RESAMPLES if count > 1 else 1)]
    low, high = np.percentile(draws, PERCENTILES)
    return Interval(float(figure(np.arange(count))), float(low), float(high))


# -- is the twin contradicted? ------------------------------------------------------------------------------------


def doubt(machine: Sequence[float], twin: Sequence[float], least: float) -> float:
    """p-value that answers of one lie so far to one side of the other's if both behave alike, or differ by no more
    than `least`: the exact rank test of Mann and Whitney, both sides. It holds whatever the noise is, as long as both
    have the same."""
    above = sum(one - least > other for one in machine for other in twin)
    below = sum(one + least < other for one in machine for other in twin)
    return min(1.0, 2 * _tail(max(above, below), len(machine), len(twin)))


@functools.cache
def _tail(pairs: int, one: int, other: int) -> float:
    """How likely so many pairs or more are in one order, where all orders of the answers are as likely."""
    return float(_orders(one, other)[pairs:].sum() / math.comb(one + other, one))


@functools.cache
def _orders(one: int, other: int) -> NDArray[np.float64]:
    """How many orders of the answers of two have 0, 1, 2, ... pairs in which the first's is larger."""
    counts = np.zeros(one * other + 1)
    if not one or not other:
        return counts + 1
    largest_is_ones, largest_is_others = _orders(one - 1, other), _orders(one, other - 1)
    counts[other:] += largest_is_ones
    counts[: len(largest_is_others)] += largest_is_others
    return counts


def contradicted(doubts: Sequence[float]) -> bool:
    """Whether any doubt is too small for chance, all of them considered (Bonferroni)."""
    return bool(doubts) and min(doubts) < SIGNIFICANCE / len(doubts)
