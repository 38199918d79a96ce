"""Entries and miss penalty of the second data TLB: pages at strides, so that the lines that it takes stay few.

Where a stride of two, four, ... pages leaves the same share of its sets, few lines overfill it while they all still fit
into the first cache. How the numbers that fit at several strides hang together tells what the table is like, so none
is multiplied by its stride unless another one confirms it (`infer.table_sets`). Pages in a row are asked as well, with
more lines, which the second cache holds (`pages_in_a_row`): they tell of a table that strides don't take sets from,
fully associative or of a folded index, though not to the entry, and what strides tell beyond them isn't believed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from setebench.hierarchy.pages_in_a_row import InARow, in_a_row
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

LONGEST_STRIDE_PAGES = 256
CLEAR_MARGIN = 1.2
"""So many times the first TLB's entries in pages miss it all, so that the second one is asked for every access."""

HELD_CYCLES, HELD_SHARE = 2.0, 0.1
"""The fewest pages that are tried fit at a stride if they cost so much more than the first TLB's penalty at most."""

SURE_SHARE = 1.0 - STEP_CYCLES / WALK_CYCLES
"""Of the pages that fit, so many surely do: a few more may miss before a step shows."""

BLUR = 0.1
"""By such a share a step comes too early where others keep entries: two strides that differ by less tell of one table.
Its sets are told apart by more, for their number is a power of two."""

MORE_RATIO, EVEN_SHARE = 1.25, 0.35
"""Where a stride leaves sets that its pages use alike, a quarter more than fit has a page too many in each set of four
ways or more: all miss, or with a random replacement 0.45 to 0.49 of what far more pages do. A few full sets of a hashed
index make 0.13 of that."""

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
    steps = _steps(pages, first.penalty, least)
    even = _even(pages, first.penalty, steps)
    return _told(pages, first, steps, even, in_a_row(pages, least, second_cache_lines))


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


def _even(pages: Pages, penalty: float, steps: list[_Step]) -> bool:
    """Whether the step at the last stride that shows one is that of all sets at once, if there is a step. A hashed
    index fills a few of them before others are full, so that less than what the table holds fits."""
    last = next((each for each in reversed(steps) if each.found), None)
    if last is None:
        return False
    more = typical(pages, min(int(MORE_RATIO * last.fits.low), pages.reach(last.fits.stride)), last.fits.stride)
    return more - penalty > EVEN_SHARE * (max(last.penalties) - penalty)


def _alike(found: list[_Step], blur: float = 0.0) -> bool:
    """Whether the last two strides that show a step may both hold one number of pages; `blur` as for `shapes`."""
    highs = [each.fits.high * (1.0 + blur) for each in found[-2:] if each.fits.high is not None]
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


def _told(pages: Pages, first: Table, steps: list[_Step], even: bool, row: InARow | None) -> Table:
    """Entries where only one number explains all strides and pages in a row; else what fits at once."""
    found, seen, held = [each for each in steps if each.found], _weighed(steps), [] if row is None else [row.fits]
    fits = _surely(seen + held)
    if not found:
        return _without_steps(fits, row)
    ends = row.spills if row is not None and row.found else 0
    # behind a step of a few sets alone not all pages miss, so that what they cost bounds no penalty
    penalties = found[-1].penalties if even else ()
    # pages in a row that don't end show that a table is no small folded one; those that end don't
    folded = may_be_folded(seen if ends else seen + held)
    shape = None if folded else shapes(seen + held)
    if shape is None:
        return _without_shape(found, seen, held, penalties, ends, folded=folded)
    if _alike(found):  # the first cache is full of as many lines at any stride, with those that prefetchers bring
        reason = "as many pages fit at every stride: a table of one set, or lines that prefetchers crowd out of a cache"
        return Table(at_least=shape.low, reason=reason, doubtful=True)
    if ends and shape.low >= ends:  # strides leave more sets than they should, and pages in a row know no stride
        reason = f"{ends} pages in a row don't fit, and strides tell more entries (a folded or hashed index?)"
        return Table(None, fits, None, None, (), reason)
    if shape.value is not None and even:
        return _with_walk(pages, first, Table(shape.value, penalties=penalties), shape, found[-1].fits.stride)
    blurred, uneven = "the step is blurred; run again at a quieter time", "some sets are full before others"
    reason = blurred if even else f"{uneven} (a hashed index?)"
    # a step that is blurred may be somebody else's who takes entries, so it bounds nothing from above
    return Table(None, shape.low if even or ends else fits, None, None, penalties, reason)


def _without_shape(
    found: list[_Step], seen: list[Fits], held: list[Fits], penalties: tuple[float, ...], ends: int, *, folded: bool
) -> Table:
    """The second TLB where no sets explain both strides and pages in a row, of which `ends` don't fit (0: all did)."""
    reason = "pages at different strides tell different sizes (a folded index?)"
    if held and not ends:  # without a second TLB no number of pages in a row costs more than few
        return Table(at_least=_surely(seen), reason=reason, doubtful=True)
    almost = 0 if folded else _blurred(found, seen + held, ends)
    # pages at a stride, or of an uneven index, need not use all sets alike: no bound from above
    return Table(None, max(_surely(seen + held), almost), None, None, penalties, reason)


def _surely(seen: list[Fits]) -> int:
    return int(SURE_SHARE * max((each.low for each in seen), default=0))


def _blurred(found: list[_Step], seen: list[Fits], ends: int) -> int:
    """What is held at least, by two strides that show a step and almost tell one size; 0 where pages in a row, of which
    so many don't fit, tell otherwise or nothing."""
    if not ends or len(found) < 2 or _alike(found, BLUR):
        return 0
    shape = shapes(seen, BLUR)
    return 0 if shape is None or shape.low >= ends else shape.low


def _without_steps(fits: int, row: InARow | None) -> Table:
    """The second TLB by its pages in a row alone, where strides show no step."""
    if row is None or not row.found:
        return Table(at_least=fits or None, reason=f"no second step up to {fits} pages", doubtful=True)
    high = None if row.fits.high is None else row.fits.high - 1
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
