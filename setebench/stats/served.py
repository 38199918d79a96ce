"""What a load from one level takes, from loads of which other levels served some: a joint mixture likelihood.

One interval holds n loads, each served by the level that is asked for or by another one whose latency is known, with
unknown weights. So its duration is an overhead plus n latencies, of which a few (multinomially many) are foreign. Read
on a clock with steps, begun at random, a duration falls on the two neighbouring readings as its distance from them says
(a triangle); a normal jitter of the bracket blurs that. The product of these densities over intervals of all lengths is
the likelihood; expectation maximisation (Dempster, Laird and Rubin 1977, J. R. Stat. Soc. B 39:1) finds overhead,
latency and weights. On a coarse clock it is the growth of the variance with n that distinguishes a mixture from one
level, on a fine one each reading does; neither needs a rule of its own. Readings that fit nothing (a stall) have a
density of their own, alike over all that was read.

What the weights leave open of the latency comes from the profile of the likelihood. Measured on synthetic chains and
single loads (`tests/stats/test_served.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import special

Numbers = NDArray[np.float64]


class ServedParams(msgspec.Struct, frozen=True, kw_only=True):
    """`alike`: standard deviation of loads from one level, relative to their mean (slices at several distances).
    `blurs`: what the first turns add to that for what a load is thought to take at the start, relative, per load.
    `rare`: combinations of levels in one interval that are less probable are left out. `most`: weight of the others
    together. `jitter`: least standard deviation of a bracket in ticks, that of rounding to whole ones. `stray`: weight
    of readings that fit nothing, beforehand. `turns` of expectation maximisation at most, ended where the latency
    moves by less than `still` of itself. `probe`: relative change of the latency by which its likelihood is
    differentiated, after `profile_turns` in which weights follow."""

    alike: float = 0.03
    blurs: tuple[float, ...] = (0.1, 0.1, 0.05, 0.05, 0.02, 0.02, 0.01)
    rare: float = 1e-5
    most: float = 0.98
    jitter: float = 0.3
    stray: float = 0.01
    turns: int = 25
    still: float = 2e-5
    stride: float = 16.0
    probe: float = 0.01
    profile_turns: int = 5


class Intervals(msgspec.Struct, frozen=True, kw_only=True):
    """Timed intervals of one epoch: loads in each (`count`), what was read (`ticks`), shape (n,) each; the clock's step
    and the bracket's own jitter (variance) in ticks; and cycles per tick."""

    count: NDArray[np.int64]
    ticks: Numbers
    step: float
    jitter2: float
    cycles_per_tick: float

    @staticmethod
    def of_chains(
        ticks: Mapping[int, NDArray[np.int64]], step: float, jitter2: float, cycles_per_tick: float
    ) -> Intervals:
        """Chains of dependent loads, by their length."""
        return Intervals(
            count=np.concatenate([np.full(len(own), length) for length, own in ticks.items()]),
            ticks=np.concatenate(list(ticks.values())).astype(np.float64),
            step=step,
            jitter2=jitter2,
            cycles_per_tick=cycles_per_tick,
        )


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """`cycles` of a load from the level in each epoch (shape (epochs,)), the standard error that all share because the
    `weights` of the other levels are estimated too, and the weight of the level itself (`own`)."""

    cycles: Numbers
    shared_error: float
    weights: Numbers
    own: float


_FAR = 6.0
"""Standard deviations beyond which a normal distribution holds 1e-9."""


def quantised_variance(ticks: float, step: float) -> float:
    """Of the readings of one duration on a dithered clock: it lies between two of them, and is read as either."""
    above = ticks / step % 1.0
    return above * (1.0 - above) * step**2


def density(reading: Numbers, duration: Numbers, jitter2: Numbers | float, step: float) -> Numbers:
    """Of a reading, given the duration, on a dithered clock with steps; the jitter is normal."""
    sigma = np.sqrt(jitter2)

    def kink(shift: float) -> Numbers:
        z = (reading - duration + shift) / sigma
        found: Numbers = np.maximum(z, 0.0)
        near = np.abs(z) < _FAR  # most durations lie far from a reading, where the rest is nothing
        close = z[near]
        found[near] = close * special.ndtr(close) + np.exp(-0.5 * close * close) / np.sqrt(2 * np.pi)
        return found

    found: Numbers = np.maximum(kink(step) - 2 * kink(0.0) + kink(-step), 0.0) * sigma / step
    return found


def extrapolated(path: Sequence[Numbers], scale: Numbers | float, most: float) -> Numbers:
    """Where two turns of expectation maximisation lead to, from the states before, between and after them, by at most
    `most` times their length (SQUAREM, Varadhan and Roland 2008, Scand. J. Stat. 35:335); `scale` makes the parts of a
    state alike."""
    first, change = path[1] - path[0], path[2] - 2 * path[1] + path[0]
    length = float(np.linalg.norm(first / scale)) / max(float(np.linalg.norm(change / scale)), 1e-300)
    stride = min(max(length, 1.0), most)
    found: Numbers = path[0] + 2 * stride * first + stride**2 * change
    return found


def fit(
    epochs: Sequence[Intervals], start: float, others: Numbers, overhead: Numbers | None, params: ServedParams
) -> Served:
    """The latency that explains the intervals of some epochs, together with weights of the `others` (cycles).

    `start` is about what a load takes, `overhead` the ticks that an interval without loads takes in each epoch; None
    where it is to be found, from intervals of several lengths."""
    one = _Fit(epochs, others, overhead, params)
    one.begin(start)
    for blur in params.blurs:  # as vague as the start is, or the first guess of who served what would stay
        one.blur = blur
        one.turn()
    one.blur = 0.0
    for _ in range(params.turns):
        before = one.cycles.mean()
        one.leap()
        if abs(one.cycles.mean() - before) <= params.still * abs(before):
            break
    return Served(
        cycles=one.cycles.copy(),
        shared_error=one.shared_error(),
        weights=one.weights,
        own=float(1.0 - one.weights.sum()),
    )


class _Fit:
    """The state of expectation maximisation: per epoch `cycles` of a load and ticks of `overhead`, and the weights of
    the other levels, which all epochs share."""

    def __init__(
        self, epochs: Sequence[Intervals], others: Numbers, overhead: Numbers | None, params: ServedParams
    ) -> None:
        self.epochs, self.others, self.params, self.known = epochs, others, params, overhead
        self.weights = np.full(len(others), params.stray)
        self.cycles, self.blur = np.zeros(len(epochs)), 0.0
        self._read = [
            {int(count): np.unique(one.ticks[one.count == count], return_counts=True) for count in np.unique(one.count)}
            for one in epochs
        ]
        self.overhead = np.zeros(len(epochs)) if overhead is None else np.array(overhead, dtype=np.float64)

    def begin(self, cycles: float) -> None:
        """Every epoch as if all loads took so many cycles."""
        self.cycles[:] = cycles
        if self.known is None:
            for number, one in enumerate(self.epochs):
                fewest = int(one.count.min())
                own = fewest * cycles / one.cycles_per_tick
                self.overhead[number] = float(np.median(one.ticks[one.count == fewest])) - own

    def leap(self) -> None:
        """Two turns, extrapolated along their path, and one more: alone they creep where weights and latency trade
        off."""
        path = [self._state()]
        for _ in range(2):
            self.turn()
            path.append(self._state())
        self._set(extrapolated(path, self._scale, self.params.stride))
        self.turn()

    @property
    def _scale(self) -> Numbers:
        """By which the parts of the state are alike: weights change a load as much as its latency does."""
        ticks = self.cycles / [one.cycles_per_tick for one in self.epochs]
        return np.concatenate([np.ones(len(self.weights)), self.cycles, ticks])

    def _state(self) -> Numbers:
        return np.concatenate([self.weights, self.cycles, self.overhead])

    def _set(self, state: Numbers) -> None:
        weights, self.cycles, self.overhead = np.split(state, [len(self.weights), len(self.weights) + len(self.epochs)])
        weights = np.clip(weights, 0.0, None)
        self.weights = weights * min(1.0, self.params.most / max(float(weights.sum()), 1e-12))
        if self.known is not None:
            self.overhead = np.array(self.known, dtype=np.float64)

    def turn(self, *, latency: bool = True) -> float:
        """One turn: weights, overheads and, but for a profile, the latency follow the responsibilities. Returns the
        logarithm of the likelihood before."""
        likelihood, served, loads = 0.0, np.zeros(len(self.others)), 0.0
        counts = {count for read in self._read for count in read}
        mixtures = {count: _foreign(count, self.weights, self.params.rare) for count in counts}
        for number, one in enumerate(self.epochs):
            rows = []
            for count, (ticks, times) in self._read[number].items():
                foreign, chances = mixtures[count]
                own = count - foreign.sum(axis=1)
                away = foreign @ self.others / one.cycles_per_tick
                load = self.cycles[number] / one.cycles_per_tick
                jitter2 = (
                    max(one.jitter2, self.params.jitter**2)
                    + count * (self.params.alike * load) ** 2
                    + (self.blur * count * load) ** 2
                )
                parts = (
                    (1 - self.params.stray)
                    * chances
                    * density(ticks[:, None], self.overhead[number] + own * load + away, jitter2, one.step)
                )
                total = parts.sum(axis=1) + self.params.stray / max(float(np.ptp(one.ticks)), one.step)
                parts *= (times / total)[:, None]
                likelihood += float(times @ np.log(total))
                served += parts.sum(axis=0) @ foreign
                loads += float(parts.sum()) * count
                weights = parts / (
                    jitter2 + one.step**2 / 6
                )  # a reading of unknown phase has the variance of a triangle
                rows.append((np.broadcast_to(own, parts.shape), ticks[:, None] - away, weights))
            flat = (np.concatenate([each.ravel() for each in own]) for own in zip(*rows, strict=True))
            self._move(number, *flat, latency=latency)
        self.weights = served / max(loads, 1.0)
        return likelihood

    def _move(self, number: int, own: Numbers, ticks: Numbers, weights: Numbers, *, latency: bool) -> None:
        """The latency and, where it isn't known, the overhead of one epoch by weighted least squares."""
        per_tick, total = self.epochs[number].cycles_per_tick, max(float(weights.sum()), 1e-300)
        centre, middle = 0.0, self.overhead[number]
        if self.known is None:
            centre, middle = float(weights @ own) / total, float(weights @ ticks) / total
        spread = float(weights @ (own - centre) ** 2)
        if latency and spread > 0:
            self.cycles[number] = float(weights @ ((own - centre) * (ticks - middle))) / spread * per_tick
        if self.known is None:
            self.overhead[number] = middle - self.cycles[number] / per_tick * centre

    def shared_error(self) -> float:
        """What not knowing the weights adds to the error of the latency: the inverse curvature of the profile
        likelihood less that at fixed weights."""
        found = self._state()
        change = self.params.probe * float(self.cycles.mean())
        curves = []
        for refit in (False, True):
            values = []
            for sign in (-1, 0, 1):
                self._set(found)
                self.cycles = self.cycles + sign * change
                for _ in range(self.params.profile_turns):
                    self.turn(latency=False)
                    if not refit:
                        self.weights = found[: len(self.weights)]
                values.append(self.turn(latency=False))
            curves.append(max((2 * values[1] - values[0] - values[2]) / change**2, 1e-12))
        self._set(found)
        return float(np.sqrt(max(1.0 / curves[1] - 1.0 / curves[0], 0.0)))


def _foreign(count: int, weights: Numbers, rare: float) -> tuple[Numbers, Numbers]:
    """How many of `count` loads each other level may have served, shape (combinations, others), and how probable that
    is, shape (combinations,): multinomial, without what is rare."""
    rows: list[tuple[tuple[int, ...], int, float]] = [((), count, 0.0)]
    for weight in np.maximum(weights, 1e-9):
        rows = [
            ((*taken, more), left - more, log + more * np.log(weight) - special.gammaln(more + 1))
            for taken, left, log in rows
            for more in range(left + 1)
            if more == 0 or special.bdtrc(more - 1, count, min(weight, 1.0)) > rare
        ]
    own = np.log(max(1.0 - float(weights.sum()), 1e-9))
    logs = np.array([log + left * own - special.gammaln(left + 1) for _, left, log in rows])
    chances = np.exp(logs + special.gammaln(count + 1))
    taken = np.array([each for each, _, _ in rows], dtype=np.float64).reshape(len(rows), len(weights))
    return taken[chances > rare], chances[chances > rare]
