"""Ways of the second cache from whole pages: as many as share their sets and all stay, found by putting one more.

Where sets are chosen by bits of physical addresses or by sums of them, the lines of a page lie in different sets and
two pages share all of their sets or none. So what `measure.eviction` does with lines is done with pages here: pages
that fill the cache are put to each other first (`page_room`), then one more. Those that miss now are the pages of its
sets; what can be left out without ending that is left out, and what is left is one page more than the sets have ways.

A page more costs 64 sets a line each in every round at least, whatever they replace, and each page's lines are timed
together. That shows beside noise, prefetchers and a replacement that hides the misses of a single set.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setebench.hierarchy.page_room import PageRoom
from setebench.infer.page_sets import AGREEING, LEFT_LINES, OVERFULL_LINES, PAGE_SETS, Group, same_ways
from setebench.measure.rings import Lines
from setebench.scenario import Context

CANDIDATES = 24
"""Pages among which those of the added page's sets are looked for: those whose misses rise most. As many as any second
cache has ways, and few enough that those which seem to rise by chance are soon left out."""

BALLAST_RATIOS = (1.5, 3.0)
"""Pages that are walked over besides, in those of the first cache, at least and at most: it is to hold nothing of the
group when that is come back to, little if it replaces at random."""

TRIES, IN_VAIN, MOST_SECONDS = 80, 40, 15.0
"""Pages that are added, one at a time, until enough groups are found, and about how long; without any group in so many,
no longer. Some find room, as the sets of pages that stay aren't all full; the more, the more others disturbed."""

RISE_LOOKS, LOOK_ROUNDS, WARM_ROUNDS = (2, 4), 6, 3
"""Looks at all pages to see which ones rise, with the added page and without it in turns, each in another order; the
second so many only if those that seem to rise do miss. Rounds of a look, and before it."""

SETTLE_ROUNDS = 6
"""Rounds before a look where pages may only just find room, which takes random replacement a while."""

BALLAST_PARTS = 8
"""Parts of the ballast that are left out in turn, to see if one of them belongs to the group."""

LOOKS = 3
"""Looks at a group until it misses little, at most; the least counts, as somebody else can only take lines away."""


class PageGroup(NamedTuple):
    """Addresses of `pages` that share sets, one more than these hold, of `ballast` pages of other sets, and what was
    `told` of them."""

    pages: Lines
    ballast: Lines
    told: Group

    def same_as(self, other: PageGroup) -> bool:
        """Whether most of the pages are the other group's too, so that it tells nothing new."""
        return len(np.intersect1d(self.pages, other.pages)) > len(self.pages) / 2


class PageSets:
    """Groups of pages that share sets of the second cache, from pages that `room` put to each other. `first_pages` is
    how many the first cache holds; `miss_cycles` what a line costs more that isn't there."""

    def __init__(self, context: Context, room: PageRoom, first_pages: float, miss_cycles: float) -> None:
        self._context, self._room, self._miss = context, room, miss_cycles
        least, most = (int(np.ceil(ratio * first_pages)) for ratio in BALLAST_RATIOS)
        self._least, self._most = max(least, BALLAST_PARTS), max(most, BALLAST_PARTS)
        self._rng = context.rng(101)
        self._lines_left = 0.0
        self.groups: list[PageGroup] = []

    @property
    def ways(self) -> int | None:
        """Ways of the second cache, if enough groups were found and all are as large; else None."""
        return same_ways([each.told for each in self.groups])

    def search(self) -> None:
        """Groups with pages that `room` keeps now, until there are enough of them in all."""
        kept, vain = self._room.kept, 0
        self._lines_left = MOST_SECONDS * self._context.machine.facts.lines_per_second
        others = self._rng.permutation(np.setdiff1d(self._room.pool, kept))
        for page in others[: TRIES if len(kept) > self._least else 0].tolist():
            found = self._group(kept, page)
            new = found is not None and found.told.clear and not any(each.same_as(found) for each in self.groups)
            if found is not None and new:
                self.groups.append(found)
            vain = 0 if new else vain + 1
            if len(self.groups) == AGREEING or vain == IN_VAIN or self._lines_left < 0:
                break

    def _group(self, kept: Lines, page: int) -> PageGroup | None:
        """The pages of `kept` that share the sets of one more, and that one; None where nothing misses with it."""
        looks: list[NDArray[np.float64]] = []
        group = ballast = kept[:0]
        for more in RISE_LOOKS:
            looks += [self._named(np.append(kept, page))[:-1] - self._named(kept) for _ in range(more)]
            group, ballast = self._parted(kept, page, np.median(looks, axis=0))
            if self._missing(group, ballast, OVERFULL_LINES) < OVERFULL_LINES:
                return None
        group = self._reduced(group, ballast)
        found = self._judged(group, ballast)
        return PageGroup(group, ballast, found if found.clear else self._judged(group, ballast))

    def _parted(self, kept: Lines, page: int, rise: NDArray[np.float64]) -> tuple[Lines, Lines]:
        """Pages among which those of the added page's sets should be, by how much longer each takes with it, and others
        for the ballast."""
        fewest = int(np.clip(len(kept) - CANDIDATES, self._least, self._most))
        order = np.argsort(-rise)
        count = min(CANDIDATES, len(kept) - fewest)
        return np.append(kept[order[:count]], page), kept[order[len(order) - fewest :]]

    def _judged(self, group: Lines, ballast: Lines) -> Group:
        """What misses of a group, whichever page of the ballast isn't there, and what when one of its own isn't."""
        parts = np.arange(len(ballast)) % BALLAST_PARTS
        missing = [self._missing(group, ballast[parts != part], looks=1) for part in range(BALLAST_PARTS)]
        left = [self._missing(np.delete(group, number), ballast, LEFT_LINES) for number in range(len(group))]
        return Group(len(group), min(missing), max(left))

    def _reduced(self, group: Lines, ballast: Lines) -> Lines:
        """The pages without those whose leaving out doesn't end that some miss."""
        number = 0
        while number < len(group):
            rest = np.delete(group, number)
            if self._missing(rest, ballast, OVERFULL_LINES) > OVERFULL_LINES:
                group = rest
            else:
                number += 1
        return group

    def _missing(self, group: Lines, ballast: Lines, few: float = 0.0, looks: int = LOOKS) -> float:
        """Lines of the group that are missing per round, looked at again unless they are `few` or fewer. Its pages
        follow each other, the ballast comes behind them: where the second cache takes only what the first one gives up,
        all of the group is there by then."""
        least = np.inf
        for _ in range(looks):
            cycles = self._look(np.concatenate([self._rng.permutation(group), ballast]), SETTLE_ROUNDS)
            own, others = cycles[: len(group)], cycles[len(group) :]
            least = min(least, float((own - np.median(others)).sum()) / self._miss)
            if least < few:
                break
        return least

    def _named(self, pages: Lines) -> NDArray[np.float64]:
        """Cycles of each page, walked over in a random order; shape (pages,)."""
        order, cycles = self._rng.permutation(len(pages)), np.empty(len(pages))
        cycles[order] = self._look(pages[order], WARM_ROUNDS)
        return cycles

    def _look(self, pages: Lines, warm_rounds: int) -> NDArray[np.float64]:
        """Cycles of each page's lines in the middle of some rounds over the pages in this order, shape (pages,)."""
        timed = self._room.timed(pages, LOOK_ROUNDS, warm_rounds)
        self._lines_left -= (LOOK_ROUNDS + warm_rounds) * len(pages) * PAGE_SETS
        middle: NDArray[np.float64] = np.median(timed, axis=0)
        return middle
