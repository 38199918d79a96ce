"""Lines that overfill one set of a large cache, found by what is missing after each line was loaded once.

In such a trial (`measure.trials`) nothing but the number of a set's lines counts, so whatever can be left out without
ending an overflow is left out (group testing; Vila, Köpf and Morales 2019): pages first, of which many sets overflow at
once, then halves of what is left of every page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from setebench.measure.crowded import Crowd
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.rings import Lines
from setebench.measure.trials import BALLAST_PARTS, Trials

PARTS = 16
"""Pages are split into about as many parts as a set has ways: one part in three can then be left out, which is the
quickest way."""

AHEAD, MOST_TIMES = 2, 7
"""A trial is repeated until one outcome leads by so many, or so often: a stall looks like a missing line."""

CLEARLY_FEW = 0.5
"""Half as few missing lines as tell an overflow settle it at once that there is none: too hasty a no costs another
trial later, a yes the set."""

STILL_TIMES, STILL_SHARE = 6, 0.6
"""Trials that show whether what is left still overflows, where nothing more can be left out; the least mean number of
missing lines, in those that a full set's overflow makes."""

PROBED, PROBED_PER_PAGE = 600, 12
"""Lines that are looked at among those of several pages."""

SHARED_SHARE = 0.4
"""Where pages that overfill one set overfill others too, as an index made of address bits does, one line more than a
set holds of every page are missing: each page's lines, that is. Fewer are no overflow: stalls, or a set in which
somebody else's line took a way and isn't replaced soon."""

DENSE_SHARE = 0.2
"""The same where all lines of a part of a page are looked at: prefetchers then bring some before their turn."""

HALVING_TIMES, CLEAR_HALF = 2, 0.6

SURE_TIMES, OTHER_TIMES, PART_TIMES, NEAR_TIMES, MOST_NEAR_TIMES = 12, 4, 4, 16, 160
SURE_SHARE, NONE_SHARE, ONE_SHARE = 0.8, 0.2, 0.4
"""All pages overfill sets in so many trials at least; without one of them so few lines are missing on average, of those
that are with all, and no more without any one: lines of the system lie in one set in eight of some caches for good,
which the other pages' lines then fill. The cache before must not have kept any line."""


class Overfull(Protocol):
    """Whether some set is overfull with these items' lines."""

    def seen(self, items: NDArray[np.int64], *, sure: bool) -> bool:
        """As soon as it is clear; with `sure` a no is asked for twice too."""

    def still(self, items: NDArray[np.int64]) -> bool:
        """On average of a few trials, clearly."""


def reduced(trials: Trials, items: NDArray[np.int64], overfull: Overfull) -> NDArray[np.int64] | None:
    """`items` without those that can be left out, as many at a time as it can be; None where loads ran out. Where
    nothing more can be left out and the rest doesn't overfill a set after all, too much was: it goes back."""
    parts = PARTS
    before: list[NDArray[np.int64]] = []
    while not trials.spent:
        count = len(items)
        alone = parts >= count
        for part in np.array_split(trials.rng.permutation(items), min(parts, count)):
            rest = items[~np.isin(items, part)]
            if trials.spent:
                return None
            if len(rest) and overfull.seen(rest, sure=alone):
                before.append(items)
                items = rest
        if len(items) < count:
            continue
        if before and not overfull.still(items):
            # far back: what was left out last had less to do with it than what nobody knows of
            half = len(before) // 2
            items, before = before[half], before[:half]
        elif alone:
            return items
        else:
            parts *= 2
    return None


class _CrowdedPages:
    """Crowded pages by their numbers, of which so many lines are looked at as is worth it: first those that were
    missing before."""

    def __init__(self, trials: Trials, crowd: Crowd) -> None:
        self._trials, self._pages = trials, crowd.crowded
        line = TLB_PAGE_BYTES // crowd.missed.shape[1]
        self._offsets = np.delete(np.arange(crowd.missed.shape[1]), trials.absent.free) * line
        self._probed = [page + trials.rng.permutation(np.flatnonzero(own) * line) for page, own in crowd.pages()]

    def seen(self, items: NDArray[np.int64], *, sure: bool) -> bool:
        """See `Overfull`."""
        lead = 0
        for _ in range(MOST_TIMES):
            missing = self._missing(items)
            if missing < CLEARLY_FEW * SHARED_SHARE and not sure:
                return False
            lead += 1 if missing > SHARED_SHARE else -1
            if abs(lead) >= AHEAD:
                break
        return lead > 0

    def still(self, items: NDArray[np.int64]) -> bool:
        """See `Overfull`."""
        return float(np.mean([self._missing(items) for _ in range(STILL_TIMES)])) > STILL_SHARE

    def _missing(self, items: NDArray[np.int64]) -> float:
        """Missing lines, in the number of a page's lines that are looked at: about so many a full set's overflow
        makes."""
        per_page = min(PROBED_PER_PAGE, -(-PROBED // len(items)))
        lines: Lines = (self._pages[items][:, None] + self._offsets[None, :]).ravel()
        probed = np.concatenate([self._probed[each][:per_page] for each in items])
        return self._trials.missing(lines, probed) / per_page


def fewest_pages(trials: Trials, crowd: Crowd, numbers: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Of the crowded pages with these numbers those that are needed to overfill some set; None where they overfill
    none, or loads ran out."""
    if not len(numbers):
        return None
    pages = _CrowdedPages(trials, crowd)
    if trials.haste_helps:
        fewer = _fewer_in_haste(trials, pages, numbers)
        numbers = numbers if fewer is None else fewer
    return reduced(trials, numbers, pages) if pages.seen(numbers, sure=True) else None


def _fewer_in_haste(trials: Trials, pages: _CrowdedPages, numbers: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Pages that overfill a set though the cache before keeps some of its lines: more than are needed, found sooner;
    None where none do."""
    with trials.hasty():
        fewer = reduced(trials, numbers, pages) if pages.seen(numbers, sure=True) else None
    return fewer if fewer is not None and pages.seen(fewer, sure=True) else None


@dataclass(frozen=True)
class Crossed:
    """One page more than a set holds lines, each cut down to the `lines` that may share a set with one of every other
    page; `usual` lines are missing in a trial."""

    lines: list[Lines]
    usual: float

    @property
    def ways(self) -> int:
        """Ways of the cache."""
        return len(self.lines) - 1

    @property
    def least(self) -> float:
        """Lines missing where all sets that the pages share overflow, at least."""
        return DENSE_SHARE * min(len(each) for each in self.lines)

    def without(self, number: int) -> list[Lines]:
        """The lines of all pages but this one."""
        return [*self.lines[:number], *self.lines[number + 1 :]]


def crossed(trials: Trials, pages: Lines, line_size: int) -> Crossed | None:
    """A quarter of each page's lines that overfill sets together, or half of them where prefetchers that learn what is
    used of a page bring quarters in; None where no half of some page's lines does.

    A page with two lines of the overfull set would count for two, and lose its part in it when it is halved. Halves are
    told apart by one bit of the offset: an index that is made of address bits alone maps one half of a page onto one
    half of another, so that many sets overflow as long as many lines are left."""
    offsets = np.delete(np.arange(TLB_PAGE_BYTES // line_size), trials.absent.free)
    bits = int(offsets.max()).bit_length()
    whole = Crossed([page + offsets * line_size for page in pages], float(len(offsets)))
    halves = _cut(trials, whole, bits - 1, line_size)
    quarters = None if halves is None else _cut(trials, halves, bits - 2, line_size)
    return quarters if quarters is not None or trials.spent else halves


def _cut(trials: Trials, found: Crossed, bit: int, line_size: int) -> Crossed | None:
    """The half of each page's lines, by a bit of their number, that overfills sets together with the others'; None
    where neither half of some page's does."""
    kept, missing = list(found.lines), found.usual
    for number, lines in enumerate(kept):
        expected, best, missing = missing, lines, 0.0
        for side in (0, 1):
            half = lines[(lines // line_size >> bit) & 1 == side]
            share = _halved(trials, [*kept[:number], half, *kept[number + 1 :]])
            if share > missing:
                best, missing = half, share
            if missing > CLEAR_HALF * expected:
                break  # the other half has no part in it
        kept[number] = best
        if missing < DENSE_SHARE * len(kept[0]) or trials.spent:
            return None
    return Crossed(kept, missing)


def _halved(trials: Trials, lines: list[Lines]) -> float:
    """Mean number of lines missing."""
    return float(np.mean([trials.missing(np.concatenate(lines)) for _ in range(HALVING_TIMES)]))


def critical(trials: Trials, found: Crossed) -> bool:
    """Whether the pages surely are one more than a set holds lines: together they overfill sets in nearly all trials,
    without any one of them in hardly any. With two too many, half as many lines are missing without one."""
    lines = np.concatenate(found.lines)
    together = np.array([trials.missing(lines) for _ in range(SURE_TIMES)])
    if np.mean(together > found.least) < SURE_SHARE:
        return False
    shares = []
    for number in range(len(found.lines)):
        rest = np.concatenate(found.without(number))
        shares.append(np.mean([trials.missing(rest) for _ in range(OTHER_TIMES)]) / together.mean())
        if shares[-1] > ONE_SHARE:
            return False
    return bool(np.mean(shares) <= NONE_SHARE)


def unbiased(trials: Trials, found: Crossed, nearest_cycles: float) -> bool:
    """Whether no part of the ballast matters, as it would with a line of the set; and what is there comes from no
    nearer than `nearest_cycles`: a level before that kept lines would hold them in addition."""
    lines = np.concatenate(found.lines)
    if (_held_cycles(trials, found, nearest_cycles) < nearest_cycles).any():
        return False
    rests = [trials.without_part(part) for part in range(BALLAST_PARTS)]
    # a trial in which few happen to be missing must not end the search, a line of the set in a part of the ballast must
    return all(any(trials.missing(lines, ballast=rest) > found.least for _ in range(PART_TIMES)) for rest in rests)


def nearer_share(trials: Trials, found: Crossed, ballast_lines: int, nearest_cycles: float) -> float:
    """Share of the lines of all pages but one that come from nearer than so many cycles, behind so many lines of the
    ballast walked once."""
    cycles = _held_cycles(trials, found, nearest_cycles, ballast_lines)
    return float((cycles < nearest_cycles).mean())


def _held_cycles(
    trials: Trials, found: Crossed, nearest_cycles: float, ballast_lines: int | None = None
) -> NDArray[np.float64]:
    """Mean cycles of lines that are there, by page; of all pages but one. Behind all of the ballast, or so many lines
    of it walked once. As often as it takes to tell the cache from one at `nearest_cycles`."""
    others = found.without(0)
    lines = np.concatenate(others)
    cycles, held = np.zeros((2, len(others)))
    for _ in range(min(max(NEAR_TIMES, trials.absent.readings(nearest_cycles)), MOST_NEAR_TIMES)):
        # one line of each page: what prefetchers then bring along are others
        probed = np.array([trials.rng.choice(each) for each in others])
        if ballast_lines is None:
            own = trials.cycles(lines, probed)
        else:
            own = trials.cycles(lines, probed, trials.ballast_of(ballast_lines), turns=1)
        there = ~trials.absent.gone(own) & (own < trials.absent.most_cycles)
        cycles += np.where(there, own, 0.0)
        held += there
    mean: NDArray[np.float64] = cycles / np.maximum(held, 1)
    return mean
