"""Lines that overfill one set of a large cache, found by what is missing after each line was loaded once.

In such a trial (`measure.trials`) nothing but the number of a set's lines counts, so whatever can be left out without
ending an overflow is left out (Vila, Köpf and Morales 2019): pages first, of some that share sets (`measure.together`),
then halves of every page that is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.measure.rings import Lines
from setebench.measure.trials import BALLAST_PARTS, Trials

CLEAR_LINES = 5.0
"""Missing lines that count in a trial. Where sets replace the oldest line one that is missing takes all others of the
set along, some of which prefetchers bring back: hundreds are no surer than a few, and there are ten times fewer or
more of them for no other reason."""

LEAST_SHARE = 0.024
"""Missing lines, in those of one page, that more than stalls and lines of the system leave: even where prefetchers
bring back nearly all."""

STILL_SHARE = 0.35
"""Missing lines without pages that can be left out, in those with them. Where two lines too many fall into a set, one
of them too many leaves half at least. Where none is too many, lines of the system and stalls leave a quarter."""

ENOUGH, NONE_ENOUGH, FEW_TIMES, MOST_TIMES = 20, 10, 2, 24
"""Lines that are missing in all trials that tell how many are in one, or are expected where fewer are, or none; these
trials, at least and at most."""

PARTS = 12
"""Pages are left out in about so many parts, or one by one if there are few."""

HALVING_TIMES, USUAL_TIMES = 3, 6
"""Trials with each half of a page at most, and with what is left in the end."""

SURE_TIMES, OTHER_TIMES, PART_TIMES, NEAR_TIMES, MOST_NEAR_TIMES = 12, 4, 4, 16, 160
SURE_SHARE, NONE_SHARE, ONE_SHARE = 0.8, 0.25, 0.5
"""All pages overfill sets in so many trials at least; without one of them so few lines are missing on average, of those
that are with all, and no more without any one: lines of the system lie in one set in eight of some caches for good,
which the other pages' lines then fill. The cache before must not have kept any line."""


def missing_lines(trials: Trials, lines: Sequence[Lines], ballast: Lines | None = None) -> float:
    """Lines missing in a trial with all these, as far as they count."""
    return min(float(trials.missing(np.concatenate(lines), ballast)), CLEAR_LINES)


def fewest_pages(trials: Trials, pages: Lines, offsets: NDArray[np.int64]) -> Lines | None:
    """Addresses of those of the pages that are needed to overfill sets, lines at these offsets being used; None where
    they overfill none, or loads ran out.

    How many lines are missing when sets are just overfull depends on prefetchers and on replacement. So it is compared
    with what the same pages left a moment ago, not with a number that is known beforehand."""
    kept = pages
    least = LEAST_SHARE * len(offsets)
    now = _missing(trials, kept, offsets, 2.0 * least)
    left_out = now > least
    while left_out:
        left_out = False
        parts = PARTS if len(kept) > 2 * PARTS else len(kept)
        for part in np.array_split(trials.rng.permutation(kept), parts):
            if trials.spent:
                return None
            rest = kept[~np.isin(kept, part)]
            without = _missing(trials, rest, offsets, now) if len(rest) else 0.0
            if without > STILL_SHARE * now:
                kept, now, left_out = rest, without, True
    return kept if now > least else None


def _missing(trials: Trials, pages: Lines, offsets: NDArray[np.int64], expected: float) -> float:
    """Mean number of missing lines in a trial; `expected` are if as many are as before."""
    lines: Lines = pages[:, None] + offsets[None, :]
    total = 0.0
    for times in range(1, MOST_TIMES + 1):
        total += missing_lines(trials, list(lines))
        if times >= FEW_TIMES and max(total, times * expected) >= (ENOUGH if total else NONE_ENOUGH):
            break
    return total / times


@dataclass(frozen=True)
class Crossed:
    """One page more than a set holds lines, each cut down to the `lines` that may share a set with one of every other
    page; `usual` lines are missing in a trial, of those that count."""

    lines: list[Lines]
    usual: float

    @property
    def ways(self) -> int:
        """Ways of the cache."""
        return len(self.lines) - 1

    @property
    def least(self) -> float:
        """Lines missing where all sets that the pages share overflow, at least."""
        return STILL_SHARE * self.usual

    def without(self, number: int) -> list[Lines]:
        """The lines of all pages but this one."""
        return [*self.lines[:number], *self.lines[number + 1 :]]


def crossed(trials: Trials, pages: Lines, offsets: NDArray[np.int64]) -> Crossed | None:
    """A quarter of each page's lines, at these offsets, that overfill sets together; half of them or all where
    prefetchers bring what is left out, so that no half of some page's does clearly. None where not even all surely are
    one more than a set holds lines.

    A page with two lines of the overfull set would count for two, and lose its part in it when it is halved. Halves are
    told apart by one bit of the offset: an index that is made of address bits alone maps one half of a page onto one
    half of another, so that many sets overflow as long as many lines are left."""
    lines = [page + offsets for page in pages]
    whole = Crossed(lines, _usual(trials, lines))
    size = int(np.diff(offsets).min())
    bits = int(offsets.max() // size).bit_length()
    halves = _cut(trials, whole, bits - 1, size)
    quarters = None if halves is None else _cut(trials, halves, bits - 2, size)
    each = (found for found in (quarters, halves, whole) if found is not None)
    return next((found for found in each if critical(trials, found)), None)


def _cut(trials: Trials, found: Crossed, bit: int, line_size: int) -> Crossed | None:
    """The half of each page's lines, by a bit of their number, that overfills sets together with the others'; None
    where the halves together do so less clearly."""
    kept = list(found.lines)
    for number, lines in enumerate(kept):
        sides = [lines[(lines // line_size >> bit) & 1 == side] for side in (0, 1)]
        kept[number] = sides[_which(trials, [[*kept[:number], half, *kept[number + 1 :]] for half in sides])]
        if trials.spent:
            return None
    part = Crossed(kept, _usual(trials, kept))
    return part if part.usual > (1.0 - STILL_SHARE) * found.usual else None


def _which(trials: Trials, sides: Sequence[Sequence[Lines]]) -> int:
    """Number of the one of two that leaves more lines missing. Both are tried: prefetchers bring some of the half that
    is left out, so that the wrong one leaves lines missing too."""
    missing = np.zeros(2)
    for _ in range(HALVING_TIMES):
        missing += [trials.missing(np.concatenate(lines)) for lines in sides]
        if abs(missing[0] - missing[1]) > CLEAR_LINES:
            break
    return int(np.argmax(missing))


def _usual(trials: Trials, lines: list[Lines]) -> float:
    return float(np.mean([missing_lines(trials, lines) for _ in range(USUAL_TIMES)]))


def critical(trials: Trials, found: Crossed) -> bool:
    """Whether the pages surely are one more than a set holds lines: together they overfill sets in nearly all trials,
    without any one of them in hardly any. With two too many, half as many lines are missing without one."""
    together = np.array([missing_lines(trials, found.lines) for _ in range(SURE_TIMES)])
    if np.mean(together > found.least) < SURE_SHARE:
        return False
    shares = []
    for number in range(len(found.lines)):
        rest = found.without(number)
        shares.append(np.mean([missing_lines(trials, rest) for _ in range(OTHER_TIMES)]) / together.mean())
        if shares[-1] > ONE_SHARE:
            return False
    return bool(np.mean(shares) <= NONE_SHARE)


def unbiased(trials: Trials, found: Crossed, nearest_cycles: float) -> bool:
    """Whether no part of the ballast matters, as it would with a line of the set; and what is there comes from no
    nearer than `nearest_cycles`: a level before that kept lines would hold them in addition."""
    if (_held_cycles(trials, found, nearest_cycles) < nearest_cycles).any():
        return False
    rests = [trials.without_part(part) for part in range(BALLAST_PARTS)]
    # a trial in which few happen to be missing must not end the search, a line of the set in a part of the ballast must
    return all(any(missing_lines(trials, found.lines, rest) > found.least for _ in range(PART_TIMES)) for rest in rests)


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
