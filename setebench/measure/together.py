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

TRIALS, MOST_TRIALS = 32, 96
"""Trials before pages are compared, and so many more each time that those tell too little; in all."""

LEAST_PRESENT = 0.05
"""With all pages loaded so many of them lack lines at least, or no sets overflow in such trials at all."""

HALF, FEWER, MORE = (0.4, 0.6), 0.97, 0.3
"""Pages that lack lines, of those that are loaded: where more do, so many of them are loaded in the next trial; where
fewer do, so much of the rest is loaded too."""

PROBED, LEAST_PROBED = 16_000, 16
"""Lines timed in a trial, if not all, and of every page: one of 17 pages in a set of 16 ways lacks one line in 17."""

MOST_MISSING = 2.0
"""Missing lines that count, of one page: one may be a stall, more are no surer than two."""

ALIKE, AMONG, REFINED = 0.6, 0.4, 3
"""Correlation with the page that a group begins with, then the mean one with the pages of the group; how often these
are gathered anew."""

LEAST_PAGES = 3
"""Of a group: sets of two ways are overfull with three."""


class Together:
    """Trials with the pages of `crowd`, of which only the ones that a search still wants are loaded."""

    def __init__(self, trials: Trials, crowd: Crowd) -> None:
        self._trials, self._pages = trials, crowd.crowded
        line_size = TLB_PAGE_BYTES // crowd.missed.shape[1]
        self.offsets = np.delete(np.arange(crowd.missed.shape[1]), trials.absent.free) * line_size
        self._share = 1.0
        self._missing: list[NDArray[np.float64]] = []

    def groups(self, numbers: Numbers) -> Iterator[Numbers]:
        """Of the pages with these numbers those that share sets, group by group, the most alike first; with further
        trials where a caller still asks after the last. A group may lack a page or hold one too many."""
        if self._missing:
            yield from sorted(self._told(numbers), key=self._alike, reverse=True)
        while len(numbers) >= LEAST_PAGES and len(self._missing) < MOST_TRIALS and self._look(numbers):
            yield from sorted(self._told(numbers), key=self._alike, reverse=True)

    def _look(self, numbers: Numbers) -> bool:
        """Some more trials; False where all pages together overfill no set."""
        if not self._missing and self._trial(numbers) < LEAST_PRESENT > self._trial(numbers):
            return False
        for _ in range(TRIALS):
            if self._trials.spent:
                return False
            lacking = self._trial(self._trials.rng.permutation(numbers)[: max(2, round(self._share * len(numbers)))])
            if lacking > HALF[1]:
                self._share *= FEWER
            elif lacking < HALF[0]:
                self._share += MORE * (1.0 - self._share)
        return True

    def _trial(self, numbers: Numbers) -> float:
        """Load these pages; which share of them lacks lines."""
        per_page = max(PROBED // len(numbers), LEAST_PROBED)
        lines = self._pages[numbers][:, None] + self.offsets[None, :]
        probed = self._trials.rng.permuted(lines, axis=1)[:, :per_page]
        missing = self._trials.gone(lines.ravel(), probed.ravel()).reshape(probed.shape).sum(axis=1)
        row = np.full(len(self._pages), np.nan)
        row[numbers] = np.minimum(missing, MOST_MISSING)
        self._missing.append(row)
        return float(np.mean(missing > 0))

    def _told(self, numbers: Numbers) -> Iterator[Numbers]:
        """Groups of pages, each page in one of them or none."""
        alike = self._correlation()
        left = numbers
        while len(left) >= LEAST_PAGES:
            own = alike[np.ix_(left, left)]
            first = int(np.argmax(np.where(own > ALIKE, own, 0.0).sum(axis=1)))
            inside = own[first] > ALIKE
            inside[first] = True
            for _ in range(REFINED):
                # a page is not compared with itself, which has no correlation here
                inside = own[:, inside].sum(axis=1) / np.maximum(inside.sum() - inside, 1) > AMONG
            if inside.sum() < LEAST_PAGES:
                return
            yield left[inside]
            left = left[~inside]

    def _alike(self, group: Numbers) -> float:
        return float(self._correlation()[np.ix_(group, group)].sum()) / (len(group) * (len(group) - 1))

    def _correlation(self) -> NDArray[np.float64]:
        """Of all pages with each other, over the trials with both; nought of a page with itself. Shape (pages, pages).

        What all pages of a trial have in common, as more or fewer were loaded, is taken off first."""
        rows = np.stack(self._missing)
        loaded = np.isfinite(rows)
        centred = np.where(loaded, rows - np.nanmean(rows, axis=1)[:, None], 0.0)
        both = np.maximum(loaded.T.astype(np.float64) @ loaded, 1.0)
        sums, squares = centred.T @ loaded, (centred**2).T @ loaded
        covariance = centred.T @ centred - sums * sums.T / both
        spread = np.maximum(squares - sums**2 / both, 1e-9)
        correlation: NDArray[np.float64] = covariance / np.sqrt(spread * spread.T)
        np.fill_diagonal(correlation, 0.0)
        return correlation
