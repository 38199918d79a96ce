"""Which levels a memory hierarchy has, from short chains of loads over working sets of growing size.

A chain of n loads takes n latencies, of levels that serve them in unknown parts, read on a clock with steps. All sizes
share the latencies and each has weights of its own, which expectation maximisation finds: for given latencies there is
one best answer. Latencies begin as the plateaus of long chains; a further one is added where it explains some size
clearly better than those that are there, so that a level counts that is nowhere alone, and a slope between two levels
is a mixture and no third one. Latencies that lie closer to each other than levels do are one level: a shared cache that
others use costs now this, now that. So are those that come as soon as a level does: its loads that a co-runner delays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from math import factorial, prod
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import special

from setebench.stats.estimate import EPSILON

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]


class LevelsParams(msgspec.Struct, frozen=True, kw_only=True):
    """How components are found, and which of them are levels."""

    alike: float = 0.03  # standard deviation of loads from one level, relative: slices lie at several distances
    most_alike: float = 0.15  # most of it in what others use, where flushed lines show how much loads differ
    stray: float = 0.01  # weight of readings that fit nothing (a stall), beforehand
    bin: float = 0.5  # width of a bin of readings, in standard deviations: no density tells these apart
    gain: float = 0.05  # logarithm of the likelihood per chain, at some size, from which a component is added
    near: float = 1.2  # least ratio of two components; closer ones explain the same readings
    step: float = 1.12  # ratio of the latencies that are tried
    beyond: float = 2.0  # times the slowest known one up to which they are
    share: float = 0.3  # weight with which a component begins
    trial: int = 8  # turns that show whether a component explains anything
    turns: int = 30  # turns until weights hardly move
    most: int = 7  # components: seven are three caches and memory in two rows, with one artefact between each
    private: float = 1.5  # least ratio of a level to the one before, of the first three; sold ones differ by more
    shared: float = 1.8  # the same further out, where what others do costs up to half as much again
    seen: float = 0.25  # part of some working set that a level serves at least
    early: float = 0.35  # of that, most where the level before serves: more is that level's loads, which others delay
    as_memory: float = 1.6  # ratio of memory to what is none of the caches: open rows answer in two thirds of the time


Chains = Mapping[int, Numbers]
"""Core cycles of chains of one working set, without what a bracket adds, by the number of their loads."""


class Clock(NamedTuple):
    """What blurs a reading: the clock's `step` and the variance of a bracket; and what a single load that misses the
    first cache takes longer than one of a chain. All in cycles."""

    step: float
    jitter2: float
    late: float = 0.0


class Mixture(NamedTuple):
    """`cycles` of the components, shape (components,), the part that each serves of every working set, the flushed
    lines last: shape (sizes + 1, components), and the logarithm of the likelihood per chain of each set."""

    cycles: Numbers
    weights: Numbers
    likelihood: Numbers


class Level(NamedTuple):
    """`cycles` of a load, within `low` and `high` where several components are one level; what lies between `begins`
    and `stops` is nearer to it than to another one; the part of each working set that the level serves, shape (sizes,),
    and that nearer levels do."""

    cycles: float
    low: float
    high: float
    begins: float
    stops: float
    weights: Numbers
    nearer: Numbers


def quantised_variance(value: float, step: float) -> float:
    """Of the readings of one duration on a dithered clock: it lies between two of them, and is read as either."""
    above = value / step % 1.0
    return above * (1.0 - above) * step**2


def density(away: Numbers, jitter2: Numbers, step: float) -> Numbers:
    """Of readings so far from a duration: a triangle, as a dithered clock with steps makes it, blurred by a normal
    jitter; no wider than four standard deviations of that it is as good as normal itself."""
    sigma = np.sqrt(jitter2)
    z, width = away / sigma, np.broadcast_to(step / sigma, away.shape)
    variance = 1 + width**2 / 6
    found: Numbers = np.exp(-(z**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
    coarse = width > 2
    z, width = z[coarse], width[coarse]
    found[coarse] = np.maximum(_kink(z + width) - 2 * _kink(z) + _kink(z - width), 0.0) / width**2
    return found / sigma


def _kink(z: Numbers) -> Numbers:
    """A rise that begins at 0, blurred by a normal distribution."""
    return np.asarray(z * special.ndtr(z) + np.exp(-z * z / 2) / np.sqrt(2 * np.pi))


class _Group(NamedTuple):
    """Bins of chains of one length: mean `cycles`, working set (`source`, ascending) and how many `times`, each of
    shape (bins,)."""

    cycles: Numbers
    source: Whole
    times: Whole


class _Readings:
    """All chains. Loads differ by `alike` up to `private_cycles`, beyond by `far`."""

    def __init__(self, sources: Sequence[Chains], clock: Clock, private_cycles: float, params: LevelsParams) -> None:
        self.clock, self.params, self.private_cycles = clock, params, private_cycles
        singles = sources[-1][1]
        low, middle, high = np.quantile(singles, (0.16, 0.5, 0.84))
        blurred = clock.jitter2 + clock.step**2 / 4
        spread = max(((high - low) / 2) ** 2 - blurred, 0.0) ** 0.5 / max(middle, EPSILON)
        self.far = float(np.clip(spread, params.alike, params.most_alike))
        self.sources = len(sources)
        self.groups = {length: self._binned(sources, length) for length in sources[0]}
        each = self.groups.values()
        self.total = sum(np.bincount(group.source, group.times, self.sources) for group in each)
        self.stray = params.stray / (max(group.cycles.max() for group in each) - min(g.cycles.min() for g in each))

    def alike(self, cycles: Numbers) -> Numbers:
        """Standard deviation of loads that take so long."""
        return np.asarray(np.where(cycles > self.private_cycles, self.far, self.params.alike) * cycles)

    def _binned(self, sources: Sequence[Chains], length: int) -> _Group:
        found = []
        for number, chains in enumerate(sources):
            ordered = np.sort(chains[length])
            blur2 = self.clock.jitter2 + self.clock.step**2 / 6
            width = np.sqrt(blur2 + length * self.alike(np.maximum(ordered, 0.0) / length) ** 2)
            bins = np.floor(np.cumsum(np.diff(ordered, prepend=ordered[:1]) / (self.params.bin * width)))
            _, where, times = np.unique(bins, return_inverse=True, return_counts=True)
            found.append((np.bincount(where, ordered) / times, np.full(len(times), number), times))
        return _Group(*(np.concatenate(each) for each in zip(*found, strict=True)))

    def fit(self, begin: Mixture, turns: int, free: NDArray[np.bool_] | None = None) -> Mixture:
        """Weights after so many turns from those of `begin`; latencies stay but for those that are `free`."""
        cycles, weights = begin.cycles, begin.weights
        ways = self._ways(cycles)
        for _ in range(turns):
            logs, served = np.log(np.maximum(weights, EPSILON)), np.zeros(weights.shape)
            likelihood, matrix, right = np.zeros(self.sources), np.eye(len(cycles)) * EPSILON, EPSILON * cycles
            for length, (taken, orders, late, dense, variance) in ways.items():
                group = self.groups[length]
                begins = np.searchsorted(group.source, np.arange(self.sources))
                parts = dense * (orders * np.exp(logs @ taken.T))[group.source]
                total = parts.sum(axis=1) + self.stray
                likelihood += np.add.reduceat(group.times * np.log(total), begins)
                parts *= (group.times / total)[:, None]
                served += np.add.reduceat(parts, begins) @ taken
                matrix += taken.T * (parts.sum(axis=0) / variance) @ taken
                right += taken.T @ ((group.cycles @ parts - parts.sum(axis=0) * late) / variance)
            weights = served / np.maximum(served.sum(axis=1, keepdims=True), EPSILON)
            if free is not None and free.any():
                right -= matrix @ np.where(free, 0.0, cycles)
                cycles = cycles.copy()
                cycles[free] = np.linalg.solve(matrix[np.ix_(free, free)], right[free])
                ways = self._ways(cycles)
        return Mixture(cycles, weights, likelihood / self.total)

    def _ways(self, cycles: Numbers) -> dict[int, tuple[Numbers, Numbers, Numbers, Numbers, Numbers]]:
        """By the length of chains: in which ways their loads fall on components, how many each has, shape (ways,
        components), in how many orders, what they take longer, the density of each bin, shape (bins, ways), and its
        variance."""
        found = {}
        for length, group in self.groups.items():
            every = combinations_with_replacement(range(len(cycles)), length)
            taken = np.array([np.bincount(each, minlength=len(cycles)) for each in every], dtype=np.float64)
            orders = np.array([factorial(length) / prod(map(factorial, each)) for each in taken.astype(int).tolist()])
            jitter2 = self.clock.jitter2 + taken @ self.alike(cycles) ** 2
            late = self.clock.late * (taken[:, 0] == 0) * (length == 1)
            dense = density(group.cycles[:, None] - taken @ cycles - late, jitter2, self.clock.step)
            found[length] = taken, orders, late, dense, jitter2 + self.clock.step**2 / 6
        return found


def mixture(sources: Sequence[Chains], begin: Sequence[float], clock: Clock, params: LevelsParams) -> Mixture:
    """Fit a mixture of latencies to the chains of working sets, the smallest first, and of flushed lines, the last.
    `begin` are likely latencies, the first cache's among them; more are added while that explains more; they ascend."""
    cycles = np.array(sorted(begin))
    private = float(params.near * cycles[1]) if len(cycles) > 2 else np.inf
    readings = _Readings(sources, clock, private, params)
    even = np.full((len(sources), len(cycles)), 1 / len(cycles))
    found = readings.fit(Mixture(cycles, even, np.zeros(len(sources))), params.turns)
    while len(found.cycles) < params.most and (more := _added(readings, found)) is not None:
        found = more
    # long chains state the latency of a cache of the core's own; further out they bring lines nearer
    free = (found.cycles > private) | ~np.isin(found.cycles, cycles)
    found = readings.fit(found, params.turns, free)
    order = np.argsort(found.cycles)
    return Mixture(found.cycles[order], found.weights[:, order], found.likelihood)


def _added(readings: _Readings, found: Mixture) -> Mixture | None:
    """With the further component that explains most of some size, by a clear gain; None where there is none."""
    params = readings.params

    def worth(tried: Mixture) -> float:
        gain = tried.likelihood - found.likelihood
        return float(np.where(gain >= params.gain, gain * tried.weights[:, -1], 0.0).max())

    def with_one(cycles: float) -> Mixture:
        weights = np.pad((1 - params.share) * found.weights, ((0, 0), (0, 1)), constant_values=params.share)
        return readings.fit(Mixture(np.append(found.cycles, cycles), weights, found.likelihood), params.trial)

    tried = [with_one(each) for each in _untried(readings, found.cycles)]
    best = max(tried, key=worth, default=found)
    if not tried or not worth(best):
        return None
    finer = best.cycles[-1] * params.step ** np.linspace(-0.5, 0.5, 5)
    total = readings.total
    best = max(map(with_one, finer.tolist()), key=lambda each: float(each.likelihood @ total))
    return readings.fit(best, params.turns)


def _untried(readings: _Readings, cycles: Numbers) -> list[float]:
    """Latencies from the first component to beyond the last, none of them near one that is there."""
    params = readings.params
    steps = int(np.log(params.beyond * cycles.max() / cycles.min()) / np.log(params.step))
    every = [float(cycles.min() * params.step**number) for number in range(1, steps + 1)]
    far = params.near + 2 * (readings.far - params.alike)

    def apart(one: float, other: float) -> bool:
        return max(one / other, other / one) >= (far if min(one, other) > readings.private_cycles else params.near)

    return [each for each in every if all(apart(each, other) for other in cycles)]


def levels(found: Mixture, params: LevelsParams) -> list[Level]:
    """The caches, nearest first. Memory is the component that flushed lines spend most time with, as some of them may
    be prefetched and a few are hit by refreshes, with what is hardly nearer than that, and all beyond."""
    raw, flushed = found.weights[:-1], found.weights[-1]
    weights = _rising(raw)
    memory = params.as_memory * found.cycles > found.cycles[(flushed * found.cycles).argmax()]
    memory[0] = False
    groups: list[list[int]] = []
    for number in np.flatnonzero(~memory).tolist():
        ratio = params.private if len(groups) < 3 else params.shared
        own = [each for each in groups[-1] if weights[:, each].max() >= params.seen] if groups else []
        near = own and found.cycles[number] < ratio * found.cycles[own[-1]]
        if near or (groups and _early(raw, number, groups[-1]) > params.early * weights[:, number].max()):
            groups[-1].append(number)
        elif weights[:, number].max() >= params.seen:
            groups.append([number])
    return [_level(found.cycles, weights, group) for group in groups]


def _early(weights: Numbers, number: int, before: list[int]) -> float:
    """Part that a component serves, on average, of the working sets of which the level before serves half as much as of
    any; only of smaller ones than that which the component serves most of. 0 where there is none."""
    smaller = slice(int(weights[:, number].argmax()))
    nearer = weights[:, before].sum(axis=1)
    own = weights[smaller, number][nearer[smaller] >= max(nearer.max() / 2, EPSILON)]
    return float(own.mean()) if len(own) else 0.0


def _level(cycles: Numbers, weights: Numbers, group: list[int]) -> Level:
    own, mass = cycles[group], weights[:, group].sum(axis=0)
    ends = np.sqrt(np.maximum(cycles[:-1] * cycles[1:], 0.0))
    return Level(
        cycles=float(own @ mass / mass.sum()),
        low=float(own.min()),
        high=float(own.max()),
        begins=float(ends[group[0] - 1]) if group[0] else 0.0,
        stops=float(ends[group[-1]]) if group[-1] < len(ends) else np.inf,
        weights=weights[:, group].sum(axis=1),
        nearer=weights[:, : group[0]].sum(axis=1),
    )


def _rising(weights: Numbers) -> Numbers:
    """Weights such that further components never serve less of a larger working set, as what disturbs one evicts
    lines."""
    beyond = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1]
    beyond = np.minimum.accumulate(beyond[::-1], axis=0)[::-1]
    return np.asarray(-np.diff(beyond, axis=1, append=0.0))
