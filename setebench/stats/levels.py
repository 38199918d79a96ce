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
from functools import cache
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import special

from setebench.stats.served import Intervals, density, extrapolated

Numbers = NDArray[np.float64]


class LevelsParams(msgspec.Struct, frozen=True, kw_only=True):
    """`gain`: from how much of the logarithm of the likelihood per interval on, at some size, a component is added.
    On eleven simulated machines 16 levels explained their own lines better than others did by 0.3 to 4.9, and what was
    a mixture of two by less than 0.04. `apart`: two levels differ by this factor at least; no published hierarchy has
    closer ones.

    `alike`: standard deviation of loads from one level relative to their mean, `jitter`: least standard deviation of a
    bracket in ticks. `stray`: weight of readings that fit nothing. `rare`: less probable combinations of levels in an
    interval are left out.

    Expectation maximisation begins as vague as the first latencies are (`blurs`, relative), then extrapolates along its
    path, by `stride` at most, until latencies move by less than `still` of themselves, `leaps` times at most. A further
    component begins at the best of latencies that are `begins` apart, up to `beyond` times the slowest known one, with
    a weight of `share`, and is tried on one size for `trial` turns. There are `most` components at most. In the end
    each begins once more at `elsewhere` of itself: one that settled as a mixture of a level with the next one, with
    nearer lines to make up for it, takes up to twice as long as the level.

    A level is a component that serves `seen` of some working set beyond what it serves of flushed lines; one that
    serves `doubtful` of it may be one. One that serves flushed lines `as_often` as any working set, relatively, is
    memory, unless slower ones serve flushed lines too, and nothing where it serves most: so does a cache into which
    flushed lines are prefetched. One that serves most where a nearer one serves more than `with_nearer` of its own most
    goes with that. Two that divide what they serve in proportions that differ by less than `parts` between sizes are
    one: 0 of parts of one level, 1 of two levels, of which the nearer one serves all of some sizes and nothing of
    others; on 48 simulated machines 0.35 finds all levels of one more than 0.5 does, and of none fewer."""

    gain: float = 0.05
    apart: float = 1.2
    alike: float = 0.03
    jitter: float = 0.5
    stray: float = 0.01
    rare: float = 1e-4
    leaps: int = 40
    stride: float = 16.0
    still: float = 1e-4
    trial: int = 8
    begins: float = 1.3
    beyond: float = 2.0
    share: float = 0.3
    elsewhere: float = 0.6
    blurs: tuple[float, ...] = (0.1, 0.05, 0.02)
    most: int = 7
    seen: float = 0.25
    doubtful: float = 0.1
    as_often: float = 0.5
    with_nearer: float = 0.8
    parts: float = 0.35


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
    sources = [*sources, flushed]
    means = np.array([mean_cycles(each) for each in sources])
    state = _State([_Readings(each, params) for each in sources], means[[0, -1]], params)
    away = np.clip((means - means[0]) / max(means[-1] - means[0], 1e-9), 0.02, 0.98)
    state.weights = np.stack([1 - away, away], axis=1)
    state.settle()
    while len(state.cycles) < params.most:
        trials = [each for each in map(state.trial, range(len(sources))) if each.gain >= params.gain]
        if not trials:
            break
        state.add(max(trials, key=lambda each: each.gain * each.weight).cycles)
        state.settle()
    state.prune()
    state.begin_again()
    state.merge()
    for number, one in enumerate(state.readings):
        one.expect(state.cycles, state.weights[number], 0.0)
    return Mixture(
        cycles=state.cycles, weights=state.weights, unexplained=np.array([each.stray for each in state.readings])
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
    caches: list[Level] = []
    hidden = np.inf
    for number in np.flatnonzero(~memory):
        best = int(weights[:, number].argmax())
        nearer = weights[:, :number]
        if caches and np.any(nearer[best] > np.maximum(params.with_nearer * nearer.max(axis=0), weights[best, number])):
            continue
        if peak[number] - away[number] >= params.seen:
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
    return _as_one(msgspec.structs.replace(found, cycles=cycles, weights=weights), params)


def _span(pair: Numbers, params: LevelsParams) -> float:
    """By how much the further one's part of what two components serve grows from smaller sizes to larger ones, of those
    that they often serve; medians, as one size may have been disturbed. 1 where one is memory's, or there are hardly
    any."""
    both = pair[:-1].sum(axis=1)
    often = both >= max(params.seen, params.as_often * float(both.max()))
    parts = pair[:-1][often, 1] / both[often]
    if len(parts) < 3 or pair[-1].max() >= params.seen / 2:
        return 1.0
    return max(float(np.median(parts[at:]) - np.median(parts[:at])) for at in range(1, len(parts)))


def _rising(weights: Numbers) -> Numbers:
    """Weights such that further levels never serve less of a larger working set, as what disturbs one evicts lines."""
    beyond = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1]
    beyond = np.minimum.accumulate(beyond[::-1], axis=0)[::-1]
    return -np.diff(beyond, axis=1, append=0.0)


@cache
def _ways(count: int, components: int) -> tuple[Numbers, Numbers]:
    """How `count` loads may fall on components, shape (ways, components), and the logarithm of in how many orders."""
    if components == 1:
        taken = np.array([[count]], dtype=np.float64)
    else:
        parts = []
        for own in range(count + 1):
            rest = _ways(count - own, components - 1)[0]
            parts.append(np.column_stack([np.full(len(rest), float(own)), rest]))
        taken = np.concatenate(parts)
    return taken, special.gammaln(count + 1) - special.gammaln(taken + 1).sum(axis=1)


class _Readings:
    """What one working set read: each reading once, with how often it came, by the number of loads."""

    def __init__(self, source: Source, params: LevelsParams) -> None:
        one = source.intervals
        self.params, self.step, self.overhead = params, one.step, source.overhead
        self.per_tick, self.jitter2 = one.cycles_per_tick, max(one.jitter2, params.jitter**2)
        self.total, self.loads = len(one.ticks), float(one.count.sum())
        self.width = max(float(np.ptp(one.ticks)), one.step)
        self.by_count = {
            int(count): np.unique(one.ticks[one.count == count], return_counts=True) for count in np.unique(one.count)
        }
        self.stray = 0.0

    def expect(self, cycles: Numbers, weights: Numbers, blur: float) -> tuple[float, Numbers, Numbers, Numbers]:
        """The logarithm of the likelihood; how many loads each component served; and the normal equations of the
        latencies."""
        size = len(cycles)
        likelihood, served, matrix, right = 0.0, np.zeros(size), np.zeros((size, size)), np.zeros(size)
        ticks_each, logs, stray = cycles / self.per_tick, np.log(np.maximum(weights, 1e-6)), 0.0
        for count, (ticks, times) in self.by_count.items():
            taken, orders = _ways(count, size)
            chances = np.exp(orders + taken @ logs)
            likely = chances > self.params.rare
            taken, chances = taken[likely], chances[likely]
            away = taken @ ticks_each
            jitter2 = self.jitter2 + taken @ (self.params.alike * ticks_each) ** 2 + (blur * away) ** 2
            parts = chances * density(ticks[:, None], self.overhead + away, jitter2, self.step)
            parts *= 1 - self.params.stray
            other = self.params.stray / self.width
            total = parts.sum(axis=1) + other
            likelihood += float(times @ np.log(total))
            stray += float(times @ (other / total))
            parts *= (times / total)[:, None]
            served += parts.sum(axis=0) @ taken
            parts /= jitter2 + self.step**2 / 6  # a reading of unknown phase has the variance of a triangle
            matrix += (taken * parts.sum(axis=0)[:, None]).T @ taken / self.per_tick**2
            right += ((ticks - self.overhead) @ parts) @ taken / self.per_tick
        self.stray = stray / self.total
        return likelihood, served, matrix, right


class _Trial(NamedTuple):
    """By how much of the logarithm of the likelihood per interval a further component explains one size better, with
    which weight, and what it takes. Where it explains most of a size, that is known best."""

    gain: float
    weight: float
    cycles: float


class _State:
    """Latencies of the components and their weights at each size."""

    def __init__(self, readings: list[_Readings], cycles: Numbers, params: LevelsParams) -> None:
        self.readings, self.cycles, self.params = readings, cycles, params
        self.weights = np.zeros((len(readings), len(cycles)))
        self.likelihood = np.zeros(len(readings))

    def add(self, cycles: float) -> None:
        """A further component, which takes about so many cycles, everywhere as likely as the others."""
        self.cycles = np.append(self.cycles, cycles)
        share = 1.0 / len(self.cycles)
        self.weights = np.column_stack([(1 - share) * self.weights, np.full(len(self.weights), share)])

    def settle(self) -> None:
        """Turns until latencies hardly move; accelerated, as weights and latencies trade off on a coarse clock."""
        for blur in self.params.blurs:
            self._turn(blur)
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
        weights = np.clip(weights.reshape(self.weights.shape), 1e-6, None)
        self.weights = weights / weights.sum(axis=1, keepdims=True)
        self.cycles = np.exp(np.clip(cycles, np.log(self.cycles) - 0.2, np.log(self.cycles) + 0.2))

    def _turn(self, blur: float) -> None:
        matrix, right = np.zeros((len(self.cycles), len(self.cycles))), np.zeros(len(self.cycles))
        for number, one in enumerate(self.readings):
            self.likelihood[number], served, *normal = one.expect(self.cycles, self.weights[number], blur)
            self.weights[number] = _weights(served)
            matrix, right = matrix + normal[0], right + normal[1]
        self.cycles = _solved(matrix, right, self.cycles)

    def prune(self) -> None:
        """Without components, begun with others before, that by now explain no size clearly better."""
        for number in range(len(self.cycles) - 1, -1, -1):
            left = np.delete(np.arange(len(self.cycles)), number)
            if len(left) >= 2 and max(self._gains(left)) < self.params.gain:
                self.cycles, self.weights = self.cycles[left], self.weights[:, left]
                self.settle()

    def _gains(self, left: NDArray[np.int64]) -> list[float]:
        """By how much of the logarithm of the likelihood per interval all components explain each size better than
        those that are left."""
        gains = []
        for number, one in enumerate(self.readings):
            weights = _weights(self.weights[number, left] + 1e-3)
            likelihood = -np.inf
            for _ in range(self.params.trial):
                likelihood, served, *_ = one.expect(self.cycles[left], weights, 0.0)
                weights = _weights(served)
            gains.append((float(self.likelihood[number]) - likelihood) / one.total)
        return gains

    def merge(self) -> None:
        """Components in ascending order; those that came closer to each other than levels are become one."""
        order = np.argsort(self.cycles)
        cycles, weights = self.cycles[order], self.weights[:, order]
        groups = np.cumsum(np.concatenate([[0], cycles[1:] / cycles[:-1] >= self.params.apart]).astype(np.int64))
        mass = weights.sum(axis=0)
        self.cycles = np.bincount(groups, mass * cycles) / np.maximum(np.bincount(groups, mass), 1e-12)
        self.weights = np.stack([weights[:, groups == each].sum(axis=1) for each in range(groups[-1] + 1)], axis=1)

    def trial(self, number: int) -> _Trial:
        """A further component that explains one size better; no gain for one too close to those that are there."""
        one, own = self.readings[number], np.append(self.cycles, 0.0)
        weights = np.append((1 - self.params.share) * self.weights[number], self.params.share)
        begins = [each for each in self._grid() if self._apart(each)]
        screened = []
        for own[-1] in begins:
            screened.append((one.expect(own, weights, self.params.blurs[0])[0], float(own[-1])))
        if not screened:
            return _Trial(0.0, 0.0, 0.0)
        likelihood, own[-1] = max(screened)
        for turn in range(self.params.trial):
            blur = self.params.blurs[turn] if turn < len(self.params.blurs) else 0.0
            likelihood, served, matrix, right = one.expect(own, weights, blur)
            weights = _weights(served)
            if matrix[-1, -1] > 0:  # the others stay
                own[-1] = max((right[-1] - matrix[-1, :-1] @ own[:-1]) / matrix[-1, -1], 0.1)
        if not self._apart(float(own[-1])):
            return _Trial(0.0, 0.0, 0.0)
        gain = (likelihood - float(self.likelihood[number])) / one.total
        return _Trial(gain, float(weights[-1]), float(own[-1]))

    def _grid(self) -> list[float]:
        """Latencies to begin with, from the nearest component to beyond the furthest."""
        low, high = float(self.cycles.min()), self.params.beyond * float(self.cycles.max())
        steps = int(np.log(high / low) / np.log(self.params.begins))
        return [low * self.params.begins**number for number in range(1, steps + 1)]

    def _apart(self, cycles: float) -> bool:
        ratios = cycles / self.cycles
        return bool(np.all(np.maximum(ratios, 1 / ratios) >= self.params.apart))


def _weights(served: Numbers) -> Numbers:
    found: Numbers = served / max(float(served.sum()), 1e-12)
    return found


def _solved(matrix: Numbers, right: Numbers, before: Numbers) -> Numbers:
    """Least squares, drawn a little towards what was known before where hardly any load says anything."""
    ridge = 1e-6 * max(float(np.trace(matrix)), 1e-12) * np.eye(len(before))
    found: Numbers = np.maximum(np.linalg.solve(matrix + ridge, right + ridge @ before), 0.1)
    return found
