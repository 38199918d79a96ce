"""Rules for hardware prefetchers without a name: what curves of presence show is replayed as leads of runs.

A curve has for each number of accesses to a page which of its lines were there, and how near. For each kind of access
the lines that came ahead become a lead of level 2, and those of them that came to level 1 a lead of level 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.truth.twin.readings import Draft, Reading, Readings

CURVES = {"load": "base", "store": "stores", "prefetch": "prefetches"}
"""The curve of a run by each kind of access, one line after the other."""

BY_TWOS, BEYOND, BY_ONE = "gaps of two and three", "every 5th line", "one instruction"
OTHERS = ("prefetcher.l1.other.present", "prefetcher.l2.other.present")
CAME, MOST = 0.5, 0.75
"""Fraction of repetitions in which a line is there that comes, and of lines that come up to the last of a lead."""

FURTHEST = 64
"""Lines of a step that goes on a run wherever in a page, where steps of several lines do."""

Leads = dict[int, tuple[int, int]]
"""By number of accesses: how many lines ahead come at all, and how many of them to level 1."""


def replayed(readings: Readings, draft: Draft, first: int) -> int:
    """Fill prefetchers from place `first` on with what curves show where a behaviour has no name; how many there are.
    Of a second behaviour that named prefetchers show as well nothing more comes: its lines are there already."""
    found = [reading for name in OTHERS if (reading := readings.get(name)) is not None and reading.value]
    curves, count = readings.curves, 0
    if not found or not set(CURVES.values()) & curves.keys():
        return 0
    names = tuple(name for reading in found for name in reading.parameters)
    twos, beyond = (_leads(curves.get(name), steps) for name, steps in ((BY_TWOS, 2), (BEYOND, 5)))
    for kind, name in CURVES.items():
        own = _leads(curves.get(name), 1)
        for fills, place in (("l1", 1), ("l2", 0)):
            lists = [_listed(each, place) for each in (own, twos, beyond)]
            if not any(lists[0]):
                continue
            path = ("prefetchers", first + count)
            reading = Reading(None, "measured", parameters=names, why=f"lines ahead of a run, curve: {name}")
            rows = zip(("leads", "leads_by_twos", "leads_beyond"), lists, strict=True)
            reach = FURTHEST if any(lists[2][1:]) else 2 if any(lists[1][1:]) else 1
            fields = {"kind": "lead", "level": 1, "fills": fills, "trained_by": [kind], "reach": reach, **dict(rows)}
            for field, value in fields.items():
                draft.put((*path, field), reading.of(value))
            count += 1
    return count


def outgrown(readings: Readings) -> bool:
    """Whether runs of neighbouring lines by one instruction lead no further than those by many do: what goes by
    instructions does not follow them."""
    base, one = (_leads(readings.curves.get(name), 1) for name in (CURVES["load"], BY_ONE))
    both = base.keys() & one.keys()
    return bool(both) and sum(one[n][0] - base[n][0] for n in both) <= len(both)


def _leads(curve: Mapping[str, Any] | None, step: int) -> Leads:
    """What comes ahead of a run upwards, after each number of accesses of which the latest two are so far apart."""
    rows = dict(_ahead(curve, step)) if curve else {}
    return {count: (_lead(came), _nearer(first[: _lead(came)])) for count, (came, first) in rows.items()}


def _ahead(curve: Mapping[str, Any], step: int) -> Iterator[tuple[int, tuple[NDArray[np.bool_], NDArray[np.bool_]]]]:
    """Of the lines behind the latest access: which come, and which are in level 1."""
    for count, present, levels in zip(curve["counts"], curve["present"], curve["nearest"], strict=True):
        before, last = curve["touched"][max(count - 2, 0)], curve["touched"][count - 1]
        if count == 1 or last - before == step:
            came = np.array(present[last + 1 :], dtype=float) >= CAME  # a line without a fraction is none that comes
            yield count, (came, np.array(levels[last + 1 :]) == 0)


def _lead(came: NDArray[np.bool_]) -> int:
    """How many lines lead, nearly all of which come."""
    upto = np.cumsum(came) / np.arange(1, len(came) + 1)
    return int(max(np.flatnonzero(came & (upto >= MOST)) + 1, default=0))


def _nearer(first: NDArray[np.bool_]) -> int:
    """How many lines from the first on are in level 1, where single ones may be mistaken."""
    return int(np.argmax(np.concatenate([[0], np.cumsum(np.where(first, 1, -1))])))


def _listed(leads: Leads, place: int) -> Sequence[int]:
    """Leads after 1, 2, 3, ... accesses. What single lines say of level 1 is smoothed; between numbers of accesses that
    were tried a lead goes on as it does from one to the next."""
    counts = sorted(leads)
    if not counts:
        return [0]
    values = np.array([leads[count][place] for count in counts], dtype=float)
    if place and len(values) > 2:
        values[1:-1] = np.median([values[:-2], values[1:-1], values[2:]], axis=0)
    return [round(each) for each in np.interp(range(1, counts[-1] + 1), counts, values)]
