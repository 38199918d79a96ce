"""How many lines of other pages push lines out of level 1, and still stay in level 2.

Walks and demotions must miss level 1 and hit level 2. Where level 2 has few ways and few sets, so many lines at a few
page offsets don't all fit there: those that are missed are new pages to its stream prefetchers, which then forget the
run in question. Fewer lines per offset, at more offsets, fit there, as long as they are more than level 1 has ways.
"""

from __future__ import annotations

import numpy as np

from setebench.prefetcher_map.builder import CONFLICT_PAGES
from setebench.prefetcher_map.laboratory import Laboratory

FEWER = (16, 13, 11, 9)
"""Lines per page offset that are tried where the usual number doesn't fit; at least one more than a level 1 of twelve,
ten or eight ways holds."""

LOST = 0.06
"""Share of a walk's lines that level 2 may lack: four of sixty, so that a table of eight streams still holds half; and
what a coarse clock takes for more, of none that were lost, is rare."""

LOST_LINES = 0.5
"""Fewer lines than this, on average, a whole walk misses in level 2: each takes an entry of a table of streams."""

SPARED = 0.4
"""Share of a walk's lines that may still be in level 1: none are if it replaces the line unused longest and has fewer
ways, all if it has more; where it replaces at random a third is left, and what is pushed out is walked past again."""

ASKED, REPETITIONS = 16, 24
"""Lines of a walk that are asked for, and how often each."""


def fit_walks(lab: Laboratory) -> None:
    """Choose how many lines per page offset the laboratory's walks have, and note whether these fit, and are whole."""
    best = (_shares(lab, CONFLICT_PAGES)[1], CONFLICT_PAGES)
    for pages in FEWER:
        if best[0] <= LOST:
            break
        spared, lost = _shares(lab, pages)
        if spared <= SPARED:
            best = min(best, (lost, pages))
    lab.known.walks_fit, lab.builder.conflict_pages = best[0] <= LOST, best[1]
    lab.known.walks_whole = best[0] * len(lab.builder.walk()) < LOST_LINES


def _shares(lab: Laboratory, pages: int) -> tuple[float, float]:
    """Shares of a walk's lines that are still in level 1, and no longer in level 2, when their turn comes."""
    lab.builder.conflict_pages = pages
    length = len(lab.builder.walk())
    numbers = np.linspace(0, length - 1, ASKED).astype(int)
    shares = lab.references.shares([np.concatenate([lab.walked(int(n), REPETITIONS) for n in numbers])])
    return float(shares.of("l1")[0]), float(shares.of("l3", "memory")[0])
