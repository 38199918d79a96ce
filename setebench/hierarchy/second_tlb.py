"""Entries and miss penalty of the second data TLB: pages at strides, so that the lines that it takes stay few.

Where a stride of two, four, ... pages leaves the same share of its sets, few lines overfill it while they all still fit
into the first cache. How the numbers that fit at several strides hang together tells what the table is like, so none
is multiplied by its stride unless another one confirms it (`infer.table_sets`). A table that strides don't take sets
from, fully associative or of a folded index, is looked for with more lines, which the second cache holds: there a walk
shows as well, but not to the entry.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from setebench.hierarchy.tlb import (
    APART_RATIO,
    CLOSER_RATIO,
    MISSING_RATIO,
    STEP_CYCLES,
    WALK_CYCLES,
    Pages,
    Table,
    common,
    missing_counts,
    typical,
)
from setebench.infer.capacity import Capacity, capacity, twice
from setebench.infer.table_sets import Fits, Shapes, may_be_folded, shapes
from setebench.measure.rings import Lines, rings_cycles, shuffled

LONGEST_STRIDE_PAGES = 256
CLEAR_MARGIN = 1.2
"""So many times the first TLB's entries in pages miss it all, so that the second one is asked for every access."""

HELD_CYCLES, HELD_SHARE = 2.0, 0.1
"""The fewest pages that are tried fit at a stride if they cost so much more than the first TLB's penalty at most."""

SURE_SHARE = 1.0 - STEP_CYCLES / WALK_CYCLES
"""Of the pages that fit, so many surely do: a few more may miss before a step shows."""

MOST_PER_PAGE = 4
"""Lines per page of the control for many pages: so far apart that no next line is one of them."""

WIDE_GROWTH = 1.19
"""Numbers of pages tried where the second cache holds the lines."""

FAR_RATIO, STEEP_SHARE = 2.0, 0.8
"""So many times the pages that don't fit miss altogether; where each set replaces its oldest entries and gets its share
of the pages, so much of that cost is there at a fifth more than fits already."""


CLEAR_MISSES = 3.0
"""One page more than a set of four ways or more holds costs so many misses a round, where each replaces its oldest
entry. Lines that are crowded out of the first cache cost less."""


@dataclass(frozen=True)
class _Step:
    """What one stride told of the second TLB, and what an access cost at two numbers of pages that all miss it; none
    where everything tried fits, or too little does. `confirms` the step of the stride before, which is known to the
    page and clearly is that of a TLB, by holding fewer pages."""

    fits: Fits
    penalties: tuple[float, ...] = ()
    confirms: bool = False

    @property
    def found(self) -> bool:
        """Whether there was a step as high as a walk."""
        return bool(self.penalties)


def second_table(pages: Pages, first: Table, second_cache_lines: int = 0) -> Table:
    """The second TLB; `second_cache_lines` of one line per page stay in the second cache for sure, 0 if that is not
    known."""
    if first.entries is None or first.penalty is None:
        what = "the first TLB" if first.entries is None else "what a miss in the first TLB costs"
        return Table(reason=f"{what} is not known")
    least = int(CLEAR_MARGIN * first.entries) + 1
    steps, wide = _steps(pages, first.penalty, least), None
    if not any(each.found for each in steps) or may_be_folded(_weighed(steps)):
        pages.context.progress("TLBs: more pages than the first cache has lines for")
        wide = _wide(pages, least, second_cache_lines)
    return _told(pages, first, steps, wide)


def _steps(pages: Pages, penalty: float, least: int) -> list[_Step]:
    """Strides of 1, 2, 4, ... pages, until two agree or too few pages fit."""
    steps: list[_Step] = []
    stride = 1
    while not _agreed(steps) and stride <= LONGEST_STRIDE_PAGES and pages.reach(stride) > least:
        step = _step(pages, penalty, stride, least)
        if not step.fits.low:
            steps.append(replace(step, confirms=bool(steps) and _clear(pages, steps[-1])))
            break
        steps.append(step)
        stride *= 2
    return steps


def _clear(pages: Pages, step: _Step) -> bool:
    """Whether one page more than fits costs as much as a set's pages that all miss."""
    if not (step.found and step.fits.exact):
        return False
    here, there = (typical(pages, count, step.fits.stride) for count in (step.fits.low, step.fits.low + 1))
    return there - here > CLEAR_MISSES * (min(step.penalties) - here) / step.fits.low


def _agreed(steps: list[_Step]) -> bool:
    """Whether the last two strides tell one size. At small strides, so with many lines, prefetches may crowd the first
    cache and raise the curve too early; the larger the stride, the cleaner it is. As many pages at both may be that
    cache's doing, too, even where a table of few sets would explain them: the next stride tells."""
    if len(steps) < 2 or not (steps[-1].found and steps[-2].found) or _alike(steps):
        return False
    found = shapes(_weighed(steps))
    return found is not None and found.value is not None


def _alike(found: list[_Step]) -> bool:
    """Whether the last two strides that show a step may both hold one number of pages."""
    highs = [each.fits.high for each in found[-2:] if each.fits.high is not None]
    return len(found) > 1 and max(each.fits.low for each in found[-2:]) < min(highs)


def _weighed(steps: list[_Step]) -> list[Fits]:
    """What the strides told, each as far as it is believed: what doesn't fit by the last two steps alone; by the last
    one where a larger stride confirms it."""
    last = [each for each in steps if each.found][-1 if steps and steps[-1].confirms else -2 :]
    return [each.fits if each in last or not each.found else replace(each.fits, high=None) for each in steps]


def _step(pages: Pages, penalty: float, stride: int, least: int) -> _Step:
    """The second step at one stride."""
    base = typical(pages, least, stride)
    if base > penalty + max(HELD_CYCLES, HELD_SHARE * penalty):
        return _Step(Fits(stride, 0, least))
    base = max(base, penalty)

    def excess(count: int) -> float:
        # the fewest fit, for the base is theirs: a ring whose lines or pages happen to lie badly doesn't change that
        return pages.excess(count, stride) - base if count > least else 0.0

    found = capacity(twice(excess, STEP_CYCLES), least, pages.reach(stride), STEP_CYCLES) or Capacity(least, None)
    if found.spills is None:
        return _Step(Fits(stride, found.fits, None))
    both = tuple(typical(pages, count, stride) for count in missing_counts(pages, found.fits, stride))
    if min(both) < penalty + WALK_CYCLES:
        return _Step(Fits(stride, found.fits, None))
    return _Step(Fits(stride, found.fits, found.spills), both)


def _told(pages: Pages, first: Table, steps: list[_Step], wide: _Step | None) -> Table:
    """Entries where only one number explains all strides; else what fits at once."""
    found = [each for each in steps if each.found]
    seen = _weighed(steps) + ([] if wide is None else [wide.fits])
    fits = int(SURE_SHARE * max((each.low for each in seen), default=0))
    if not found:
        return _without_steps(fits, wide)
    penalties = found[-1].penalties
    shape = None if may_be_folded(seen) else shapes(seen)
    if shape is None:  # pages at a stride, or of an uneven index, need not use all sets alike: no bound from above
        reason = "pages at different strides tell different sizes (a folded index?)"
        return Table(None, fits, None, None, penalties, reason)
    if _alike(found):  # the first cache is full of as many lines at any stride, with those that prefetchers bring
        reason = "as many pages fit at every stride: a table of one set, or lines that prefetchers crowd out of a cache"
        return Table(at_least=shape.low, reason=reason, doubtful=True)
    if shape.value is None:
        reason = "the step is blurred; run again at a quieter time"
        # a step that is blurred may be somebody else's who takes entries, so it bounds nothing from above
        return Table(None, shape.low, None, None, penalties, reason)
    return _with_walk(pages, first, Table(shape.value, penalties=penalties), shape, found[-1].fits.stride)


def _without_steps(fits: int, wide: _Step | None) -> Table:
    """The second TLB by its pages in a row alone, where strides show no step."""
    if wide is None or not wide.found:
        return Table(at_least=fits or None, reason=f"no second step up to {fits} pages", doubtful=True)
    high = None if wide.fits.high is None else wide.fits.high - 1
    reason = "no stride leaves out sets of it (fully associative, or a folded index), and many lines tell no entry"
    return Table(None, fits, high, reason=reason)


# -- what a walk costs ---------------------------------------------------------------------------


def _with_walk(pages: Pages, first: Table, told: Table, shape: Shapes, stride: int) -> Table:
    """The second TLB with its penalty: at the stride that told it, or at a larger one where that needs too many lines
    for two numbers of them that all miss."""
    if told.entries is None or first.entries is None or first.penalty is None:
        return told
    least = int(CLEAR_MARGIN * first.entries) + 1
    strides = [1 << bits for bits in range(1, LONGEST_STRIDE_PAGES.bit_length()) if 1 << bits >= stride]
    apart: Table | None = None
    for ratios, each in product((MISSING_RATIO, CLOSER_RATIO), strides):
        few, many = missing_counts(pages, told.entries // each, each, least, ratios)
        if many < APART_RATIO * few or many > told.entries:  # else the control's pages in a row don't fit either
            continue
        if apart is not None and ratios == CLOSER_RATIO:  # what differs behind more pages is not to be asked of fewer
            break
        both = tuple(first.penalty + _beyond_first(pages, count, each) for count in (few, many))
        if min(both) < first.penalty + WALK_CYCLES:  # the stride left more sets than thought
            continue
        found = replace(told, penalty=common(both), penalties=both)
        if found.penalty is not None:
            return found
        apart = apart or found  # larger strides need fewer lines, so that prefetchers crowd the first cache less
    if apart is not None:
        return apart
    reason = "too few lines, or pages, for the penalty at two numbers of pages"
    return replace(told, penalties=(), penalty_reason=reason)


def _beyond_first(pages: Pages, count: int, stride: int) -> float:
    """Cycles that an access costs more at this stride than over as many pages in a row, which the second TLB holds.

    The same number of lines, so what prefetchers crowd out of a small first cache costs the same in both."""
    return typical(pages, count, stride) - typical(pages, count, 1)


# -- more pages than the first cache has lines ---------------------------------------------------


def _wide(pages: Pages, least: int, most: int) -> _Step | None:
    """About how many pages in a row fit, from rings of which the first cache holds little; None where the fewest of
    them, which do fit, cost something, or it can't be told how high the step is."""
    limit = min(most, pages.region.size // pages.page_bytes)
    count, held = 2 * least, 0
    while count <= limit:
        if _walks(pages, count, least):
            return _bounded(pages, held, count, least, limit) if held else None
        held, count = count, int(WIDE_GROWTH * count) + 1
    # of a table that replaces at random a few may be gone before a walk shows
    return _Step(Fits(1, int(held / WIDE_GROWTH), None)) if held else None


def _walks(pages: Pages, count: int, least: int) -> bool:
    """Whether so many pages in a row cost half of the shortest walk or more per access; three times of three."""
    return all(_wide_excess(pages, count, least) > WALK_CYCLES / 2 for _ in range(3))


def _bounded(pages: Pages, held: int, spills: int, least: int, limit: int) -> _Step | None:
    """Bounds of the entries from the last number of pages that fit and the first that didn't, should the height of the
    step be seen. All accesses miss soon behind a step that is one of all sets; one of a few sets that an uneven index
    fills first bounds nothing from above."""
    far = int(FAR_RATIO * spills)
    if far > limit:
        return None
    walk, beyond, before = (
        float(np.median([_wide_excess(pages, count, least) for _ in range(3)]))
        for count in (far, int(WIDE_GROWTH * spills), held)
    )
    fitting = 1.0 - max(before, 0.0) / walk
    return _Step(
        Fits(1, int(fitting * held), int(WIDE_GROWTH * spills) if beyond > STEEP_SHARE * walk else None), (walk,)
    )


def _wide_excess(pages: Pages, count: int, least: int) -> float:
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
