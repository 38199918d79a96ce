"""Steps of a cost over the number of lines or pages that are used in turn: what a table of entries holds, and a miss.

A set of W ways that replaces the oldest entry has lost one once W others of the set were used. If pages fill sets
evenly, a step is sharp: it begins at the number of entries and is one entry of each set long. It is known from where a
quarter, a half and three quarters of the step have risen.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

PARTS = np.array([0.25, 0.5, 0.75])
"""Of a step, at which it is known where it has risen so far."""


class StepParams(msgspec.Struct, frozen=True, kw_only=True):
    """Thresholds for plateaus and steps of a cost curve, and sizes of hardware tables (TLBs) that are considered."""

    flat: float = 0.15  # rise of a plateau, of the step's; less finds none where walks get dearer, more a slope
    flat_cycles: float = 0.3  # the same in cycles
    length: float = 1.4  # ratio of a plateau's ends: two tables differ by more
    apart: float = 0.25  # a further step is at least this fraction of the plateau before it, and `least_cycles`
    least_cycles: float = 3.0  # no table answers sooner after the one before it
    most_single: int = 320  # entries of a table of one set, all of which are compared at once; 160 are the most known
    error: float = 0.02  # relative error of where a part of a sharp step has risen: between numbers a few % apart
    most_ways: int = 32  # of set-associative tables
    sure: float = 0.95  # probability from which a number of entries is said to be known


STEPS = StepParams()

Risen = tuple[float, float, float]
"""Numbers of lines or pages at which a quarter, a half and three quarters of a step have risen."""


class Step(NamedTuple):
    """Cost rises from the plateau `before` to the plateau `behind`."""

    before: float
    behind: float
    risen: Risen


def plateau(numbers: Numbers, cost: Numbers, before: float) -> slice | None:
    """The next plateau above one of cost `before`: the first range of numbers, with ends at a ratio of `length` at
    least, on which costs are flat and lie a step higher. None where there is none."""
    for begin in np.flatnonzero(cost > before + max(STEPS.least_cycles, STEPS.apart * before)):
        end = int(np.searchsorted(numbers, STEPS.length * numbers[begin]))
        if end >= len(numbers):
            return None
        part = cost[begin : end + 1]
        middle = float(np.median(part))
        if np.ptp(part) <= (room := STEPS.flat_cycles + STEPS.flat * (middle - before)):
            off = np.abs(cost[end + 1 :] - middle) > room
            return slice(int(begin), end + 1 + (int(np.argmax(off)) if off.any() else len(off)))
    return None


def steps(numbers: Numbers, cost: Numbers) -> list[Step]:
    """All steps of costs, shape (n,), over ascending numbers, each between two plateaus; the first costs nothing."""
    before, found = 0.0, list[Step]()
    while (part := plateau(numbers, cost, before)) is not None:
        behind = float(np.median(cost[part]))
        rise = numbers[: part.stop], cost[: part.stop]
        risen = [_reached(*rise, before + share * (behind - before)) for share in PARTS]
        found.append(Step(before, behind, (risen[0], risen[1], risen[2])))
        before = behind
    return found


def _reached(numbers: Numbers, cost: Numbers, level: float) -> float:
    """From where on costs are above a level, between two numbers."""
    last = int(np.flatnonzero(cost < level).max(initial=0))
    if last + 1 >= len(numbers) or cost[last] >= level:
        return float(numbers[last])
    share = (level - cost[last]) / (cost[last + 1] - cost[last])
    return float(numbers[last] + share * (numbers[last + 1] - numbers[last]))


def oddness(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The largest odd divisor of each: numbers of entries, ways or slices are the less common the larger it is, 1 /
    oddness beside a power of two."""
    found: NDArray[np.int64] = numbers // (numbers & -numbers)
    return found


def entries_of(risen: Risen, spread: float = 0.0) -> tuple[int, float]:
    """The number of entries of the table whose step has risen so, if pages fill its sets evenly, and its probability
    among all tables of up to `most_ways` ways and a power of two of sets, or of one set; odd multiples are less common,
    as 1 over the multiple. Rounds saw it with so much relative `spread`."""
    ways, sets = np.meshgrid(np.arange(1, STEPS.most_ways + 1), 2 ** np.arange(17), indexing="ij")
    single = np.arange(max(2, int(risen[0]) - 4), min(int(risen[2]) + 5, STEPS.most_single))  # one set of so many ways
    numbers = np.concatenate([(ways * sets).ravel(), single])
    rises = numbers[:, None] + PARTS * np.concatenate([sets.ravel(), np.ones_like(single)])[:, None]
    weights = ((np.log(np.array(risen)) - np.log(rises)) ** 2).sum(axis=1) / max(STEPS.error, spread) ** 2 / 2
    likely = np.exp(weights.min() - weights) / oddness(numbers)
    total, where = np.unique(numbers, return_inverse=True)
    posterior = np.bincount(where, likely) / likely.sum()
    best = int(np.argmax(posterior))
    return int(total[best]), float(posterior[best])
