"""Lines that overfill one set of a large cache, found by what is missing after each line was loaded once.

In such a trial (`measure.trials`) nothing but the number of a set's lines counts, so whatever can be left out without
ending an overflow is left out (Vila, Köpf and Morales 2019): pages first, of some that share sets (`measure.together`),
then halves of every page that is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from setebench.measure.rings import Lines
from setebench.measure.trials import BALLAST_PARTS, Trials

PROBED_PER_PAGE = (12, 6, 3, 1)
"""Lines of every page that are looked at in a trial: as many as prefetchers let be seen. A line that is missing makes
them bring others of its page before their turn."""

HIDDEN_SHARE = 0.8
"""Missing lines, in those that are when fewer are looked at, below which prefetchers hide some."""

OVERFULL_SHARE, REST_SHARE, CLEAR_SHARE = 0.4, 0.25, 0.6
"""Missing lines of one line of every page: about one where all sets that the pages share got one more than they hold,
whatever is replaced, or several where one that is missing takes the others of its set along. Fewer, or a small part of
what was missing with pages that are left out, are lines of the system or of neighbours that take a way of some sets,
and stalls. What is told of must be clear of that."""

ENOUGH, LESS_ENOUGH, NONE_ENOUGH, FEW_TIMES = 24, 12, 8, 2
"""Lines of a page that are looked at in all trials until it is clear how many are missing; where many such answers are
averaged; and until it is clear that none is. These trials at least."""

PARTS = 12
"""Pages are left out in about so many parts, or one by one if there are few."""

HALVING_TIMES, SIDES_APART, LEAST_CUT = 3, 5, 3
"""Trials with each half of a page at most; lines by which one half leaves clearly more missing; and lines looked at of
each page, from which on halves are tried."""

NEAR_TIMES, MOST_NEAR_TIMES, PART_TIMES = 16, 160, 4
NONE_SHARE, ONE_SHARE = 0.25, 0.55
"""Without one of the pages so few lines are missing on average, of one of every page, and no
more without any one: lines of the system lie in one set in eight of some caches for good, which the other pages' lines
then fill."""


@dataclass(frozen=True)
class Looks:
    """How often lines of a set's pages are missing after they were loaded: of one line of every page, of which so many
    are looked at in a trial, not to wake prefetchers."""

    trials: Trials
    per_page: int

    def once(self, lines: Sequence[Lines], ballast: Lines | None = None, last: Lines | None = None) -> float:
        """Missing lines in one trial; `last` as for `Trials.gone`."""
        probed = np.concatenate([self.trials.rng.permutation(own)[: self.per_page] for own in lines])
        return int(self.trials.gone(np.concatenate(lines), probed, ballast, last).sum()) / self.per_page

    def mean(self, lines: Sequence[Lines], enough: int = ENOUGH) -> float:
        """The same over as many trials as tell whether sets are overfull."""
        total = 0.0
        times = max(FEW_TIMES, -(-enough // self.per_page))
        for number in range(1, times + 1):
            total += self.once(lines)
            seen = number * self.per_page
            if number >= FEW_TIMES and (total > enough / self.per_page or (not total and seen >= NONE_ENOUGH)):
                break
        return total / number


def looks_at(trials: Trials, lines: Sequence[Lines]) -> Looks:
    """Looks at as many lines as prefetchers let be seen, found with pages that overfill sets; at most if they don't."""
    looks = [Looks(trials, each) for each in PROBED_PER_PAGE]
    missing = looks[0].mean(lines)
    for wide, narrow in pairwise(looks):
        fewer = narrow.mean(lines)
        # few of both may be all that is to be seen of sets that are overfull
        if missing >= HIDDEN_SHARE * fewer and (missing > CLEAR_SHARE or not missing):
            return wide
        missing = fewer
    return looks[-1]


def fewest_pages(looks: Looks, pages: Lines, offsets: NDArray[np.int64]) -> Lines | None:
    """Addresses of those of the pages that are needed to overfill sets, lines at these offsets being used; None where
    they overfill none, or loads ran out."""
    kept = pages
    now = looks.mean(_lines(kept, offsets))
    left_out = now > OVERFULL_SHARE
    while left_out:
        left_out = False
        parts = PARTS if len(kept) > 2 * PARTS else len(kept)
        for part in np.array_split(looks.trials.rng.permutation(kept), parts):
            if looks.trials.spent:
                return None
            rest = kept[~np.isin(kept, part)]
            without = looks.mean(_lines(rest, offsets)) if len(rest) else 0.0
            if without > max(OVERFULL_SHARE, REST_SHARE * now):
                kept, now, left_out = rest, without, True
    return kept if now > CLEAR_SHARE else None


def _lines(pages: Lines, offsets: NDArray[np.int64]) -> list[Lines]:
    return list(pages[:, None] + offsets[None, :])


@dataclass(frozen=True)
class Crossed:
    """One page more than a set holds lines, each cut down to the `lines` that may share a set with one of every other
    page; `usual` lines are missing in a trial, of one of every page, where `per_page` are looked at."""

    lines: list[Lines]
    usual: float
    per_page: int = PROBED_PER_PAGE[0]

    @property
    def ways(self) -> int:
        """Ways of the cache."""
        return len(self.lines) - 1

    def without(self, number: int) -> list[Lines]:
        """The lines of all pages but this one."""
        return [*self.lines[:number], *self.lines[number + 1 :]]


def crossed(looks: Looks, pages: Lines, offsets: NDArray[np.int64]) -> Crossed | None:
    """A quarter of each page's lines, at these offsets, that overfill sets together; half of them or all where
    prefetchers bring what is left out, so that no half of some page's does clearly. None where not even all surely are
    one more than a set holds lines.

    A page with two lines of the overfull set would count for two, and lose its part in it when it is halved. Halves are
    told apart by one bit of the offset: an index that is made of address bits alone maps one half of a page onto one
    half of another, so that many sets overflow as long as many lines are left."""
    whole = _lines(pages, offsets)
    size = int(np.diff(offsets).min())
    bits = int(offsets.max() // size).bit_length()
    # where few of a page's lines are to be seen, prefetchers bring the half that is left out all the same
    halves = _cut(looks.trials, whole, bits - 1, size) if looks.per_page >= LEAST_CUT else None
    quarters = None if halves is None else _cut(looks.trials, halves, bits - 2, size)
    each = (lines for lines in (quarters, halves, whole) if lines is not None)
    return next((found for found in (critical(looks, lines) for lines in each) if found is not None), None)


def _cut(trials: Trials, whole: list[Lines], bit: int, line_size: int) -> list[Lines] | None:
    """The half of each page's lines, by a bit of their number, that overfills sets together with the others'; None
    where loads ran out."""
    kept = list(whole)
    for number, lines in enumerate(kept):
        sides = [lines[(lines // line_size >> bit) & 1 == side] for side in (0, 1)]
        kept[number] = sides[_which(trials, [[*kept[:number], half, *kept[number + 1 :]] for half in sides])]
        if trials.spent:
            return None
    return kept


def _which(trials: Trials, sides: Sequence[Sequence[Lines]]) -> int:
    """Number of the one of two that leaves more lines missing. Both are tried: prefetchers bring some of the half that
    is left out, so that the wrong one leaves lines missing too."""
    missing = np.zeros(2)
    for _ in range(HALVING_TIMES):
        missing += [trials.missing(np.concatenate(lines)) for lines in sides]
        if abs(missing[0] - missing[1]) > SIDES_APART:
            break
    return int(np.argmax(missing))


def critical(looks: Looks, lines: list[Lines]) -> Crossed | None:
    """These lines of pages, if the pages surely are one more than a set holds lines: together they overfill sets,
    without any one of them they don't. With two too many they still do, without one."""
    together = looks.mean(lines)
    if together < CLEAR_SHARE:
        return None
    shares = []
    for number in range(len(lines)):
        shares.append(looks.mean([*lines[:number], *lines[number + 1 :]], LESS_ENOUGH))
        if shares[-1] > max(ONE_SHARE, REST_SHARE * together):
            return None
    if np.mean(shares) > max(NONE_SHARE, REST_SHARE * together):
        return None
    return Crossed(lines, together, looks.per_page)


def unbiased(looks: Looks, found: Crossed, nearest_cycles: float) -> bool:
    """Whether no part of the ballast matters, as it would with a line of the set; and what is there comes from no
    nearer than `nearest_cycles`: a level before that kept lines would hold them in addition."""
    if (_held_cycles(looks.trials, found, nearest_cycles) < nearest_cycles).any():
        return False
    rests = [looks.trials.without_part(part) for part in range(BALLAST_PARTS)]
    least = REST_SHARE * found.usual
    times = max(PART_TIMES, -(-LESS_ENOUGH // looks.per_page))
    # a trial in which few happen to be missing must not end the search, a line of the set in a part of the ballast must
    return all(any(looks.once(found.lines, rest) > least for _ in range(times)) for rest in rests)


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
