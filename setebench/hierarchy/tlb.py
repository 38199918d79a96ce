"""Entries and miss penalties of the data TLBs, told apart from cache misses.

The same number of lines is chased twice: spread one per page, and packed in few pages. The lines stay in the first
cache either way, so what spreading costs is translation. Pages in a row use all sets of a TLB alike; to find a large
TLB with few lines, only every second, fourth, ... page is used, which leaves the same share of its sets.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from setebench.infer.capacity import Capacity, capacity, twice
from setebench.machine import Region
from setebench.measure.rings import Lines, empty_sets, rings_cycles, shuffled
from setebench.scenario import Context

TRANSLATED_BYTES = 4096
"""The smallest page of x86-64."""

FIRST_PAGES = 6
"""Every first TLB holds more pages than that."""

STEP_CYCLES = 0.2
"""Cycles per access that tell a step. With one page too many in one set of four ways, five pages of some hundred miss
at six cycles and more each."""

LEAST_PENALTY_CYCLES = 3.0
"""No second TLB answers sooner: it is asked after the first, and is larger. What costs less comes from elsewhere."""

LONGEST_STRIDE_PAGES = 256
CLEAR_MARGIN = 1.2
"""So many times the first TLB's entries in pages miss it all, so that the second one is asked for every access."""

MISSING_RATIO = (1.6, 2.0)
"""Numbers of pages, in capacities, at which every access misses, whatever is replaced; the penalties found at both
must agree."""

APART_RATIO = 1.2
"""Numbers of pages that were cut off at the most lines are one number, which agrees with itself."""

AGREE_CYCLES, AGREE_RATIO = 1.0, 0.06
LINES_SHARE = 0.8
"""Of the first cache's lines, so many are used at most: a tag hash or a tree replacement spoils a full cache."""

WALK_CYCLES = 8.0
"""A page walk reads at least one more entry from beyond the first cache, so a miss in both TLBs costs so much more than
a miss in the first. What rises by less is something else."""


@dataclass(frozen=True)
class Table:
    """What was found of one TLB. `entries` is None where it is not known; `at_least` is how many it holds anyway.
    `penalty` in cycles, over a hit in the first TLB, with what two measurements of it gave; `penalty_reason` why it is
    missing, should that be another reason than the size's."""

    entries: int | None = None
    at_least: int | None = None
    highest: int | None = None
    penalty: float | None = None
    penalties: tuple[float, ...] = ()
    reason: str = ""
    absent: bool = False
    penalty_reason: str = ""


@dataclass
class Pages:
    """Memory to spread lines over: `region` in steps of `page_bytes`, never more than `most_lines` lines, nor more than
    `most_pages` pages of the region."""

    context: Context
    region: Region
    page_bytes: int
    most_lines: int
    evidence: dict[str, list[float]] = field(default_factory=lambda: {"stride_pages": [], "pages": [], "cycles": []})

    def reach(self, stride: int) -> int:
        """How many lines can be spread at this stride."""
        return min(self.most_lines, self.region.size // (self.page_bytes * stride))

    def excess(self, count: int, stride: int) -> float:
        """Cycles per access that spreading `count` lines over every `stride`-th page costs."""
        line = self.region.line_size
        empty_sets(self.context, self.region.address + np.arange(int(self.most_lines / LINES_SHARE * 1.3)) * line)
        own, control = rings_cycles(self.context, self.region, self._rings(count, stride))
        self.evidence["stride_pages"].append(stride)
        self.evidence["pages"].append(count)
        self.evidence["cycles"].append(round(own - control, 3))
        return own - control

    def _rings(self, count: int, stride: int) -> tuple[Lines, Lines]:
        line = self.region.line_size
        number = np.arange(count)
        begin = self.region.address
        # one line in every cache set before any gets a second one; in an order that no page's number foretells
        # At all places of a large page: were they those of 4 KiB alone, all lines would share few sets of an outer
        # cache, and one that includes the first would take them out of it.
        place = shuffled(self.context, number) % (self.page_bytes // line)
        spread = begin + number * stride * self.page_bytes + place * line
        return shuffled(self.context, spread), shuffled(self.context, begin + number * line)


def first_table(pages: Pages) -> Table:
    """The first TLB: pages in a row until spreading costs something."""
    found, again = _first_step(pages), _first_step(pages)
    if found is None:
        return Table(reason=f"spreading {FIRST_PAGES} lines over as many pages costs something already")
    if found.spills is None:
        return Table(at_least=found.fits, reason=f"no step up to {found.fits} pages")
    penalty, both = _penalty(pages, found.fits, 1)
    if again is None or again.spills is None or again.fits != found.fits:  # somebody else used entries, once
        fits = [found.fits] if again is None else [found.fits, again.fits]
        return Table(
            None, min(fits), None, None, both, "two searches tell different sizes; run again at a quieter time"
        )
    if min(both) < LEAST_PENALTY_CYCLES:
        reason = "spreading lines over pages costs less than a second TLB's answer does; run again at a quieter time"
        return Table(None, None, None, None, both, reason)
    if not found.exact:
        return Table(None, found.fits, found.spills, None, both, "the step is blurred; run again at a quieter time")
    return Table(found.fits, None, None, penalty, both)


def _first_step(pages: Pages) -> Capacity | None:
    return capacity(twice(lambda n: pages.excess(n, 1), STEP_CYCLES), FIRST_PAGES, pages.reach(1), STEP_CYCLES)


@dataclass(frozen=True)
class _Second:
    """What one stride told of the second TLB."""

    stride: int
    found: Capacity
    penalties: tuple[float, ...]


def second_table(pages: Pages, first: Table) -> Table:
    """The second TLB: pages at such strides that those it holds are more than the first one's, and few enough lines."""
    if first.entries is None or first.penalty is None:
        return Table(reason="the first TLB is not known")
    least = int(CLEAR_MARGIN * first.entries) + 1
    steps: list[_Second] = []
    stride, held = 1, 0
    while not _agreed(steps) and stride <= LONGEST_STRIDE_PAGES and pages.reach(stride) > least:
        found = _second_step(pages, first.penalty, stride, least)
        if found is None:
            break
        if isinstance(found, _Second):
            steps.append(found)
        else:
            held = max(held, found * stride)
        stride *= 2
    if not steps:
        return Table(at_least=held or None, reason=f"no second step up to {held} pages")
    return _with_walk(pages, first, _second_from_steps(steps), steps[-1].stride)


def _agreed(steps: list[_Second]) -> bool:
    """Whether the last two strides tell one size. At small strides, so with many lines, prefetches may crowd the first
    cache and raise the curve too early; the larger the stride, the cleaner it is."""
    return len(steps) > 1 and _exact_entries(steps[-1:]) == _exact_entries(steps[-2:-1]) is not None


def _exact_entries(steps: list[_Second]) -> int | None:
    return steps[0].found.fits * steps[0].stride if steps[0].found.exact else None


def _second_step(pages: Pages, first_penalty: float, stride: int, least: int) -> _Second | int | None:
    """The second step at one stride; or how many pages fit if there is none; None where the fewest don't."""
    base = _typical(pages, least, stride)
    if base > first_penalty + WALK_CYCLES:
        return None

    def excess(count: int) -> float:
        return pages.excess(count, stride) - base

    found = capacity(twice(excess, STEP_CYCLES), least, pages.reach(stride), STEP_CYCLES)
    if found is None or found.spills is None:
        return None if found is None else found.fits
    both = tuple(_typical(pages, count, stride) for count in _missing_counts(pages, found.fits, stride))
    if min(both) < first_penalty + WALK_CYCLES:
        return found.fits
    return _Second(stride, found, both)


def _second_from_steps(steps: list[_Second]) -> Table:
    """Entries, where the last two strides agree, or the only one is exact."""
    last = steps[-1]
    steps = steps[-2:]
    low = min(each.found.fits * each.stride for each in steps)
    high = max((each.found.spills or 0) * each.stride for each in steps)
    sizes = {each.found.fits * each.stride for each in steps}
    if len(sizes) == 1 and all(each.found.exact for each in steps):
        return Table(sizes.pop(), penalties=last.penalties)
    reason = "pages at different strides tell different sizes (a hashed index?)"
    return Table(None, low, high, None, last.penalties, reason)


def _with_walk(pages: Pages, first: Table, told: Table, stride: int) -> Table:
    """The second TLB with its penalty, if its size is known: at the stride that told it, or at a larger one where that
    needs too many lines for two numbers of them that all miss."""
    if told.entries is None or first.entries is None or first.penalty is None:
        return told
    least, stride = int(CLEAR_MARGIN * first.entries) + 1, max(stride, 2)
    while stride <= LONGEST_STRIDE_PAGES:
        few, many = _missing_counts(pages, told.entries // stride, stride, least)
        if many >= APART_RATIO * few and many <= told.entries:  # else the control's pages in a row don't fit either
            both = tuple(first.penalty + _beyond_first(pages, count, stride) for count in (few, many))
            return replace(told, penalty=_common(both), penalties=both)
        stride *= 2
    reason = "too few lines fit into the first cache for the penalty at two numbers of pages"
    return replace(told, penalties=(), penalty_reason=reason)


def _beyond_first(pages: Pages, count: int, stride: int) -> float:
    """Cycles that an access costs more at this stride than over as many pages in a row, which the second TLB holds.

    The same number of lines, so what prefetchers crowd out of a small first cache costs the same in both."""
    return _typical(pages, count, stride) - _typical(pages, count, 1)


def _penalty(pages: Pages, fits: int, stride: int) -> tuple[float | None, tuple[float, ...]]:
    """Cycles that an access costs when all miss, and what it was at two numbers of pages; None where they differ."""
    both = tuple(_typical(pages, count, stride) for count in _missing_counts(pages, fits, stride))
    return _common(both), both


def _missing_counts(pages: Pages, fits: int, stride: int, least: int = 0) -> tuple[int, int]:
    """Two numbers of pages at which all miss where `fits` do fit, not less than `least` and about that; no more than
    there are lines for."""
    few, many = (int(ratio * fits) + 1 for ratio in MISSING_RATIO)
    few = max(few, least)
    many = max(many, int(APART_RATIO * few) + 1)
    return min(few, pages.reach(stride)), min(many, pages.reach(stride))


def _typical(pages: Pages, count: int, stride: int) -> float:
    return float(np.median([pages.excess(count, stride) for _ in range(3)]))


def _common(both: tuple[float, ...]) -> float | None:
    """The mean, unless they are further apart than chance and frequency put them."""
    apart = abs(both[0] - both[1]) > max(AGREE_CYCLES, AGREE_RATIO * max(both))
    return None if apart else float(np.mean(both))
