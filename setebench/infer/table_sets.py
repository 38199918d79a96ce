"""Entries of a set-associative table, such as a TLB, from how many pages fit at several strides. Knows no machine.

Pages `stride` apart use one in `stride` of the sets, so half as many fit at twice the stride, until one set is left and
the number stays what it is: the ways. A fully associative table holds as many at any stride. So does one that folds
further address bits into the index, up to a stride of as many pages as it has sets. Which numbers of sets and ways
explain all that was seen is found by trying them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

MOST_SETS_BITS = 14
"""No TLB has more sets than two to this."""

LEAST_FOLDED_SETS = 64
"""A table whose index is folded has at least so many sets: 128 or 256 in all that are known."""


@dataclass(frozen=True)
class Fits:
    """What one stride, in pages, told: `low` pages fit; `high` don't, None where all that were tried fit."""

    stride: int
    low: int
    high: int | None

    @property
    def exact(self) -> bool:
        """Whether the number that fits is known to the page."""
        return self.high == self.low + 1


@dataclass(frozen=True)
class Shapes:
    """Every number of entries that is possible. `value` is None where there are several, `low` and `high` their
    bounds."""

    value: int | None
    low: int
    high: int | None


def shapes(seen: Sequence[Fits], blur: float = 0.0) -> Shapes | None:
    """What explains the numbers at all strides together; None where nothing does (a folded index, or a blur).

    `blur` is by what share a step may come too early, for somebody else's pages are in the table as well. It tells no
    value, but a bound from below: nothing makes pages fit that the table doesn't hold."""
    possible = list(_possible([_later(each, blur) for each in seen]))
    if not possible:
        return None
    low, high = min(each[1] for each in possible), max(each[2] for each in possible)
    known = low == high and any(each.exact for each in seen) and not blur
    return Shapes(int(low) if known else None, int(low), int(high) if high != float("inf") else None)


def _later(fits: Fits, blur: float) -> Fits:
    return fits if fits.high is None else replace(fits, high=int(fits.high * (1.0 + blur)))


def _possible(seen: Sequence[Fits]) -> Iterator[tuple[int, float, float]]:
    """Numbers of sets, with the fewest and the most entries."""
    for bits in range(MOST_SETS_BITS + 1):
        sets = 1 << bits
        least, most = 1.0, float("inf")
        for each in seen:
            used = max(1, sets // each.stride)
            least = max(least, -(-each.low // used))
            most = min(most, float("inf") if each.high is None else (each.high - 1) // used)
        if least <= most:
            yield sets, least * sets, most * sets


def may_be_folded(seen: Sequence[Fits]) -> bool:
    """Whether a folded index of fewer entries would explain what was seen as well: a first step that comes at a stride
    of more pages than a folded table may have sets, when no more pages in a row are known to fit than such a one
    holds."""
    first = min((each for each in seen if each.high is not None), key=lambda each: each.stride, default=None)
    if first is None or first.stride <= LEAST_FOLDED_SETS:
        return False
    in_a_row = max((each.low for each in seen if each.stride == 1), default=0)
    return in_a_row * LEAST_FOLDED_SETS < first.low * first.stride


def held_together(pages: int, excess_cycles: float, walk_cycles: float) -> int:
    """How many entries there are at least where `pages` asked for in turn cost `excess_cycles` more per access than
    pages that fit: each one that hits has been there for a round, so all that hit are there together. `walk_cycles` is
    no more than what a miss costs."""
    return int(pages * max(0.0, 1.0 - max(excess_cycles, 0.0) / walk_cycles))
