"""Entries and miss penalty of the first data TLB, told apart from cache misses; what lines spread over pages cost.

The same number of lines is chased twice: spread one per page, and packed in few pages. The lines stay in the first
cache either way, so what spreading costs is translation. Pages in a row use all sets of a TLB alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import gcd

import numpy as np

from setebench.infer.calm import CalmSearch
from setebench.machine import Region
from setebench.measure.rings import Lines, empty_sets, rings_cycles, shuffled
from setebench.scenario import Context

FIRST_PAGES = 6
"""Every first TLB holds more pages than that."""

STEP_CYCLES = 0.2
"""Cycles per access that tell a step. With one page too many in one set of four ways, five pages of some hundred miss
at six cycles and more each."""

PATIENCE_LOOKS = 600
"""Looks at rings that a sibling thread or a neighbour disturbs before a search ends: half a second of them. They come
in spells of a tenth of a second to ten seconds, with gaps of some milliseconds now and then."""

LOOKS_AGAIN = 3
"""So many times at most the step is looked at again, until it stays where it was."""

BUSY_REASON = "others use entries most of the time; run again at a quieter time"

LEAST_PENALTY_CYCLES = 3.0
"""No second TLB answers sooner: it is asked after the first, and is larger. What costs less comes from elsewhere."""

MISSING_RATIO = (1.6, 2.0)
"""Numbers of pages, in capacities, at which every access misses, whatever is replaced; the penalties found at both
must agree."""

CLOSER_RATIO = (1.2, 1.5)
"""The same where memory or the first cache has no room for more. Where a table doesn't replace its oldest entries they
don't agree."""

FEWER_RATIO = 1.25
"""The same where a second TLB is so small that the larger numbers miss it too. A first one that replaces the oldest
entries misses all of these; where one replaces others, they don't agree with more."""

WALK_CYCLES = 8.0
"""A page walk reads at least one more entry from beyond the first cache, so a miss in both TLBs costs so much more than
a miss in the first. What rises by less is something else."""

APART_RATIO = 1.2
"""Numbers of pages that were cut off at the most lines are one number, which agrees with itself."""

AGREE_CYCLES, AGREE_RATIO = 1.0, 0.06
LINES_SHARE = 0.8
"""Of the first cache's lines, so many are used at most: a tag hash or a tree replacement spoils a full cache."""


@dataclass(frozen=True)
class Table:
    """What was found of one TLB. `entries` is None where it is not known; `at_least` is how many it holds anyway.
    `penalty` in cycles, over a hit in the first TLB, with what two measurements of it gave; `penalty_reason` why it is
    missing, should that be another reason than the size's. `doubtful`: there may be no such TLB at all, and what looks
    like its hits be page walks."""

    entries: int | None = None
    at_least: int | None = None
    highest: int | None = None
    penalty: float | None = None
    penalties: tuple[float, ...] = ()
    reason: str = ""
    absent: bool = False
    penalty_reason: str = ""
    doubtful: bool = False


@dataclass
class Pages:
    """Memory to spread lines over: `region` in steps of `page_bytes`, never more than `most_lines` lines.

    `way_bytes` of the first cache, 0 if not known. Where a way holds several pages, those at even strides leave some of
    its sets unused, and fewer lines fit: without that, the cache's end would look like a TLB's."""

    context: Context
    region: Region
    page_bytes: int
    most_lines: int
    way_bytes: int = 0
    evidence: dict[str, list[float]] = field(default_factory=lambda: {"stride_pages": [], "pages": [], "cycles": []})

    def reach(self, stride: int) -> int:
        """How many lines can be spread at this stride."""
        lines = self.most_lines // gcd(stride, self._pages_per_way)
        return min(lines, self.region.size // (self.page_bytes * stride))

    @property
    def _pages_per_way(self) -> int:
        return max(1, self.way_bytes // self.page_bytes)

    def excess(self, count: int, stride: int) -> float:
        """Cycles per access that spreading `count` lines over every `stride`-th page costs."""
        line = self.region.line_size
        empty_sets(self.context, self.region.address + np.arange(int(self.most_lines / LINES_SHARE * 1.3)) * line)
        own, control = rings_cycles(self.context, self.region, self.rings(count, stride))
        self.evidence["stride_pages"].append(stride)
        self.evidence["pages"].append(count)
        self.evidence["cycles"].append(round(own - control, 3))
        return own - control

    def rings(self, count: int, stride: int) -> tuple[Lines, Lines]:
        """As many lines, one on every `stride`-th page and packed."""
        line = self.region.line_size
        number = np.arange(count)
        begin = self.region.address
        # At all places of a large page: were they those of 4 KiB alone, all lines would share few sets of an outer
        # cache, and one that includes the first would take them out of it.
        places = self.page_bytes // line
        place = shuffled(self.context, np.arange(min(places, count)))[folded(number, places)]
        spread = begin + number * stride * self.page_bytes + place * line
        return shuffled(self.context, spread), shuffled(self.context, begin + number * line)


def folded(numbers: Lines, places: int) -> Lines:
    """A place in its page for each of these numbers of pages, of a power of two of places.

    Of the pages from 0 on, every one, every second, fourth, ... one, so many have all places once before any of them
    comes again. Physical pages in a row share the slots of an outer cache's way like this, and pages at even strides
    those of a first cache whose way holds several: each set gets a line before any gets a second one."""
    bits = places.bit_length() - 1
    place = numbers % places
    while (numbers := numbers >> bits).any():
        place = place ^ (numbers % places)
    return place


def first_table(pages: Pages, fits: int = 0) -> Table:
    """The first TLB: pages in a row until spreading costs something. `fits` are so many as another look at the same
    TLB, in other memory, saw fit; 0 if there was none."""
    search = _search(pages)
    found = search.capacity(fits, pages.reach(1)) if FIRST_PAGES < fits <= pages.reach(1) else None
    if found is None:
        search = _search(pages)
        found = search.capacity(FIRST_PAGES, pages.reach(1))
    if found is None:
        return Table(reason=f"spreading {FIRST_PAGES} lines over as many pages costs something already")
    for _ in range(LOOKS_AGAIN):
        if found.fits == pages.reach(1):
            return Table(at_least=found.fits, reason=f"no step up to {found.fits} pages")
        penalty, both = _penalty(pages, found.fits)
        before, found = found, search.settled(found.fits, pages.reach(1))
        if found == before or found.spills is None:
            break
    if min(both) < LEAST_PENALTY_CYCLES:
        reason = "spreading lines over pages costs less than a second TLB's answer does; run again at a quieter time"
        return Table(None, None, None, None, both, reason)
    if found != before or not found.exact:
        # what doesn't fit bounds nothing: a sibling thread or a neighbour takes entries away
        return Table(None, found.fits, None, None, both, BUSY_REASON)
    return Table(found.fits, None, None, penalty, both)


def still(pages: Pages, told: Table) -> Table:
    """What was told of the first TLB, looked at once more at a later time: somebody who uses entries all the while is
    not seen by that."""
    if told.entries is None:
        return told
    found = _search(pages).settled(told.entries, pages.reach(1))
    if found.fits <= told.entries:  # fewer where no calm moment came: that contradicts nothing
        return told
    return replace(told, entries=None, at_least=found.fits, penalty=None, reason=BUSY_REASON)


def _search(pages: Pages) -> CalmSearch:
    return CalmSearch(lambda count: pages.excess(count, 1), STEP_CYCLES, PATIENCE_LOOKS)


def _penalty(pages: Pages, fits: int) -> tuple[float | None, tuple[float, ...]]:
    """Cycles that an access costs when all miss, and what it was at two numbers of pages; None where they differ, or
    where fewer pages cost a walk less, so that a small second TLB may lie between."""
    few = typical(pages, int(FEWER_RATIO * fits) + 1, 1)
    both = tuple(typical(pages, count, 1) for count in missing_counts(pages, fits, 1))
    told = common(both)
    if told is None and common((few, both[0])) is not None:
        both = (few, both[0])
        return common(both), both
    return None if told is None or few < told - WALK_CYCLES else told, both


def missing_counts(
    pages: Pages, fits: int, stride: int, least: int = 0, ratios: tuple[float, float] = MISSING_RATIO
) -> tuple[int, int]:
    """Two numbers of pages at which all miss where `fits` do fit, not less than `least` and about that; no more than
    there are lines for."""
    few, many = (int(ratio * fits) + 1 for ratio in ratios)
    few = max(few, least)
    many = max(many, int(APART_RATIO * few) + 1)
    return min(few, pages.reach(stride)), min(many, pages.reach(stride))


def typical(pages: Pages, count: int, stride: int) -> float:
    """Cycles per access that spreading so many lines costs, the middle one of three measurements."""
    return float(np.median([pages.excess(count, stride) for _ in range(3)]))


def common(both: tuple[float, ...]) -> float | None:
    """The mean, unless they are further apart than chance and frequency put them."""
    apart = abs(both[0] - both[1]) > max(AGREE_CYCLES, AGREE_RATIO * max(both))
    return None if apart else float(np.mean(both))
