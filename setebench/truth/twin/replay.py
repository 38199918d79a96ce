"""Rules for hardware prefetchers without a name: what curves of presence show is replayed as leads of runs.

A curve has for each number of accesses to a page which of its lines were there, and how near. For each kind of access
the lines that came ahead become a lead of level 2, and those of them that came to level 1 a lead of level 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.truth.twin.readings import Draft, Reading, Readings

CURVES = {
    "load": ("base", "one instruction", "ordered by address"),
    "store": ("stores",),
    "prefetch": ("prefetches",),
}
"""Curves of runs by each kind of access, one line after the other; the first says how far they lead."""

BY_TWOS, BEYOND, BY_STRIDES = "gaps of two and three", "every 5th line", "every 3rd line, one instruction"
OTHERS = ("prefetcher.l1.other.present", "prefetcher.l2.other.present")
CAME, MOST = 0.5, 0.75
"""Fraction of repetitions in which a line is there that comes, and of lines that come up to the last of a lead."""

FURTHEST, MOST_NUMBERS = 64, 32
"""Lines of a step that goes on a run wherever in a page, where steps of several lines do, and numbers of a list."""


class Curve(msgspec.Struct, frozen=True):
    """Lines of a page in the order of their accesses; after so many of them the fraction of repetitions in which each
    line was there (None: it was accessed), and the index of its commonest level. Shapes (counts, lines)."""

    touched: list[int] = []
    counts: list[int] = []
    present: list[list[float | None]] = []
    nearest: list[list[int]] = []


def curve_of(readings: Readings, name: str) -> Curve:
    """A curve of the result, one of nothing where there is none, or where something that is named is not there: a
    result file is anybody's."""
    try:
        found = msgspec.convert(readings.curves.get(name), Curve)
    except msgspec.ValidationError:
        return Curve()
    rows = [*map(len, found.present), *map(len, found.nearest)]
    counted = len(found.counts) == len(found.present) == len(found.nearest) and len({*rows}) == 1
    touched = {*range(1, len(found.touched) + 1)}
    return found if counted and {*found.counts} <= touched and {*found.touched} <= {*range(rows[0])} else Curve()


@dataclass(frozen=True)
class Leads:
    """How many lines come ahead of a run after so many accesses, and how many of them to level 1."""

    counts: Sequence[int] = (1,)
    all: Sequence[int] = (0,)
    near: Sequence[int] = (0,)

    @property
    def beyond(self) -> bool:
        """Whether lines come to level 2 alone: one more after each access may be mistaken."""
        return sum(self.all) - sum(self.near) > len(self.counts)

    def listed(self, values: Sequence[int]) -> list[int]:
        """The same after 1, 2, 3, ... accesses; between numbers that were tried a lead goes on from one to the next."""
        counts = range(1, min(self.counts[-1], MOST_NUMBERS) + 1)
        return [min(round(each), FURTHEST - 1) for each in np.interp(counts, self.counts, values)]


def replayed(readings: Readings, draft: Draft, first: int) -> int:
    """Fill prefetchers from place `first` on with what curves show where a behaviour has no name; how many there are.
    Of a second behaviour that named prefetchers show as well nothing more comes: its lines are there already."""
    found = [reading for name in OTHERS if (reading := readings.get(name)) is not None and reading.value]
    if not found or not curve_of(readings, CURVES["load"][0]).counts:
        return 0
    names, count = tuple(name for reading in found for name in reading.parameters), 0
    for kind, curves in CURVES.items():
        own = leads(readings, curves)
        twos, beyond = (leads(readings, (name,), step) for name, step in ((BY_TWOS, 2), (BEYOND, 5)))
        reach = FURTHEST if any(beyond.all[1:]) else 2 if any(twos.all[1:]) else 1
        if not own.beyond:  # other steps are known of loads alone, which bring lines to both levels
            twos = beyond = Leads()
        for fills in ("l1", "l2"):
            lists = [each.listed(each.near if fills == "l1" else each.all) for each in (own, twos, beyond)]
            if not any(lists[0]):
                continue
            reading = Reading(None, "measured", parameters=names, why=f"lines ahead of a run: {', '.join(curves)}")
            fields = {"kind": "lead", "level": 1, "fills": fills, "trained_by": [kind], "reach": reach}
            fields |= zip(("leads", "leads_by_twos", "leads_beyond"), lists, strict=True)
            for field, value in fields.items():
                draft.put(("prefetchers", first + count, field), reading.of(value))
            count += 1
    return count


def outgrown(readings: Readings) -> bool:
    """Whether runs of neighbouring lines by one instruction lead no further than those by many do: what goes by
    instructions does not follow them."""
    both = (leads(readings, (name,)) for name in CURVES["load"][:2])
    base, one = (dict(zip(each.counts, each.all, strict=True)) for each in both)
    counts = base.keys() & one.keys() - {1}
    return bool(counts) and sum(one[count] - base[count] for count in counts) <= len(counts)


def leads(readings: Readings, names: Sequence[str], step: int = 1, stride: int = 1) -> Leads:
    """What comes ahead of a run upwards after each number of accesses of which the latest two are so far apart, at
    every so many lines. The first curve says how far it leads, all of them what is in level 1."""
    votes = dict[int, NDArray[np.int64]]()
    for name in names:
        curve = curve_of(readings, name)
        for count, present, levels in zip(curve.counts, curve.present, curve.nearest, strict=True):
            before, last = curve.touched[max(count - 2, 0)], curve.touched[count - 1]
            if count > 1 and last - before != step:
                continue
            came = np.array(present[last + stride :: stride], dtype=float) >= CAME  # none comes that has no fraction
            vote = np.where(came, np.where(np.array(levels[last + stride :: stride]) == 0, 1, -1), 0)
            own = votes.setdefault(count, np.zeros(_lead(came), dtype=np.int64))
            own[: len(vote)] += vote[: len(own)]
    if not votes:
        return Leads()
    counts = sorted(votes)
    return Leads(counts, [len(votes[count]) for count in counts], _rising([votes[count] for count in counts]))


def _lead(came: NDArray[np.bool_]) -> int:
    """How many lines lead, nearly all of which come."""
    upto = np.cumsum(came) / np.arange(1, len(came) + 1)
    return int(max(np.flatnonzero(came & (upto >= MOST)) + 1, default=0))


def _rising(votes: Sequence[NDArray[np.int64]]) -> list[int]:
    """How many lines from the first on are in level 1, never fewer after more accesses: the numbers for which most
    lines vote. Single lines may be mistaken."""
    size = max(map(len, votes)) + 1
    every = [np.cumsum(np.pad(each, (1, size - 1 - len(each)))) for each in votes]
    best, chosen = np.zeros(size), list[NDArray[np.int64]]()
    for worth in every:
        above = np.maximum.accumulate(best)
        chosen.append(np.maximum.accumulate(np.where(best == above, np.arange(size), 0)))
        best = above + worth
    place, found = int(np.argmax(best)), list[int]()
    for each, own in zip(reversed(chosen), reversed(votes), strict=True):
        found.append(min(place, len(own)))
        place = int(each[place])
    return found[::-1]
