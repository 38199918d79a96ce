"""How far twin and machine agree, and the machine with itself. Knows labels and numbers only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

RESAMPLES = 1000
PERCENTILES = (2.5, 97.5)
SIGNIFICANCE = 0.01
"""False alarms that all trials together may raise on an exact twin."""


@dataclass(frozen=True)
class Compared:
    """One trial: labels, or times, of the machine, of the machine measured again, and of the twin."""

    first: tuple[float, ...]
    again: tuple[float, ...]
    twin: tuple[float, ...]

    @property
    def missed(self) -> int:
        """Lines on which the twin differs, although the machine gives the same twice."""
        triples = zip(self.first, self.again, self.twin, strict=True)
        return sum(one == two and one != other for one, two, other in triples)


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % interval, in per cent."""

    value: float
    low: float
    high: float


def share(rows: Sequence[Compared], which: str) -> Interval:
    """Lines on which machine and `which` (twin or again) agree, in per cent; resampled by trial."""
    same = np.array([sum(map(np.equal, row.first, getattr(row, which))) for row in rows], float)
    count = np.array([len(row.first) for row in rows], float)
    return _resampled(lambda chosen: 100 * same[chosen].sum() / count[chosen].sum(), len(rows))


def error(rows: Sequence[Compared], which: str) -> Interval:
    """The median relative error of times of `which`, over the machine's, in per cent."""
    first, other = (np.array([getattr(row, name)[0] for row in rows]) for name in ("first", which))
    relative = 100 * np.abs(other - first) / first
    return _resampled(lambda chosen: float(np.median(relative[chosen])), len(rows))


def _resampled(figure: Callable[[NDArray[np.int64]], float], count: int) -> Interval:
    """The figure of all trials, and its bootstrap interval over trials."""
    rng = np.random.default_rng(count)
    draws = [figure(rng.integers(0, count, count)) for _ in range(RESAMPLES if count > 1 else 1)]
    low, high = np.percentile(draws, PERCENTILES)
    return Interval(float(figure(np.arange(count))), float(low), float(high))


def doubt(machine: Sequence[float], twin: Sequence[float], least: float) -> float:
    """p-value that answers of one lie so far to one side of the other's if both behave alike, or differ by no more than
    `least`: the rank test of Mann and Whitney, which holds whatever the noise is, as long as both have the same."""
    shift = least if np.median(twin) < np.median(machine) else -least
    moved = np.asarray(twin) + shift
    crossed = (np.median(moved) - np.median(machine)) * (np.median(twin) - np.median(machine)) <= 0
    if crossed:
        return 1.0
    return float(stats.mannwhitneyu(machine, moved, method="exact").pvalue)


def contradicted(doubts: Sequence[float]) -> bool:
    """True if any doubt is too small for chance, all of them considered (Bonferroni)."""
    return bool(doubts) and min(doubts) < SIGNIFICANCE / len(doubts)
