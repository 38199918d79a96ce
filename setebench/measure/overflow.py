"""Fewest pages and lines that overfill a set of a large cache, by what is missing after each was loaded once.

Lines that are flushed, loaded once each, and pushed out of the levels before by others that share no set with them, are
all still there unless a set got more of them than it has ways: whatever is replaced, since empty ways are filled first,
and whether the cache takes lines in as they are loaded or as the level before gives them up. So nothing but the number
of lines counts, and whatever can be left out without ending an overflow is left out (group testing; Vila, Köpf and
Morales 2019).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from setebench.machine import Region
from setebench.measure.absent import PAGE, Absent
from setebench.measure.rings import Lines
from setebench.probe import Base, Probe
from setebench.scenario import Context

RING, WALK, WHOLE = Base("ring"), Base("walk"), Base("whole")

PARTS = 16
"""Into about as many parts as a set has ways lines are split: one in three of them can then be left out, which is the
quickest."""

AHEAD, MOST_TIMES = 2, 9
"""A trial is repeated until one outcome leads by so many, or so often: a stall looks like a missing line."""

PROBED_PER_PAGE = 12


class Overflow:
    """Trials with lines of `region`; `ballast` are the lines that push others out of the levels before, walked `turns`
    times."""

    def __init__(self, context: Context, region: Region, absent: Absent, ballast: Lines, turns: int) -> None:
        self._context, self._region, self._absent = context, region, absent
        self._ballast, self._turns = ballast, turns
        self._rng = context.rng(84)
        context.machine.link(region, ballast)
        self.trials = 0
        self._loaded: Lines = ballast[:0]

    def overflows(self, lines: Lines, probed: Lines) -> bool:
        """Whether some of the lines `probed` are missing after all `lines` were loaded once."""
        lead = 0
        for _ in range(MOST_TIMES):
            lead += 1 if self.missing(lines, probed) else -1
            if abs(lead) >= AHEAD:
                break
        return lead > 0

    def missing(self, lines: Lines, probed: Lines) -> int:
        """How many of the lines `probed` are missing, once. The first that is missing may push out others."""
        return int(self._absent.gone(self.cycles(lines, probed)).sum())

    def cycles(self, lines: Lines, probed: Lines) -> NDArray[np.float64]:
        self.trials += 1
        machine, cpu = self._context.machine, self._context.cpu
        ring = self._rng.permutation(lines)
        machine.link(self._region, ring)
        pages = np.unique(lines - lines % PAGE)
        self._flush(np.union1d(pages, self._loaded))
        self._loaded = pages
        machine.run(Probe().chase(RING, len(ring)), {RING: ring[:1]}, cpu=cpu)
        walk = Probe().chase(WALK, self._turns * len(self._ballast))
        machine.run(walk, {WALK: self._ballast[:1]}, cpu=cpu)
        return self._absent.cycles(self._rng.permutation(probed))

    def _flush(self, pages: Lines) -> None:
        """All lines of the pages: prefetchers may have brought any of them."""
        probe = Probe()
        for offset in range(0, PAGE, self._region.line_size):
            probe = probe.flush(WHOLE + offset)
        self._context.machine.run(probe, {WHOLE: pages}, cpu=self._context.cpu)

    def reduced(self, items: NDArray[np.int64], overflows: Callable[[NDArray[np.int64]], bool]) -> NDArray[np.int64]:
        """Numbers `items` without those that can be left out."""
        parts = PARTS
        while True:
            before = len(items)
            for part in np.array_split(self._rng.permutation(items), min(parts, len(items))):
                rest = items[~np.isin(items, part)]
                if len(rest) and overflows(rest):
                    items = rest
            if len(items) == before:
                if parts >= before:
                    return items
                parts *= 2
