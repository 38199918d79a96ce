"""How many pages in a row a second data TLB holds, from rings of more lines than the first cache has.

Pages in a row use all sets of a table alike, whatever bits its index takes, so what fits is a bound that rests on no
stride. The second cache holds the lines; the control has as many lines in fewer pages, which all miss the first TLB
too. It can't be told to the entry: lines of either ring may be somewhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from setebench.hierarchy.tlb import WALK_CYCLES, Pages
from setebench.infer.table_sets import Fits, held_together
from setebench.measure.rings import Lines, rings_cycles, shuffled

MOST_PER_PAGE = 4
"""Lines per page of the control for many pages: so far apart that no next line is one of them."""

GROWTH = 1.19
"""Numbers of pages tried on the way up."""

PARTS = 6
"""The last two steps of that are parted so, for the most pages that are held together."""

FAR_RATIO, STEEP_SHARE = 2.0, 0.8
"""So many times the pages that don't fit miss altogether; where each set replaces its oldest entries and gets its share
of the pages, so much of that cost is there at a fifth more than fits already."""


@dataclass(frozen=True)
class InARow:
    """About how many pages in a row fit; `found` where more cost a walk, so that there is a table that ends, before so
    many as `spills`."""

    fits: Fits
    found: bool
    spills: int = 0


def in_a_row(pages: Pages, least: int, most: int) -> InARow | None:
    """About how many pages in a row fit, up to `most`, whose lines stay in the second cache; `least` miss the first
    TLB. None where the fewest tried, which do fit, cost something."""
    limit = min(most, pages.region.size // pages.page_bytes)
    count, held = 2 * least, 0
    if count <= limit:
        pages.context.progress("TLBs: more pages than the first cache has lines for")
    while count <= limit:
        if _walks(pages, count, least):
            return _bounded(pages, held, count, least, limit) if held else None
        held, count = count, int(GROWTH * count) + 1
    if not held:
        return None
    # of a table that replaces at random many may be gone before a walk shows
    few = max(held_together(each, _middle(pages, each, least), WALK_CYCLES) for each in (int(held / GROWTH), held))
    return InARow(Fits(1, few, None), found=False)


def _walks(pages: Pages, count: int, least: int) -> bool:
    """Whether so many pages in a row cost half of the shortest walk or more per access; three times of three."""
    return all(excess_in_a_row(pages, count, least) > WALK_CYCLES / 2 for _ in range(3))


def _bounded(pages: Pages, held: int, spills: int, least: int, limit: int) -> InARow:
    """Bounds of the entries about the last number of pages that fit and the first that didn't.

    All accesses miss soon behind a step that is one of all sets; one of a few sets that an uneven index fills first
    bounds nothing from above. What is held is reckoned with a walk's cost about there: further on, where the tables
    that are walked leave the caches too, each costs more, and less would seem to miss."""
    far = min(int(FAR_RATIO * spills), limit)
    near, cost = _middle(pages, spills, least), _middle(pages, far, least)
    # from the number before the last one that fits: of a blunt step that one may cost nearly half a walk
    first = int(held / GROWTH)
    between = [first + (spills - first) * part // PARTS for part in range(PARTS)]
    fits = max(held_together(count, _middle(pages, count, least), max(near, WALK_CYCLES)) for count in between)
    further = int(GROWTH * spills)
    steep = far == int(FAR_RATIO * spills) and _middle(pages, further, least) > STEEP_SHARE * cost
    return InARow(Fits(1, fits, further if steep else None), max(near, cost) > WALK_CYCLES, spills)


def _middle(pages: Pages, count: int, least: int) -> float:
    return float(np.median([excess_in_a_row(pages, count, least) for _ in range(3)]))


def excess_in_a_row(pages: Pages, count: int, least: int) -> float:
    """Cycles per access that spreading lines one per page costs above a few lines per page, in so many pages fewer, but
    no fewer than `least`, so that all accesses of both miss the first TLB."""
    line, context = pages.region.line_size, pages.context
    per_page = min(MOST_PER_PAGE, count // least)
    places = pages.page_bytes // line
    spread = _lines(pages, shuffled(context, np.arange(count)), places)
    # page after page, and again: in any other order some accesses would hit the first TLB
    fewer = shuffled(context, np.arange(count // per_page))
    rounds = [
        _lines(pages, fewer, places // per_page) + number * (places // per_page) * line for number in range(per_page)
    ]
    own, control = rings_cycles(context, pages.region, (spread, np.concatenate(rounds)))
    return own - control


def _lines(pages: Pages, numbers: Lines, places: int) -> Lines:
    """One line of each of these pages, among the first `places` places in it, all of them used alike."""
    place = shuffled(pages.context, np.arange(len(numbers))) % places
    return pages.region.address + numbers * pages.page_bytes + place * pages.region.line_size
