"""How large a cache is, from how many whole pages find room in it at once. Knows no machine.

The lines of a page fall into different sets, and two pages' lines into the same sets or into none in common, wherever
the index is made of address bits or of sums of them. So pages of chance fill some sets before others; but pages can be
chosen that fill all sets alike, and then their lines are all that the cache holds. What prefetchers, other users or a
poor choice of pages do only takes room away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.infer.residence import plain_sizes

FILLED_SHARE = 0.95
"""Of a cache's pages so many are found together at least where its size is told; sizes that caches have are further
apart."""

REFUSED_SHARE = 0.9
"""Of pages put to a full cache, so many find no room at least. Pages that stay have filled its sets by chance: with an
eighth of it left, every other page would find some."""

CALM_MISSING, MOST_MISSING = 0.03, 0.08
"""Lines that are missing, of pages that stay, at most: where nobody takes room, and at all. An index that hashes every
line by itself lets some lines of every page go, long before the cache is full."""

CLEARLY = 1.0
"""A page more is crowded by so many thresholds more than pages that stay, or lines of a page don't share their fate."""

AGREEING = 2
"""Sets of pages that must tell the same size."""

LEAST_ROUNDS, MOST_ROUNDS = 4, 12
FALSE_ALARMS = 1e-8
"""Of pages that stay, so many may seem crowded in all of the rounds."""

LEAST_KEPT = 2
"""Rounds at least whose mean counts: one alone may be the clock's."""

MOST_WAYS = 24
"""No second cache has sets of more. The first cache holds a page as long as it takes to walk over as many as it has
room for; of pages of the same sets, one too many, one would have to be there at any time. Too long a walk for that
leaves none there."""


@dataclass(frozen=True)
class Packed:
    """A set of `pages` that stay together, of whose lines a share is `missing` nevertheless. Of single pages that were
    put to them a share was `refused`, having found no room, and those were more crowded by `excess`, in thresholds from
    which on a page is crowded. Without them if there was no calm moment."""

    pages: int
    missing: float = 1.0
    refused: float = 0.0
    excess: float = 0.0

    @property
    def sound(self) -> bool:
        """Whether pages that stay and pages that don't are clearly two kinds."""
        return self.missing <= MOST_MISSING and self.excess >= CLEARLY

    @property
    def full(self) -> bool:
        """Whether further pages found no room, and nobody else took any."""
        return self.sound and self.refused >= REFUSED_SHARE and self.missing <= CALM_MISSING


def whole_size(found: Sequence[Packed], page_bytes: int, first_pages: float) -> int | None:
    """Bytes of a cache behind a first one of so many pages, where it was full every time, twice at least, and one size
    only goes with what was `found` to stay; None if it isn't known."""
    if len(found) < AGREEING or not all(each.full for each in found):
        return None
    sizes = [
        plain_sizes(_own(each, first_pages) * page_bytes, each.pages * page_bytes / FILLED_SHARE) for each in found
    ]
    return sizes[0].pop() if len(set.union(*sizes)) == 1 and all(sizes) else None


def least_pages(found: Sequence[Packed], first_pages: float) -> float:
    """Pages that surely found room together behind a first cache of so many; 0 where none did."""
    return max((_own(each, first_pages) for each in found if each.sound), default=0.0)


def _own(found: Packed, first_pages: float) -> float:
    """Pages whose lines stay, less those that the first cache may hold in addition."""
    before = first_pages if found.pages <= (MOST_WAYS + 1) * first_pages else 0.0
    return found.pages * (1.0 - found.missing) - before


def rounds_for(disturbed: float) -> int:
    """Rounds of which one at least is undisturbed, where a share of all pages' rounds is `disturbed`."""
    if disturbed <= 0.0:
        return LEAST_ROUNDS
    needed = 2.0 * float(np.log(FALSE_ALARMS) / np.log(min(disturbed, 0.99)))
    return int(np.clip(np.ceil(needed), LEAST_ROUNDS, MOST_ROUNDS))


def typical(rounds: NDArray[np.float64], bound: float) -> NDArray[np.float64]:
    """What each page costs when nobody disturbs, from its rounds, shape (rounds, pages): the mean of its lower ones.
    The more often the median page is above the `bound`, the fewer of them; where nothing disturbs all count, as pages
    of an overfull set may miss in turns."""
    calm = float(np.median((rounds <= bound).mean(axis=0)))
    kept = max(LEAST_KEPT, int((2.0 * calm - 1.0) * len(rounds)))
    lower: NDArray[np.float64] = np.sort(rounds, axis=0)[:kept].mean(axis=0)
    return lower
