"""Find the plateaus of a curve of cost (cycles a load) over working-set size; each is the latency of a cache level.

On a plateau neighbouring sizes cost about the same in independent rounds. Between two plateaus lies a rise, which isn't
used, as replacement and page placement shape it. Dynamic programming finds the plateaus that explain most sizes.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.stats.rounds import LATENCY

Numbers = NDArray[np.float64]


class PlateausParams(msgspec.Struct, frozen=True, kw_only=True):
    """Tunables of the search for plateaus."""

    alike: float = 0.03  # relative standard deviation of costs on a plateau; more joins levels, less loses noisy ones
    unlike: float = 4.0  # penalty, in squared deviations, of each size on a rise, and of each plateau
    octaves: float = 0.45  # least width of a plateau: two sizes half an octave apart
    apart: float = 1.25  # least ratio of the costs of successive plateaus; no CPU has levels closer than that
    near: float = 0.08  # largest relative difference of a round's cost from the plateau's that counts as agreement
    agree: float = 0.4  # least fraction of rounds and sizes that agree: a dip in one round is not a plateau
    disturbed: float = 1.03  # a size that costs more than so many times a larger size was disturbed, and is ignored
    disturbed_cycles: float = 0.2  # tolerance in cycles, added to that for noise where costs are a few cycles


PARAMS = PlateausParams()


class Plateau(NamedTuple):
    """A plateau: the sizes with indices `first` to `last` (inclusive) cost about `cycles` a load."""

    first: int
    last: int
    cycles: float


def plateaus(sizes: Numbers, cycles: Numbers) -> list[Plateau]:
    """Return the plateaus of `cycles` (the cost of a load, shape (rounds, sizes), NaN where a round lacks a size) over
    ascending `sizes` (bytes, shape (sizes,)): the series of ascending plateaus with the least sum of misfits and of a
    fixed penalty for each plateau and for each size outside all plateaus."""
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
    """Return all ranges of sizes that could be a plateau, ordered by their last size, each with its misfit (the sum of
    squared deviations): wide enough, of similar cost, and with enough rounds that agree. `octaves` are the sizes in
    binary logarithms, shape (sizes,); `logs` are natural logarithms of costs, shape (rounds, sizes)."""
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
