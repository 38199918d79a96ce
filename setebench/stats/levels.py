"""Find the levels of a memory hierarchy by a mixture model of the durations of short chains of dependent loads.

The chains were timed in working sets of growing size. A chain of n loads takes the sum of n latencies, each that of a
component (roughly a level). All working sets share the components' latencies; each has its own weights (the share of
loads that each component serves), which expectation maximisation finds. The first components are the plateaus of long
chains; one is added if it explains some working set clearly better. So a level is found even if it serves no working
set alone, and a slope between two levels counts as their mixture. In the end close components are joined to one level,
as the latency of a shared cache varies, and so is a component that serves loads of working sets which the level before
still serves: those are the level's own loads, delayed by a co-runner.
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
    """Tunables of fitting loads' latencies by a mixture, and of choosing which of its components are cache levels."""

    alike: float = 0.03  # relative standard deviation of a component's latencies: slices lie at several distances
    most_alike: float = 0.15  # largest such deviation of shared levels, where single loads of flushed lines show it
    stray: float = 0.01  # prior weight of readings that fit no component, such as stalls
    bin: float = 0.5  # width of a bin of readings, in standard deviations: finer bins don't change a likelihood
    gain: float = 0.05  # least gain in log-likelihood per chain, in some working set, for which a component is added
    near: float = 1.2  # least ratio of two components' latencies; closer ones explain the same readings
    step: float = 1.12  # ratio of successive latencies that are tried for a further component
    beyond: float = 2.0  # latencies are tried up to so many times the slowest component's
    share: float = 0.3  # initial weight of an added component
    trial: int = 8  # iterations after which a tried component is judged
    turns: int = 30  # iterations of a fit, after which weights have converged
    most: int = 7  # most components: three caches, memory with open and closed rows, and artefacts between these
    private: float = 1.5  # least latency ratio of a level to the one before, for levels 2 and 3; CPUs have larger ones
    shared: float = 1.8  # the same for further levels, whose latency rises by up to a half under co-runners' load
    seen: float = 0.25  # least share of some working set's loads that a level serves
    early: float = 0.35  # a component with more of its largest share in sets of the level before is part of that level
    as_memory: float = 1.6  # least ratio of memory's latency to the slowest cache's; loads of open rows take two thirds


Chains = Mapping[int, Numbers]
"""Core cycles of one working set's chains, shape (chains,), by number of loads in a chain; timing overhead removed."""


class Clock(NamedTuple):
    """Errors of a reading, in cycles: the clock's `step`, the variance of the timing overhead (`jitter2`, cycles²), and
    the extra time of a lone load that misses level 1 over a load within a chain (`late`)."""

    step: float
    jitter2: float
    late: float = 0.0


class Mixture(NamedTuple):
    """A fitted mixture of components (loads of one latency, roughly those of a cache level). `cycles` are the
    components' latencies, shape (components,). `weights` are shares of loads that each serves, shape (sizes + 1,
    components), a row per working set and a last row for flushed lines. `likelihood` is each row's log-likelihood per
    chain."""

    cycles: Numbers
    weights: Numbers
    likelihood: Numbers


class Level(NamedTuple):
    """A cache level: neighbouring components of a mixture of latencies, in cycles. `cycles` is its mean latency; its
    components lie between `low` and `high`. A latency between `begins` and `stops` is closer to it than to any other
    level. `weights` has the share of each working set's loads that the level serves, `nearer` the share that all levels
    before it serve together; both have shape (sizes,)."""

    cycles: float
    low: float
    high: float
    begins: float
    stops: float
    weights: Numbers
    nearer: Numbers


def quantised_variance(value: float, step: float) -> float:
    """Return the variance of readings of a duration `value` on a dithered clock, whose readings are the multiples of
    `step` right below and above it (in the unit of the arguments, squared)."""
    above = value / step % 1.0
    return above * (1.0 - above) * step**2


def density(away: Numbers, jitter2: Numbers, step: float) -> Numbers:
    """Return the probability density of readings at a distance `away` (cycles) from the true duration: the triangle of
    half width `step` that a dithered clock makes, convolved with normal jitter of variance `jitter2`. Where the step is
    at most two standard deviations of the jitter, a normal density is as good."""
    sigma = np.sqrt(jitter2)
    z, width = away / sigma, np.broadcast_to(step / sigma, away.shape)
    variance = 1 + width**2 / 6
    found: Numbers = np.exp(-(z**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
    coarse = width > 2
    z, width = z[coarse], width[coarse]
    found[coarse] = np.maximum(_soft_ramp(z + width) - 2 * _soft_ramp(z) + _soft_ramp(z - width), 0.0) / width**2
    return found / sigma


def _soft_ramp(z: Numbers) -> Numbers:
    """Return the ramp max(z, 0) convolved with the standard normal distribution, a part of `density`'s triangle."""
    return np.asarray(z * special.ndtr(z) + np.exp(-z * z / 2) / np.sqrt(2 * np.pi))


class _Group(NamedTuple):
    """Histogram of the chains of one length: the bins' mean `cycles`, working set (row `source`, ascending) and number
    of chains (`times`), each of shape (bins,)."""

    cycles: Numbers
    source: Whole
    times: Whole


class _Readings:
    """Histograms of all chains, to which mixtures are fitted. The relative standard deviation of a component's latency
    is `params.alike` up to `private_cycles`, and `far` for slower ones."""

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
        """Return the standard deviation of single latencies within a component of mean `cycles`, in cycles."""
        return np.asarray(np.where(cycles > self.private_cycles, self.far, self.params.alike) * cycles)

    def _binned(self, sources: Sequence[Chains], length: int) -> _Group:
        """Return the histogram of all chains of `length` loads, with bins of `params.bin` standard deviations."""
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
        """Return the mixture after `turns` iterations of expectation maximisation from `begin`. Weights are
        fitted; of the latencies only those that the mask `free`, shape (components,), selects."""
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
        """Return by length of chains, for all ways to assign a chain's loads to components: loads of each component,
        shape (ways, components); number of permutations, and extra cycles of a lone miss, shapes (ways,); the density
        of each bin, shape (bins, ways); and the variance of a reading, shape (ways,)."""
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
    """Return the mixture, by ascending latency, that best explains the chains of `sources`: working sets of ascending
    size, then flushed lines. `clock` has the errors of readings. The fit starts from the latencies `begin` (cycles;
    level 1's is among them), and adds components as long as the likelihood gains enough."""
    cycles = np.array(sorted(begin))
    private = float(params.near * cycles[1]) if len(cycles) > 2 else np.inf
    readings = _Readings(sources, clock, private, params)
    even = np.full((len(sources), len(cycles)), 1 / len(cycles))
    found = readings.fit(Mixture(cycles, even, np.zeros(len(sources))), params.turns)
    while len(found.cycles) < params.most and (more := _added(readings, found)) is not None:
        found = more
    # Long chains gave exact latencies of private caches; further out they train prefetchers, so those are fitted here.
    free = (found.cycles > private) | ~np.isin(found.cycles, cycles)
    found = readings.fit(found, params.turns, free)
    order = np.argsort(found.cycles)
    return Mixture(found.cycles[order], found.weights[:, order], found.likelihood)


def _added(readings: _Readings, found: Mixture) -> Mixture | None:
    """Return the mixture with one more component, which gains most in some set; None if none gains `params.gain`."""
    params = readings.params

    def worth(tried: Mixture) -> float:
        gain = tried.likelihood - found.likelihood
        return float(np.where(gain >= params.gain, gain * tried.weights[:, -1], 0.0).max())

    def with_one(cycles: float) -> Mixture:
        weights = np.pad((1 - params.share) * found.weights, ((0, 0), (0, 1)), constant_values=params.share)
        return readings.fit(Mixture(np.append(found.cycles, cycles), weights, found.likelihood), params.trial)

    tried = [with_one(each) for each in _trial_latencies(readings, found.cycles)]
    best = max(tried, key=worth, default=found)
    if not tried or not worth(best):
        return None
    finer = best.cycles[-1] * params.step ** np.linspace(-0.5, 0.5, 5)
    total = readings.total
    best = max(map(with_one, finer.tolist()), key=lambda each: float(each.likelihood @ total))
    return readings.fit(best, params.turns)


def _trial_latencies(readings: _Readings, cycles: Numbers) -> list[float]:
    """Return latencies (cycles) to try for a further component: a geometric series from the fastest component to beyond
    the slowest, without those too near to an existing component in `cycles`."""
    params = readings.params
    steps = int(np.log(params.beyond * cycles.max() / cycles.min()) / np.log(params.step))
    every = [float(cycles.min() * params.step**number) for number in range(1, steps + 1)]
    far = params.near + 2 * (readings.far - params.alike)

    def apart(one: float, other: float) -> bool:
        return max(one / other, other / one) >= (far if min(one, other) > readings.private_cycles else params.near)

    return [each for each in every if all(apart(each, other) for other in cycles)]


def levels(found: Mixture, params: LevelsParams) -> list[Level]:
    """Return the cache levels of a fitted mixture, nearest first. Memory's latency is that of the component with the
    largest product of weight and latency for flushed lines: prefetching makes some of these lines faster, and refreshes
    of DRAM make a few slower. Components slower than memory's latency divided by `as_memory` are memory."""
    raw, flushed = found.weights[:-1], found.weights[-1]
    weights = _monotone(raw)
    memory = params.as_memory * found.cycles > found.cycles[(flushed * found.cycles).argmax()]
    memory[0] = False
    groups: list[list[int]] = []
    for number in np.flatnonzero(~memory).tolist():
        ratio = params.private if len(groups) < 3 else params.shared
        own = [each for each in groups[-1] if weights[:, each].max() >= params.seen] if groups else []
        near = own and found.cycles[number] < ratio * found.cycles[own[-1]]
        if near or (groups and _share_too_early(raw, number, groups[-1]) > params.early * weights[:, number].max()):
            groups[-1].append(number)
        elif weights[:, number].max() >= params.seen:
            groups.append([number])
    return [_level(found.cycles, weights, group) for group in groups]


def _share_too_early(weights: Numbers, number: int, before: list[int]) -> float:
    """Return the mean share that component `number` serves of those working sets that still belong to the level
    before it (whose components are `before`): sets of which that level serves at least half of its largest share, and
    which are smaller than the set that the component serves most of. The result is 0 if there are no such sets."""
    smaller = slice(int(weights[:, number].argmax()))
    nearer = weights[:, before].sum(axis=1)
    own = weights[smaller, number][nearer[smaller] >= max(nearer.max() / 2, EPSILON)]
    return float(own.mean()) if len(own) else 0.0


def _level(cycles: Numbers, weights: Numbers, group: list[int]) -> Level:
    """Return the level that the components numbered in `group` make up, of a mixture of `cycles` and `weights`."""
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


def _monotone(weights: Numbers) -> Numbers:
    """Return weights, shape (sizes, components), made monotone: the share served beyond any component never shrinks
    with the size of the working set. A larger share in a smaller set is due to disturbance, which evicts lines."""
    beyond = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1]
    beyond = np.minimum.accumulate(beyond[::-1], axis=0)[::-1]
    return np.asarray(-np.diff(beyond, axis=1, append=0.0))
