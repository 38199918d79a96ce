"""Which levels a memory hierarchy has, from chains of loads over working sets of growing size: a mixture along sizes.

All sizes share the latencies of the levels; each has weights of its own. An interval of n loads takes an overhead plus
n latencies, multinomially many of each level, read on a clock with steps (`stats.served`, where the density is).
Expectation maximisation finds latencies and weights together. Components are added one at a time, where one explains a
size best (greedy mixture learning: Li and Barron 1999, NIPS 12; Verbeek, Vlassis and Kröse 2003, Neural Computation
15:469), until none explains any size clearly better than those that are there. So a level counts that is nowhere alone,
and a slope between two levels is a mixture and no third one.

What serves flushed lines as often as any working set is memory, however many components that takes: rows that were
open and others.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.stats.estimate import EPSILON
from setebench.stats.served import Expected, Intervals, LoadsParams, Readings, extrapolated

Numbers = NDArray[np.float64]


class LevelsParams(LoadsParams, frozen=True, kw_only=True):
    """`gain`: from how much of the logarithm of the likelihood per interval on, at some size, a component is added.
    On eleven simulated machines 16 levels explained their own lines better than others did by 0.3 to 4.9, and what was
    a mixture of two by less than 0.04. `apart`: two levels differ by this factor at least; no published hierarchy has
    closer ones.

    Expectation maximisation ends in an optimum that need not be the best: densities are so sharp on a fine clock that
    latencies that are off by a percent leave all readings of a size to what fits nothing, and stay there. So it is done
    as often as `blurred` has numbers, with so many turns at each of the `blurs`, and the likelier end counts. On 160
    simulated machines the levels were right on 152 with one turn, on 152 others with three, and on 155 with the
    likelier of both. It extrapolates along its path, by `leap` of latencies at most, until these move by less than
    `still` of themselves, `leaps` times at most. A further component begins at the best of latencies that are `begins`
    apart, up to `beyond` times the slowest known one, with a weight of `share`, and is tried on one size for `trial`
    turns. There are `most` components at most. In the end each begins once more at `elsewhere` of itself: one that
    settled as a mixture of a level with the next one, with nearer lines to make up for it, takes up to twice as long as
    the level.

    A level is a component that serves `seen` of some working set, be it lines that were prefetched into it, as flushed
    ones are too. What serves no more than that, but `doubtful` more of a working set than of flushed lines, may be one.
    Memory are the slowest components that serve flushed lines `as_often` as any working set, relatively, unless slower
    ones serve flushed lines too, and nothing where they serve most: so does a cache into which flushed lines are
    prefetched. One that serves most where a nearer one serves more than `with_nearer` of its own most goes with that.
    Two that divide what they serve in proportions that differ by less than `parts` between sizes are
    one: 0 of parts of one level, 1 of two levels, of which the nearer one serves all of some sizes and nothing of
    others; on 48 simulated machines 0.35 finds all levels of one more than 0.5 does, and of none fewer. Where
    the rarer serves more than `slices` of both, they are slices at several distances: the level takes their mean."""

    gain: float = 0.05
    apart: float = 1.2
    jitter: float = 0.5
    blurred: tuple[int, ...] = (1, 3)
    leaps: int = 40
    leap: float = 0.2
    still: float = 1e-4
    trial: int = 8
    begins: float = 1.3
    beyond: float = 2.0
    share: float = 0.3
    elsewhere: float = 0.6
    most: int = 7
    seen: float = 0.25
    doubtful: float = 0.1
    as_often: float = 0.5
    with_nearer: float = 0.8
    parts: float = 0.35
    slices: float = 0.25


class Mixture(msgspec.Struct, frozen=True, kw_only=True):
    """`cycles` of the components, ascending, shape (components,); `weights`, shape (sizes, components); and the part of
    each size's intervals that fits none of them, `unexplained`."""

    cycles: Numbers
    weights: Numbers
    unexplained: Numbers


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals of one working set, and what a bracket takes, ticks."""

    intervals: Intervals
    overhead: float


def mean_cycles(source: Source) -> float:
    """Of a load, whatever served it."""
    one = source.intervals
    longer = one.ticks - source.overhead
    return float(longer.sum() / one.count.sum()) * one.cycles_per_tick


def mixture(sources: Sequence[Source], flushed: Source, params: LevelsParams) -> Mixture:
    """Of working sets, the smallest first, and of flushed lines, whose weights are the last row."""
    ends = [_State([*sources, flushed], params, turns).fitted() for turns in params.blurred]
    state = max(ends, key=lambda end: float(end.likelihood.sum()))
    state.merge()
    return Mixture(
        cycles=state.cycles,
        weights=state.weights,
        unexplained=state.expect(state.cycles[None, :], state.weights).stray,
    )


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """`cycles` of a load, the share of each working set that the level served (shape (sizes,)) and that nearer levels
    did."""

    cycles: float
    weights: Numbers
    nearer: Numbers

    def best(self, alike: float) -> NDArray[np.int64]:
        """Numbers of the sizes that the level serves as much of as of any, but for `alike`."""
        return np.flatnonzero(self.weights >= self.weights.max() - alike)


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The caches, nearest first; what memory takes; and the cycles of the nearest component that serves too little for
    a level, infinite where there is none: one may hide there."""

    caches: tuple[Level, ...]
    memory: float
    hidden: float


def levels(found: Mixture, params: LevelsParams) -> Found:
    """Which components are levels. One that comes and goes with a nearer one is part of that: what conflicts and
    prefetches under way make of it, or slices of a cache that lie at several distances."""
    found = _as_one(found, params)
    weights, away = _rising(found.weights[:-1]), found.weights[-1]
    peak = weights.max(axis=0)
    slower = _slower(weights)[weights.argmax(axis=0), np.arange(len(away))]
    memory = (away >= params.as_often * peak) & ((slower >= params.doubtful) | (_slower(away) < params.doubtful))
    memory[0], memory[-1] = False, True
    memory = np.logical_and.accumulate(memory[::-1])[::-1]  # what answers before a cache is no memory
    caches: list[Level] = []
    hidden = np.inf
    for number in np.flatnonzero(~memory):
        best = int(weights[:, number].argmax())
        nearer = weights[:, :number]
        if caches and np.any(nearer[best] > np.maximum(params.with_nearer * nearer.max(axis=0), weights[best, number])):
            continue
        if peak[number] >= params.seen:
            caches.append(
                Level(cycles=float(found.cycles[number]), weights=weights[:, number], nearer=nearer.sum(axis=1))
            )
        elif peak[number] - away[number] >= params.doubtful:
            hidden = min(hidden, float(found.cycles[number]))
    return Found(
        caches=tuple(caches), memory=float(away[memory] @ found.cycles[memory] / away[memory].sum()), hidden=hidden
    )


def _slower(weights: Numbers) -> Numbers:
    """What components behind each one serve, components along the last axis."""
    found: Numbers = weights[..., ::-1].cumsum(axis=-1)[..., ::-1] - weights
    return found


def _as_one(found: Mixture, params: LevelsParams) -> Mixture:
    """With components that share whatever both serve in about the same proportion, at all sizes, become one, which
    takes what the more frequent one does: of two levels the nearer one serves nearly all of some sizes and hardly any
    of larger ones."""
    spans = [_span(found.weights[:, number : number + 2], params) for number in range(len(found.cycles) - 1)]
    number = int(np.argmin(spans))
    if spans[number] >= params.parts:
        return found
    mass = found.weights[:-1].sum(axis=0)[number : number + 2]
    rarer = number + int(np.argmin(mass))
    cycles, weights = np.delete(found.cycles, rarer), np.delete(found.weights, number + 1, axis=1)
    weights[:, number] += found.weights[:, number + 1]
    if mass.min() >= params.slices * mass.sum():
        cycles[number] = float(mass @ found.cycles[number : number + 2] / mass.sum())
    return _as_one(msgspec.structs.replace(found, cycles=cycles, weights=weights), params)


def _span(pair: Numbers, params: LevelsParams) -> float:
    """By how much the further one's part of what two components serve grows from smaller sizes to larger ones, of those
    that they often serve; medians, as one size may have been disturbed. 1 where one is memory's, or there are hardly
    any."""
    both = pair[:-1].sum(axis=1)
    often = both >= max(params.doubtful, params.seen * float(both.max()))
    parts = pair[:-1][often, 1] / both[often]
    if len(parts) < 3 or pair[-1].max() >= params.seen / 2:
        return 1.0
    return max(float(np.median(parts[at:]) - np.median(parts[:at])) for at in range(1, len(parts)))


def _rising(weights: Numbers) -> Numbers:
    """Weights such that further levels never serve less of a larger working set, as what disturbs one evicts lines."""
    beyond = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1]
    beyond = np.minimum.accumulate(beyond[::-1], axis=0)[::-1]
    return -np.diff(beyond, axis=1, append=0.0)


class _State:
    """Latencies of the components and their weights at each size."""

    def __init__(self, sources: Sequence[Source], params: LevelsParams, blurred: int) -> None:
        """With the first and the last one's latency, and weights by where the others' means lie between; `blurred` as
        in `LevelsParams`."""
        self.params, self.overhead = params, np.array([each.overhead for each in sources])
        self._blurs = np.repeat(params.blurs, blurred)
        self.readings = Readings([each.intervals for each in sources], params)
        means = np.array([mean_cycles(each) for each in sources])
        self.cycles = means[[0, -1]]
        away = np.clip((means - means[0]) / max(means[-1] - means[0], EPSILON), params.stray, 1 - params.stray)
        self.weights = np.stack([1 - away, away], axis=1)
        self.likelihood = np.zeros(len(sources))

    def fitted(self) -> _State:
        """With as many components as explain some size clearly better."""
        self.settle()
        while len(self.cycles) < self.params.most and (cycles := self.another()):
            self.add(cycles)
            self.settle()
        self.prune()
        self.begin_again()
        self.prune()  # of what now stands elsewhere
        return self

    def expect(self, cycles: Numbers, weights: Numbers, blur: float = 0.0) -> Expected:
        """By latencies of shape (sizes or 1, components) and such weights."""
        return self.readings.expect(cycles, weights, self.overhead, blur)

    def add(self, cycles: float) -> None:
        """A further component, which takes about so many cycles, everywhere as likely as the others."""
        self.cycles = np.append(self.cycles, cycles)
        share = 1.0 / len(self.cycles)
        self.weights = np.column_stack([(1 - share) * self.weights, np.full(len(self.weights), share)])

    def settle(self) -> None:
        """Turns until latencies hardly move; accelerated, as weights and latencies trade off on a coarse clock."""
        for blur in self._blurs:
            self._turn(float(blur))
        for _ in range(self.params.leaps):
            before = self.cycles
            path = [self._vector()]
            for _ in range(2):
                self._turn(0.0)
                path.append(self._vector())
            self._set(extrapolated(path, 1.0, self.params.stride))
            self._turn(0.0)
            if np.all(np.abs(self.cycles - before) <= self.params.still * before):
                break

    def begin_again(self) -> None:
        """From other weights, and with each of the inner latencies in turn at a part of itself: what was begun as a
        mixture of two levels stays one, as weights and latencies trade off. Kept where the likelihood grows."""
        for number in np.argsort(self.cycles)[1:-1]:
            before = self.cycles.copy(), self.weights.copy(), self.likelihood.copy()
            self.cycles = self.cycles.copy()
            self.cycles[number] *= self.params.elsewhere
            self.weights = (self.weights + 1.0 / len(self.cycles)) / 2
            self.settle()
            if float(self.likelihood.sum()) <= float(before[2].sum()):
                self.cycles, self.weights, self.likelihood = before

    def _vector(self) -> Numbers:
        """Weights, and latencies on a scale on which they matter as much."""
        return np.concatenate([self.weights.ravel(), np.log(self.cycles)])

    def _set(self, vector: Numbers) -> None:
        weights, cycles = np.split(vector, [self.weights.size])
        weights = np.clip(weights.reshape(self.weights.shape), EPSILON, None)
        self.weights = weights / weights.sum(axis=1, keepdims=True)
        before, leap = np.log(self.cycles), self.params.leap
        self.cycles = np.exp(np.clip(cycles, before - leap, before + leap))

    def _turn(self, blur: float) -> None:
        found = self.expect(self.cycles[None, :], self.weights, blur)
        self.likelihood, self.weights = found.likelihood, _weights(found.served)
        self.cycles = _solved(*found.normal_equations(self.overhead), self.cycles)

    def prune(self) -> None:
        """Without components, begun with others before, that by now explain no size clearly better."""
        for number in range(len(self.cycles) - 1, -1, -1):
            left = np.delete(np.arange(len(self.cycles)), number)
            if len(left) >= 2 and self._gains(left).max() < self.params.gain:
                self.cycles, self.weights = self.cycles[left], self.weights[:, left]
                self.settle()

    def _gains(self, left: NDArray[np.int64]) -> Numbers:
        """By how much of the logarithm of the likelihood per interval all components explain each size better than
        those that are left."""
        weights = _weights(self.weights[:, left] + self.params.stray)
        for _ in range(self.params.trial):
            found = self.expect(self.cycles[None, left], weights)
            weights = _weights(found.served)
        return np.asarray((self.likelihood - found.likelihood) / self.readings.total)

    def merge(self) -> None:
        """Components in ascending order; those that came closer to each other than levels are become one."""
        order = np.argsort(self.cycles)
        cycles, weights = self.cycles[order], self.weights[:, order]
        groups = np.cumsum(np.concatenate([[0], cycles[1:] / cycles[:-1] >= self.params.apart]).astype(np.int64))
        mass = weights.sum(axis=0)
        self.cycles = np.bincount(groups, mass * cycles) / np.maximum(np.bincount(groups, mass), EPSILON)
        self.weights = np.stack([weights[:, groups == each].sum(axis=1) for each in range(groups[-1] + 1)], axis=1)

    def another(self) -> float:
        """Cycles of a further component that explains some size better, 0 where there is none apart from those that are
        there. Of several the one is known best that explains most of its size."""
        sizes, share = len(self.weights), self.params.share
        weights = np.column_stack([(1 - share) * self.weights, np.full(sizes, share)])
        begins = np.array([each for each in self._grid() if self._apart(each)])
        screened = [
            self.expect(np.append(self.cycles, each)[None, :], weights, self.params.blurs[0]).likelihood
            for each in begins
        ]
        if not screened:
            return 0.0
        cycles = np.column_stack([np.tile(self.cycles, (sizes, 1)), begins[np.argmax(screened, axis=0)]])
        for blur in (*self.params.blurs, *[0.0] * (self.params.trial - len(self.params.blurs))):
            found = self.expect(cycles, weights, blur)
            weights = _weights(found.served)
            cycles[:, -1] = np.maximum(found.one_latency(-1, cycles, self.overhead)[0], _LEAST)  # the others stay
        gain = (found.likelihood - self.likelihood) / self.readings.total
        gain[[not self._apart(each) for each in cycles[:, -1]]] = 0.0
        best = int(np.argmax(np.where(gain >= self.params.gain, gain * weights[:, -1], 0.0)))
        return float(cycles[best, -1]) if gain[best] >= self.params.gain else 0.0

    def _grid(self) -> list[float]:
        """Latencies to begin with, from the nearest component to beyond the furthest."""
        low, high = float(self.cycles.min()), self.params.beyond * float(self.cycles.max())
        steps = int(np.log(high / low) / np.log(self.params.begins))
        return [low * self.params.begins**number for number in range(1, steps + 1)]

    def _apart(self, cycles: float) -> bool:
        ratios = cycles / self.cycles
        return bool(np.all(np.maximum(ratios, 1 / ratios) >= self.params.apart))


def _weights(served: Numbers) -> Numbers:
    found: Numbers = served / np.maximum(served.sum(axis=1, keepdims=True), EPSILON)
    return found


def _solved(matrix: Numbers, right: Numbers, before: Numbers) -> Numbers:
    """Least squares, drawn a little towards what was known before where hardly any load says anything."""
    ridge = _RIDGE * max(float(np.trace(matrix)), EPSILON) * np.eye(len(before))
    found: Numbers = np.maximum(np.linalg.solve(matrix + ridge, right + ridge @ before), _LEAST)
    return found


_RIDGE = 1e-6
"""Of all that loads say of latencies, what counts for the ones before."""

_LEAST = 0.1
"""Cycles of a load."""
