"""Crowded pages that share sets of a large cache: those whose lines are missing in the same trials.

Which of the pages are loaded is drawn anew for every trial (`measure.trials`), so many that about half of them have
missing lines. Sets overflow whenever more of their pages are among these than they have ways, and then lines of all of
these pages are missing; pages of other sets overflow at other times. So the trials in which a page lacks lines are a
mark that it has in common with the pages of its sets, and a few dozen trials tell all of them apart at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from setebench.measure.crowded import Crowd
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.trials import Trials

Numbers = NDArray[np.int64]

TRIALS, MOST_TRIALS = 48, 144
"""Trials before pages are compared, and so many more each time that those tell too little; in all."""

LEAST_PRESENT = 0.05
"""With all pages loaded so many of them lack lines at least, or no sets overflow in such trials at all."""

HALF, FEWER, MORE, MOST_SHARE = (0.4, 0.6), 0.97, 0.3, 0.96
"""Pages that lack lines, of those that are loaded: where more do, so many of them are loaded in the next trial; where
fewer do, so much of the rest is loaded too, but never all of it, or nothing would change from trial to trial."""

FEWER_STILL = 3
"""In every such trial that share of that share is loaded: sets of many pages more than they have ways would else be
overfull in nearly all."""

PROBED, LEAST_PROBED = 16_000, 16
"""Lines timed in a trial, if not all, and of every page: one of 17 pages in a set of 16 ways lacks one line in 17."""

MOST_MISSING = 2.0
"""Missing lines that count, of one page: one may be a stall, more are no surer than two."""

ALIKE = 0.3
"""Mean correlation of two groups' pages from which on they are one group. Of pages of different sets it is about
nought, of pages of the same about a half; with few pages chance adds to it."""

BESIDE = 3
"""Pages tried with a group though they seem less like it: one that a prefetcher brings back lacks lines less often, and
without it the others may overfill nothing. What isn't needed is left out again."""

LEAST_TOGETHER = 5
"""Of a group: sets of four ways are overfull with so many."""


class Together:
    """Trials with the pages of `crowd`, of which only the ones that a search still wants are loaded."""

    def __init__(self, trials: Trials, crowd: Crowd) -> None:
        self._trials, self._pages = trials, crowd.crowded
        line_size = TLB_PAGE_BYTES // crowd.missed.shape[1]
        self.offsets = np.delete(np.arange(crowd.missed.shape[1]), trials.absent.free) * line_size
        self._share = MOST_SHARE
        self._missing: list[NDArray[np.float64]] = []
        self._powers: list[int] = []

    def groups(self, numbers: Numbers) -> Iterator[Numbers]:
        """Of the pages with these numbers those that share sets, group by group, the most alike first; with further
        trials where a caller still asks after the last. A group may lack a page or hold one too many."""
        if self._missing:
            yield from self._told(numbers)
        while len(numbers) >= LEAST_TOGETHER and len(self._missing) < MOST_TRIALS and self._look(numbers):
            yield from self._told(numbers)

    def _look(self, numbers: Numbers) -> bool:
        """Some more trials; False where all pages together overfill no set."""
        if not self._missing and max(self._trial(numbers), self._trial(numbers)) < LEAST_PRESENT:
            return False
        for number in range(TRIALS):
            if self._trials.spent:
                return False
            power = 2 if number % FEWER_STILL == FEWER_STILL - 1 else 1
            loaded = max(2, round(self._share**power * len(numbers)))
            lacking = self._trial(self._trials.rng.permutation(numbers)[:loaded], power)
            if power > 1:
                continue
            if lacking > HALF[1]:
                self._share *= FEWER
            elif lacking < HALF[0]:
                self._share += MORE * (MOST_SHARE - self._share)
        return True

    def _trial(self, numbers: Numbers, power: int = 0) -> float:
        """Load these pages; which share of them lacks lines. About as many are loaded in all of one `power`."""
        per_page = max(PROBED // len(numbers), LEAST_PROBED)
        lines = self._pages[numbers][:, None] + self.offsets[None, :]
        probed = self._trials.rng.permuted(lines, axis=1)[:, :per_page]
        missing = self._trials.gone(lines.ravel(), probed.ravel()).reshape(probed.shape).sum(axis=1)
        row = np.full(len(self._pages), np.nan)
        row[numbers] = np.minimum(missing, MOST_MISSING)
        self._missing.append(row)
        self._powers.append(power)
        return float(np.mean(missing > 0))

    def _told(self, numbers: Numbers) -> list[Numbers]:
        """Groups of these pages, the most alike first, each with a few pages beside it."""
        alike = self._correlation()[np.ix_(numbers, numbers)]
        groups = [each for each in merged(alike, ALIKE) if len(each) >= LEAST_TOGETHER]
        groups.sort(key=lambda each: alike[np.ix_(each, each)].sum() / (len(each) * (len(each) - 1)), reverse=True)
        return [numbers[_with_others(alike, each)] for each in groups]

    def _correlation(self) -> NDArray[np.float64]:
        """Of all pages with each other, over the trials with both; nought of a page with itself. Shape (pages, pages).

        What follows from more or fewer pages being loaded is taken off first."""
        rows, powers = np.stack(self._missing), np.array(self._powers)
        loaded = np.isfinite(rows)
        centred = np.zeros(rows.shape)
        for power in np.unique(powers):
            own, there = rows[powers == power], loaded[powers == power]
            mean = np.where(there, own, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
            centred[powers == power] = np.where(there, own - mean, 0.0)
        both = np.maximum(loaded.T.astype(np.float64) @ loaded, 1.0)
        sums, squares = centred.T @ loaded, (centred**2).T @ loaded
        covariance = centred.T @ centred - sums * sums.T / both
        spread = np.maximum(squares - sums**2 / both, 1e-9)
        correlation: NDArray[np.float64] = covariance / np.sqrt(spread * spread.T)
        np.fill_diagonal(correlation, 0.0)
        return correlation


def merged(alike: NDArray[np.float64], least: float) -> list[Numbers]:
    """Groups of what is alike, by average linkage: the two with the highest mean are merged as long as that is `least`.
    `alike` has shape (items, items) and is symmetric."""
    means = alike.copy()
    np.fill_diagonal(means, -np.inf)
    groups = [[number] for number in range(len(means))]
    while len(groups):
        one, other = divmod(int(np.argmax(means)), len(means))
        if not means[one, other] >= least:
            break
        sizes = len(groups[one]), len(groups[other])
        means[one] = means[:, one] = (sizes[0] * means[one] + sizes[1] * means[other]) / sum(sizes)
        means[other] = means[:, other] = means[one, one] = -np.inf
        groups[one] += groups[other]
        groups[other] = []
    return [np.array(each) for each in groups if each]


def _with_others(alike: NDArray[np.float64], group: Numbers) -> Numbers:
    """The group and the few others that are most like it."""
    mean = alike[:, group].mean(axis=1)
    mean[group] = np.inf
    own: Numbers = np.argsort(-mean)[: len(group) + BESIDE]
    return own
