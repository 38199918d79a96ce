"""Find steps of a curve of cost over the number of pages (or lines) accessed cyclically, and infer table sizes.

A hardware table such as a TLB makes a step: its height is the penalty of a miss, its place the number of entries. If
pages fill the table's sets evenly and sets replace the oldest entry, the step begins at the number of entries and ends
one entry per set later. A step is described by the numbers at which 1/4, 1/2 and 3/4 of it have risen.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

PARTS = np.array([0.25, 0.5, 0.75])
"""Fractions of a step's height whose positions describe the step."""


class StepParams(msgspec.Struct, frozen=True, kw_only=True):
    """Thresholds for plateaus and steps of a cost curve, and sizes of hardware tables (TLBs) that are considered."""

    flat: float = 0.15  # largest ratio of a plateau's variation to its step's height, as page walks get slower
    flat_cycles: float = 0.3  # variation in cycles that a plateau may have in addition
    length: float = 1.4  # least ratio of the numbers at a plateau's ends: sizes of two tables differ by more
    apart: float = 0.25  # least height of a step, as a fraction of the cost of the plateau before it
    least_cycles: float = 3.0  # least height of a step in cycles: a miss in no table costs less
    most_single: int = 320  # most entries of a fully associative table; the largest known one has 160
    error: float = 0.02  # relative error of the positions of a sharp step: measured numbers are a few % apart
    most_ways: int = 32  # most ways of a set-associative table
    sure: float = 0.95  # posterior probability from which a number of entries counts as measured


STEPS = StepParams()

Risen = tuple[float, float, float]
"""Position of a step: the numbers of pages (or lines) at which 1/4, 1/2 and 3/4 of its height are reached."""


class Step(NamedTuple):
    """A rise of a cost curve between two plateaus, whose costs are `before` it and `behind` it (cycles). `risen` has
    the numbers of pages (or lines) at which 1/4, 1/2 and 3/4 of the rise are reached."""

    before: float
    behind: float
    risen: Risen


def plateau(numbers: Numbers, cost: Numbers, before: float) -> slice | None:
    """Return the indices of the next plateau above one of cost `before` (cycles), or None: the first range of `numbers`
    (ascending, shape (n,)) whose last number is at least `STEPS.length` times its first, and over which `cost` (cycles,
    shape (n,)) is nearly constant and a step higher than `before`."""
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
    """Return all steps of `cost` (cycles, shape (n,)) over ascending `numbers` of pages (shape (n,)), each between two
    plateaus. The first plateau has cost 0: callers subtract the cost at small numbers from `cost` before."""
    before, found = 0.0, list[Step]()
    while (part := plateau(numbers, cost, before)) is not None:
        behind = float(np.median(cost[part]))
        rise = numbers[: part.stop], cost[: part.stop]
        risen = [_reached(*rise, before + share * (behind - before)) for share in PARTS]
        found.append(Step(before, behind, (risen[0], risen[1], risen[2])))
        before = behind
    return found


def _reached(numbers: Numbers, cost: Numbers, level: float) -> float:
    """Return the number of pages, interpolated in `numbers`, from which on `cost` stays above `level` (cycles)."""
    last = int(np.flatnonzero(cost < level).max(initial=0))
    if last + 1 >= len(numbers) or cost[last] >= level:
        return float(numbers[last])
    share = (level - cost[last]) / (cost[last + 1] - cost[last])
    return float(numbers[last] + share * (numbers[last + 1] - numbers[last]))


def oddness(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the largest odd divisor of each number, shape (n,). Its inverse is the prior weight of a number of
    entries, ways or slices, as powers of two are the commonest."""
    found: NDArray[np.int64] = numbers // (numbers & -numbers)
    return found


def entries_of(risen: Risen, spread: float = 0.0) -> tuple[int, float]:
    """Return the most probable number of entries of a table with a step at `risen`, and its posterior probability.
    Candidates are tables of up to `most_ways` ways and a power of two of sets, or of a single set, with pages that fill
    sets evenly; `oddness` gives their prior weights. `spread` is the relative spread of `risen` over rounds."""
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
