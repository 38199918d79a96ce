"""Lines loaded once each behind empty sets, and which of them a large cache then holds no longer.

Lines that are flushed, loaded once each, and pushed out of the levels before by others that share no set with them, are
all still there unless a set got more of them than it has ways: whatever is replaced, since empty ways are filled first,
and whether the cache takes lines in as they are loaded or as the level before gives them up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from setebench.machine import Region
from setebench.measure.absent import Absent
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.rings import Lines
from setebench.probe import Base, Probe
from setebench.scenario import Context

RING, WALK, LAST, WHOLE = Base("ring"), Base("walk"), Base("last"), Base("whole")

BALLAST_PARTS = 8
"""Parts of the ballast left out in turn, none of which may matter: it holds no line of the set."""

MOST_LOADS, QUICK_LOADS, TIMED_COST = 120_000_000, 20_000_000, 15
"""Loads that all trials together may take, and those without ballast: some seconds, or half a minute on a simulated
machine. A load that is timed takes as long as so many."""


class Trials:
    """Trials with lines of `region`. `ballast` are the lines of pages that push others out of the levels before, walked
    `turns` times; they must share no set with those that are tried. Shape (pages, lines of a page)."""

    def __init__(self, context: Context, region: Region, absent: Absent, ballast: Lines, turns: int) -> None:
        self._context, self._region, self.absent = context, region, absent
        self._ballast, self._turns = ballast, turns
        self.rng = context.rng(84)
        self._loaded: Lines = np.zeros(0, dtype=np.int64)
        self._loads_left = MOST_LOADS
        self._used = len(ballast)

    @contextmanager
    def without_ballast(self) -> Iterator[None]:
        """Trials that leave lines in the levels before: quick, and enough where the cache takes a line that it evicts
        out of those too."""
        self._used, before = 0, self._loads_left
        self._loads_left = min(before, QUICK_LOADS)
        begin = self._loads_left
        try:
            yield
        finally:
            self._used, self._loads_left = len(self._ballast), before - (begin - self._loads_left)

    @property
    def spent(self) -> bool:
        """Whether no loads are left."""
        return self._loads_left < 0

    @property
    def ballast_lines(self) -> int:
        """Number of lines to push others out of the levels before with."""
        return int(self._ballast.size)

    @property
    def quarter_lines(self) -> int:
        """Lines of a quarter of a page."""
        return TLB_PAGE_BYTES // self._region.line_size // 4

    def use(self, pages: Lines) -> None:
        """Lines of these pages may be in the caches: they are flushed before the next trial."""
        self._loaded = np.union1d(self._loaded, pages)

    def missing(self, lines: Lines) -> int:
        """How many of the lines are missing after all were loaded once. The first that is missing may push out
        others."""
        return int(self.gone(lines).sum())

    def gone(
        self, lines: Lines, probed: Lines | None = None, ballast: Lines | None = None, last: Lines | None = None
    ) -> NDArray[np.bool_]:
        """Which of the lines `probed`, all by default, are missing after all `lines` were loaded once, and `last`
        behind the ballast: those stay in the levels before."""
        return self.absent.gone(self.cycles(lines, probed, ballast, last=last))

    def cycles(
        self,
        lines: Lines,
        probed: Lines | None = None,
        ballast: Lines | None = None,
        turns: int | None = None,
        last: Lines | None = None,
    ) -> NDArray[np.float64]:
        """Cycles of one load of each line probed, which are loaded in random order; shape (n,) as `probed`. `last` are
        loaded behind the ballast."""
        machine, cpu = self._context.machine, self._context.cpu
        ring, late = self.rng.permutation(lines), lines[:0] if last is None else self.rng.permutation(last)
        # always in another order, line by line: a cache of victims gets lines as the ballast comes to their sets of the
        # one before, and where it replaces the oldest it would give up all of the same pages every time
        pages = self._ballast[: self._used] if ballast is None else ballast
        walk: Lines = self.rng.permutation(pages.ravel())
        turns = self._turns if turns is None else turns
        chased = [(RING, ring, 1), (WALK, walk, turns), (LAST, late, 1)]
        chased = [each for each in chased if len(each[1])]
        # all before anything is loaded: linking goes through as much memory again, which would push out lines
        for _, own, _ in chased:
            machine.link(self._region, own)
        # all that the trial before left behind would take ways
        used = np.concatenate([ring, late])
        self.use(used - used % TLB_PAGE_BYTES)
        self._flush(self._loaded)
        self._loaded = np.unique(used - used % TLB_PAGE_BYTES)
        probe = Probe()
        for base, own, times in chased:
            probe = probe.chase(base, times * len(own))
        machine.run(probe, {base: own[:1] for base, own, _ in chased}, cpu=cpu)
        probed = lines if probed is None else probed
        flushed = len(self._loaded) * TLB_PAGE_BYTES // self._region.line_size
        self._loads_left -= turns * len(walk) + len(used) + flushed + TIMED_COST * len(probed)
        order = self.rng.permutation(len(probed))
        cycles = np.empty(len(probed))
        cycles[order] = self.absent.cycles(probed[order])
        return cycles

    def ballast_of(self, lines: int) -> Lines:
        """About so many lines of the ballast, of other pages each time: a few may happen to miss a set's lines."""
        pages = self.rng.permutation(len(self._ballast))[: max(1, lines // self._ballast.shape[1])]
        own: Lines = self._ballast[pages]
        return own

    def without_part(self, part: int) -> Lines:
        """The ballast less one of `BALLAST_PARTS` parts."""
        rest: Lines = self._ballast[np.arange(len(self._ballast)) % BALLAST_PARTS != part]
        return rest

    def _flush(self, pages: Lines) -> None:
        """All lines of the pages: prefetchers may have brought any of them."""
        probe = Probe()
        for offset in range(0, TLB_PAGE_BYTES, self._region.line_size):
            probe = probe.flush(WHOLE + offset)
        self._context.machine.run(probe, {WHOLE: pages}, cpu=self._context.cpu)
