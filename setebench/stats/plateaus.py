"""Plateaus of a cost over growing size: levels as anybody sees them in a curve, whatever lies between them.

On a plateau neighbouring sizes of independent rounds cost alike; between two of them lies a rise whose shape depends
on replacement and on where pages lie, so nothing is read from it. Dynamic programming finds the plateaus that explain
the most sizes.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.stats.rounds import LATENCY

Numbers = NDArray[np.float64]


class PlateausParams(msgspec.Struct, frozen=True, kw_only=True):
    """What a plateau is."""

    alike: float = 0.03  # standard deviation of sizes on a plateau, relative; more joins levels, less loses noisy ones
    unlike: float = 4.0  # squared deviations from which a size rather lies on a rise; also what a plateau must gain
    octaves: float = 0.45  # least width: two sizes half an octave apart
    apart: float = 1.25  # least ratio of two levels; closer ones are sold nowhere
    near: float = 0.08  # a round agrees with a size within this, relative
    agree: float = 0.4  # part of rounds and sizes that must agree: a dip of one round is no plateau
    disturbed: float = 1.03  # a size that costs so much more than a larger one was disturbed, and is left out
    disturbed_cycles: float = 0.2  # as much is left to noise where costs are a few cycles


PARAMS = PlateausParams()


class Plateau(NamedTuple):
    """Sizes number `first` to `last` (of all that were given) cost about `cycles`."""

    first: int
    last: int
    cycles: float


def plateaus(sizes: Numbers, cycles: Numbers) -> list[Plateau]:
    """All plateaus of costs of shape (rounds, sizes), NaN where a round has none, over ascending sizes (n,): those that
    ascend and leave the least to rises."""
    known = np.flatnonzero(np.isfinite(cycles).any(axis=0))
    low = np.nanquantile(cycles[:, known], LATENCY, axis=0)
    ahead = np.minimum.accumulate(low[::-1])[::-1]
    kept = low <= PARAMS.disturbed * ahead + PARAMS.disturbed_cycles
    numbers = known[kept]
    candidates = _candidates(np.log2(sizes[numbers]), np.log(np.maximum(cycles[:, numbers], 0.1)))
    best: list[tuple[float, list[Plateau]]] = []
    for one, misfit in candidates:
        before = [
            (cost + PARAMS.unlike * (one.first - chain[-1].last - 1), chain)
            for cost, chain in best
            if chain[-1].last < one.first and one.cycles >= PARAMS.apart * chain[-1].cycles
        ]
        cost, chain = min([(PARAMS.unlike * one.first, []), *before], key=lambda each: each[0])
        best.append((cost + misfit + PARAMS.unlike, [*chain, one]))
    ends = ((cost + PARAMS.unlike * (len(numbers) - 1 - chain[-1].last), chain) for cost, chain in best)
    found = min(ends, key=lambda each: each[0], default=(0.0, []))[1]
    return [Plateau(int(numbers[first]), int(numbers[last]), cost) for first, last, cost in found]


def _candidates(octaves: Numbers, logs: Numbers) -> list[tuple[Plateau, float]]:
    """All runs of sizes that are wide enough, alike, and seen by enough rounds, with their misfits; by their last size.
    `logs` are costs of shape (rounds, sizes)."""
    low, found = np.nanquantile(logs, LATENCY, axis=0), []
    for last in range(len(octaves)):
        for first in range(last):
            if octaves[last] - octaves[first] < PARAMS.octaves:
                continue
            log = float(np.median(low[first : last + 1]))
            misfits = ((low[first : last + 1] - log) / PARAMS.alike) ** 2
            near = np.abs(logs[:, first : last + 1] - log) < PARAMS.near
            if misfits.mean() <= PARAMS.unlike and near.mean() >= PARAMS.agree and near[:, (0, -1)].any(axis=0).all():
                found.append((Plateau(first, last, float(np.exp(log))), float(misfits.sum())))
    return found
