"""Which levels served the loads of timed intervals: the expectation of a mixture, for `stats.levels`.

One interval holds n loads, each served by one of the levels with unknown weights. So its duration is an overhead plus n
latencies, multinomially many of each level. Read on a clock with steps, begun at random, a duration falls on the two
neighbouring readings as its distance from them says (a triangle); a normal jitter of the bracket blurs that. On a
coarse clock it is the growth of the variance with n that distinguishes a mixture from one level, on a fine one each
reading does; neither needs a rule of its own. Readings that fit nothing (a stall) have a density of their own, alike
over all that was read. Readings closer to each other than any density distinguishes count as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import special

from setebench.stats.estimate import EPSILON
from setebench.stats.ticks.location import ALIKE_SHARE

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]


class LoadsParams(msgspec.Struct, frozen=True, kw_only=True):
    """`alike`: standard deviation of loads from one level, relative to their mean. `jitter`: least standard deviation
    of a bracket in ticks, that of rounding to whole ones. `stray`: weight of readings that fit nothing, beforehand.
    `rare`: combinations of levels in one interval that are less probable are left out. `bin`: width of bins of
    readings, in standard deviations of the sharpest density there; within a bin the logarithm of a density changes by
    `bin` squared / 24 on average. Expectation maximisation begins as vague as the first latencies are: `blurs` is what
    its first turns add to `alike`, relative, per load. Extrapolation along its path goes `stride` times its length at
    most."""

    alike: float = ALIKE_SHARE
    jitter: float = 0.3
    stray: float = 0.01
    rare: float = 1e-4
    bin: float = 0.5
    blurs: tuple[float, ...] = (0.1, 0.05, 0.02)
    stride: float = 16.0


class Intervals(msgspec.Struct, frozen=True, kw_only=True):
    """Timed intervals of one epoch: loads in each (`count`), what was read (`ticks`), shape (n,) each; the clock's step
    and the bracket's own jitter (variance) in ticks; and cycles per tick."""

    count: Whole
    ticks: Numbers
    step: float
    jitter2: float
    cycles_per_tick: float


_FAR = 6.0
"""Standard deviations beyond which a normal distribution holds 1e-9."""


def quantised_variance(ticks: float, step: float) -> float:
    """Of the readings of one duration on a dithered clock: it lies between two of them, and is read as either."""
    above = ticks / step % 1.0
    return above * (1.0 - above) * step**2


def density(reading: Numbers, duration: Numbers, jitter2: Numbers | float, step: Numbers | float) -> Numbers:
    """Of a reading, given the duration, on a dithered clock with steps; the jitter is normal.

    A triangle no wider than four standard deviations of the jitter makes it, but for 1 % at its top, a normal
    distribution of their common variance."""
    sigma = np.sqrt(jitter2)
    away, width = np.broadcast_arrays((reading - duration) / sigma, step / sigma)
    near = np.abs(away) < _FAR + width  # most durations lie far from a reading
    found, z, steps = np.zeros(away.shape), away[near], width[near]
    variance = _variance(1.0, steps)
    dense = steps * np.exp(-z * z / (2 * variance)) / np.sqrt(2 * np.pi * variance)
    coarse = steps > 2
    z, steps = z[coarse], steps[coarse]
    dense[coarse] = np.maximum(_kink(z + steps) - 2 * _kink(z) + _kink(z - steps), 0.0) / steps
    found[near] = dense
    return found


def _variance(jitter2: Numbers | float, step: Numbers) -> Numbers:
    """With that of a triangle as wide as two steps, which a reading of unknown phase has."""
    found: Numbers = jitter2 + step**2 / 6
    return found


def _totals(where: Whole, amounts: Numbers, count: int) -> Numbers:
    """Of the amounts at each of so many places."""
    return np.asarray(np.bincount(where, amounts, count), dtype=np.float64)


def _kink(z: Numbers) -> Numbers:
    """A rise that begins at 0, blurred by a normal distribution."""
    found: Numbers = z * special.ndtr(z) + np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    return found


@cache
def _ways(count: int, components: int) -> tuple[Numbers, Numbers]:
    """How `count` loads may fall on components, shape (ways, components), and the logarithm of in how many orders."""
    if not components:
        taken = np.zeros((0 if count else 1, 0))
    else:
        parts = []
        for own in range(count + 1):
            rest = _ways(count - own, components - 1)[0]
            parts.append(np.column_stack([np.full(len(rest), float(own)), rest]))
        taken = np.concatenate(parts)
    return taken, special.gammaln(count + 1) - special.gammaln(taken + 1).sum(axis=1)


class Expected(NamedTuple):
    """What readings say of a mixture. Of each source the logarithm of the `likelihood`, the part of readings that fit
    nothing (`stray`), shape (sources,), and how many loads each component `served`, shape (sources, components). Of
    each way in which loads of an interval fall on components: its `source`, how many ticks per cycle it has of each
    component (`ticks`, shape (ways, components)), how many readings go with it, over their variance (`weight`), and the
    sum of these readings over that (`pull`), shape (ways,)."""

    likelihood: Numbers
    stray: Numbers
    served: Numbers
    source: Whole
    ticks: Numbers
    weight: Numbers
    pull: Numbers

    def normal_equations(self, overhead: Numbers) -> tuple[Numbers, Numbers]:
        """Of latencies that all sources share."""
        own = self.ticks.T
        return own * self.weight @ self.ticks, own @ (self.pull - self.weight * overhead[self.source])

    def one_latency(
        self, number: int, cycles: Numbers, overhead: Numbers, *, free: bool = False
    ) -> tuple[Numbers, Numbers]:
        """Of one component in each source, by weighted least squares, the others being as they are in `cycles` (shape
        (sources, components)); and the overheads that go with it and with the latency before, shape (2, sources), if
        they are `free`."""
        sources = len(self.likelihood)
        before, own = cycles[:, number], self.ticks[:, number]
        pull = self.pull - self.weight * ((self.ticks * cycles[self.source]).sum(axis=1) - own * before[self.source])

        def total(values: Numbers) -> Numbers:
            return _totals(self.source, values, sources)

        centre, middle = np.zeros(sources), overhead
        if free:
            mass = np.maximum(total(self.weight), EPSILON)
            centre, middle = total(self.weight * own) / mass, total(pull) / mass
        longer = own - centre[self.source]
        spread = total(self.weight * longer**2)
        along = total(longer * (pull - self.weight * middle[self.source]))
        found = np.divide(along, spread, out=before.copy(), where=spread > 0)
        return found, middle - np.stack([found, before]) * centre


class Readings:
    """What several sources read, one epoch or working set each, by the number of loads: in bins that no density
    distinguishes, by their mean and how many they hold."""

    def __init__(self, sources: Sequence[Intervals], params: LoadsParams) -> None:
        self.params, self.total = params, np.array([len(one.ticks) for one in sources])
        self._step = np.array([one.step for one in sources])
        self._per_tick = np.array([one.cycles_per_tick for one in sources])
        self._jitter2 = np.array([max(one.jitter2, params.jitter**2) for one in sources])
        self._stray = params.stray / np.maximum([np.ptp(one.ticks) for one in sources], self._step)
        self._apart = 2 * max(float(np.abs(one.ticks).max()) for one in sources)
        counts = np.unique(np.concatenate([one.count for one in sources]))
        self._by_count = {int(count): self._binned(sources, count) for count in counts}

    def _binned(self, sources: Sequence[Intervals], count: int) -> tuple[Whole, Numbers, Whole]:
        """Of intervals of so many loads, in ascending order: source, mean reading and number of each bin."""
        found = []
        for number, one in enumerate(sources):
            ticks = np.sort(one.ticks[one.count == count])
            # n loads differ from each other, relatively, by at least a root of n less than each does
            alike, jitter = self.params.alike / count**0.5, _variance(self._jitter2[number], self._step[number]) ** 0.5
            longer = np.arcsinh(alike * (ticks - one.ticks.min()) / jitter) / (alike * self.params.bin)
            _, bins, times = np.unique(np.floor(longer), return_inverse=True, return_counts=True)
            found.append((np.full(len(times), number), _totals(bins, ticks, len(times)) / times, times))
        source, ticks, times = (np.concatenate(each) for each in zip(*found, strict=True))
        return source, ticks, times

    def expect(self, cycles: Numbers, weights: Numbers, overhead: Numbers, blur: float = 0.0) -> Expected:
        """Who served the loads, if components take so many `cycles` and have such `weights` (shape (sources or 1,
        components)), an interval takes an `overhead` beside its loads (ticks, shape (sources,)), and loads differ by
        `blur` more than usual (relative)."""
        sources = len(self.total)
        loads = np.broadcast_to(cycles, (sources, cycles.shape[1])) / self._per_tick[:, None]
        likelihood, stray, ways = np.zeros(sources), np.zeros(sources), []
        for count, (source, ticks, times) in self._by_count.items():
            of, taken, chance = self._likely(count, weights)
            own = loads[of]
            away = np.einsum("ij,ij->i", taken, own)
            duration = overhead[of] + away
            jitter2 = self._jitter2[of] + self.params.alike**2 * np.einsum("ij,ij,ij->i", taken, own, own)
            jitter2 += (blur * away) ** 2
            row, way = self._near((source, ticks), of, duration, _FAR * np.sqrt(jitter2) + self._step[of])
            parts = chance[way] * density(ticks[row], duration[way], jitter2[way], self._step[of][way])
            total = _totals(row, parts, len(ticks)) + self._stray[source]
            likelihood += _totals(source, times * np.log(total), sources)
            stray += _totals(source, times * self._stray[source] / total, sources)
            parts *= (times / total)[row]
            mass, pull = (_totals(way, each, len(of)) for each in (parts, parts * ticks[row]))
            variance = _variance(jitter2, self._step[of])
            ways.append((of, taken, mass, mass / variance, pull / variance))
        of, taken, mass, weight, pull = (np.concatenate(each) for each in zip(*ways, strict=True))
        served = np.stack([_totals(of, mass * own, sources) for own in taken.T], axis=1)
        return Expected(likelihood, stray / self.total, served, of, taken / self._per_tick[of, None], weight, pull)

    def _likely(self, count: int, weights: Numbers) -> tuple[Whole, Numbers, Numbers]:
        """Ways in which so many loads fall on components that are not too rare: source, how many loads each component
        has, and how probable that is. Of sources that the same components serve together, as most serve hardly any."""
        weights = np.broadcast_to(weights, (len(self.total), weights.shape[1]))
        serving = count * weights > self.params.rare
        codes, found = serving @ (1 << np.arange(weights.shape[1])), []
        for code in np.unique(codes):
            own = np.flatnonzero(codes == code)
            pattern = serving[own[0]]
            some, orders = _ways(count, int(pattern.sum()))
            logs = orders + np.log(weights[own][:, pattern]) @ some.T
            of, way = np.nonzero(logs > np.log(self.params.rare))
            taken = np.zeros((len(of), len(pattern)))
            taken[:, pattern] = some[way]
            found.append((own[of], taken, (1 - self.params.stray) * np.exp(logs[of, way])))
        of, taken, chance = (np.concatenate(each) for each in zip(*found, strict=True))
        return of, taken, chance

    def _near(
        self, read: tuple[Whole, Numbers], source: Whole, duration: Numbers, reach: Numbers
    ) -> tuple[Whole, Whole]:
        """Pairs of a reading and a way of the same source which are no further apart than `reach`, by their numbers."""
        key = read[0] * 2 * self._apart + read[1]
        ends = (np.clip(duration + side * reach, -self._apart / 2, self._apart) for side in (-1, 1))
        first, end = (np.searchsorted(key, source * 2 * self._apart + each) for each in ends)
        many = end - first
        way = np.repeat(np.arange(len(many)), many)
        return np.arange(len(way)) - np.repeat(np.cumsum(many) - end, many), way


def extrapolated(path: Sequence[Numbers], scale: Numbers | float, most: float) -> Numbers:
    """Where two turns of expectation maximisation lead to, from the states before, between and after them, by at most
    `most` times their length (SQUAREM, Varadhan and Roland 2008, Scand. J. Stat. 35:335); `scale` makes the parts of a
    state alike."""
    first, change = path[1] - path[0], path[2] - 2 * path[1] + path[0]
    length = float(np.linalg.norm(first / scale)) / max(float(np.linalg.norm(change / scale)), EPSILON)
    stride = min(max(length, 1.0), most)
    found: Numbers = path[0] + 2 * stride * first + stride**2 * change
    return found
