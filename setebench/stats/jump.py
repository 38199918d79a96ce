"""Where a time jumps as more is asked for at once: the posterior of a change point, and the numbers to measure for it.

A queue with L entries answers up to L requests in the time of one; the next has to wait for the first to leave. So the
latency-over-count curve has a jump, and what only limits the rate (a bus, a port) makes it a slope. Around every rise a
line with a jump is fitted for each place of the jump, with the jump's height integrated over what a waiting request may
add; the same fits with the height integrated over what is no jump are the evidence for none (Bayesian change point,
Smith 1975, Biometrika 62:407). Places between which numbers don't decide are measured more often, in blocks of random
order, so that drift falls on all of them alike.

The largest number that fits is the last before the jump. `search` asks one number at a time, always one that decides
between places, and stops as soon as one number has the wanted posterior probability, or the end of the range has.

Measured on synthetic curves of 1 to 100 entries (a clock in steps of 9 % of a unit, one sample in ten and one round in
twenty disturbed; 90 each): noise of 4 % and 15 %, 73 right, at most one wrong; a latency with a long tail (one request
in ten takes half as long again or more) 73, none wrong, from 60 rounds of eight samples on average, the first pass over
all numbers included. What stays open has 90 entries or more, whose last requests set out late. A slope of up to a tenth
of a unit a request is never taken for a jump; one of a quarter is left open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import special

from setebench.stats.threshold import Posterior

Times = NDArray[np.float64]


class JumpParams(msgspec.Struct, frozen=True, kw_only=True):
    """What a jump is, in times of one request (units), and how it is looked for.

    A jump has at least the `rise`: the first entry is free again after one unit, less what the requests before it
    needed to set out; and `sudden` times what each further request adds around it. Requests add at most a `slope` each
    (standard deviation) where none waits. No more than `most` units come with the first jump: times are cut there, for
    behind it every request may wait. The curve deviates from line and jump by `shape` (standard deviation), however
    often it is measured: requests differ in what they meet.

    Numbers are first tried in steps of `ratio`, so that no jump and the next one at twice the number hide in one step,
    and up to where requests take `enough` units longer than one. `near` numbers to either side of a rise are measured
    one by one, `rounds` times each, and then as often as decides; `doubtful` places have that probability at least. The
    scatter usual of all numbers counts as `degrees` rounds of each one's own. A rise is no jump with `certainty`. A
    time is the mean between the quantiles `calm` of all samples of a number: what disturbs one makes it
    longer, and of many requests the slowest decides, which in memory with open rows and refreshes mostly is a slow one;
    seldom shorter (a line that was there already). Trimming biases a quantised mean by less than a clock step, alike
    for all numbers. A curve with more than `rises` that are no jumps only creeps."""

    rise: float = 0.2
    sudden: float = 2.0
    most: float = 1.2
    slope: float = 0.2
    shape: float = 0.03
    ratio: float = 1.25
    enough: float = 2.6
    near: int = 5
    calm: tuple[float, float] = (0.1, 0.35)
    rises: int = 3
    degrees: float = 4.0
    certainty: float = 0.99
    doubtful: float = 0.003
    rounds: int = 2


def calm_level(times: Times, calm: tuple[float, float] = JumpParams().calm) -> float:
    """Mean between the quantiles `calm` of samples (any shape)."""
    ordered = np.sort(times, axis=None)
    begin, end = int(calm[0] * len(ordered)), max(int(calm[1] * len(ordered)), 1)
    return float(ordered[min(begin, end - 1) : end].mean())


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """By place (behind which of the numbers, shape (numbers - 1,)) how probable a jump is there, and its height; and
    the probability that there is no jump at all."""

    probability: Times
    height: Times
    none: float


def places(numbers: NDArray[np.int64], times: Times, errors: Times, params: JumpParams) -> Places:
    """Where among neighbouring numbers (ascending, at least two) times jump; all in units, with standard errors."""
    times = np.minimum(times, times.min() + params.most)
    weights = 1.0 / (errors**2 + params.shape**2)
    centred = (numbers - numbers.mean()).astype(np.float64)
    evidence, heights, spreads, least = [], [], [], []
    for place in range(len(numbers) - 1):
        design = np.stack([np.ones(len(numbers)), np.arange(len(numbers)) > place, centred], axis=1).astype(np.float64)
        power = (design * weights[:, None]).T @ design
        power[2, 2] += params.slope**-2
        best = np.linalg.solve(power, design.T @ (weights * times))
        rest = float(weights @ (times - design @ best) ** 2) + (best[2] / params.slope) ** 2
        evidence.append(-0.5 * rest - 0.5 * np.linalg.slogdet(power)[1])
        heights.append(float(best[1]))
        spreads.append(float(np.linalg.inv(power)[1, 1] ** 0.5))
        least.append(min(max(params.rise, params.sudden * abs(float(best[2]))), params.most / 2))
    height, spread, rise = np.array(heights), np.array(spreads), np.array(least)
    jump = _between(height, spread, rise, params.most) / (params.most - rise)
    flat = _between(height, spread, -rise, rise) / (2 * rise)
    own = np.exp(np.array(evidence) - max(evidence))
    total = float((own * (jump + flat)).sum())
    return Places(probability=own * jump / total, height=height, none=float((own * flat).sum()) / total)


def _between(value: Times, error: Times, low: Times, high: Times | float) -> Times:
    found: Times = special.ndtr((high - value) / error) - special.ndtr((low - value) / error) + _LEAST
    return found


_LEAST = 1e-12
"""Of probabilities: heights beyond all limits leave something to divide by."""


class Curve:
    """Times by number of requests, and where they jump first. Answers are times of some repetitions, any shape."""

    def __init__(self, first: int, most: int, unit: float, rng: np.random.Generator) -> None:
        """From `first` to `most` requests; `unit` is the time of one. A number below `first` never fits."""
        self.params = JumpParams()
        self.first, self.most, self.unit = first, most, unit
        self.samples: dict[int, list[Times]] = {}
        self.height = 0.0
        self._rng = rng
        self._queue: list[int] = []
        self._around: int | None = None
        self._start, self._left = first, self.params.rises
        self._grid = _steps(first, most, self.params.ratio)
        self._posterior = self._nothing(0.0)

    def again(self) -> Curve:
        """A curve of the same requests for another epoch, which is only measured around the jump found in this one."""
        other = Curve(self.first, self.most, self.unit, self._rng)
        other.look_first_at(self.posterior().value)
        other._left = 0
        return other

    def look_first_at(self, last: int) -> None:
        """Expect a jump behind that number: measure around it before anything else."""
        self._around = last

    def add(self, number: int, answer: Times) -> None:
        """Take note of times of a number."""
        self.samples.setdefault(number, []).append(np.asarray(answer, dtype=np.float64))

    def posterior(self) -> Posterior:
        """Over the last number before the jump, from `first` on; nothing is known while rises are still looked for."""
        return self._posterior

    def levels(self) -> Mapping[int, float]:
        """The calm time of every number, ascending."""
        return {number: calm_level(np.concatenate(self.samples[number])) for number in sorted(self.samples)}

    def question(self) -> int:
        """The number to measure next."""
        while not self._queue:
            self._queue = self._next()
        return self._queue.pop()

    # -- where to measure ----------------------------------------------------------------------------------------------

    def _next(self) -> list[int]:
        if self._around is not None:
            return self._closely(self._around)
        if self._grid:
            number = self._grid.pop(0)
            if self._is_enough():
                self._grid = []
                return self._next()
            return [number] * max(2 - len(self.samples.get(number, ())), 0) or self._next()
        found = self._first_rise()
        if found is None:
            self._posterior = self._nothing(1.0)
            return [self.most]
        low, high = found
        if high > low + 1:
            return 2 * [(low + high) // 2]
        self._around = low
        return self._closely(low)

    def _is_enough(self) -> bool:
        if len(self.samples) < 2:
            return False
        levels = self.levels()
        return levels[max(levels)] - levels[min(levels)] > self.params.enough * self.unit

    def _first_rise(self) -> tuple[int, int] | None:
        """Neighbouring numbers between which time rises by as much as a jump. A time that a larger number undercuts was
        disturbed, and is cut to that."""
        if not self._left:
            return None
        levels = self.levels()
        numbers = np.array(list(levels))
        times = np.minimum.accumulate(np.array(list(levels.values()))[::-1])[::-1]
        rises = np.flatnonzero((np.diff(times) > self.params.rise * self.unit) & (numbers[:-1] >= self._start))
        return (int(numbers[rises[0]]), int(numbers[rises[0] + 1])) if len(rises) else None

    def _closely(self, last: int) -> list[int]:
        """Numbers around a rise behind `last`: all of them first, then those that decide between places."""
        near = self._window(last)
        once = [number for number in near if len(self.samples.get(number, ())) < self.params.rounds]
        if once:
            return [int(number) for number in self._rng.permutation(once)]
        self._judge(near)
        if self._posterior.none >= self.params.certainty and self._left:
            self._around, self._start, self._left = None, last + 1, self._left - 1
            self._posterior = self._nothing(1 / 2)  # none here, but there may be others
            return self._next()
        doubtful = self._posterior.numbers[self._posterior.probability > self.params.doubtful]
        wanted = sorted({number + beside for number in doubtful.tolist() for beside in (-1, 0, 1, 2)} & set(near))
        return [int(number) for number in self._rng.permutation(wanted or near)]

    def _window(self, last: int) -> list[int]:
        """Numbers around a jump behind `last`, up to the next jump: that comes behind as many requests again."""
        near = self.params.near
        most = min(last + near, max(2 * last, last + 1), self.most)
        return list(range(max(self.first, last - near), most + 1))

    # -- what they say -------------------------------------------------------------------------------------------------

    def _judge(self, near: list[int]) -> None:
        numbers = np.array(near)
        rounds = [np.array([calm_level(each) for each in self.samples[number]]) for number in near]
        times = np.array([calm_level(np.concatenate(self.samples[number])) for number in near])
        errors = _errors(rounds, self.params.degrees)
        found = places(numbers, times / self.unit, errors / self.unit, self.params)
        candidates = np.arange(self.first, self.most + 1)
        probability = np.zeros(len(candidates))
        probability[numbers[:-1] - self.first] = found.probability
        self._posterior = Posterior(numbers=candidates, probability=probability, none=found.none)
        self.height = float(found.height[int(np.argmax(found.probability))]) * self.unit

    def _nothing(self, none: float) -> Posterior:
        numbers = np.arange(self.first, self.most + 1)
        return Posterior(numbers=numbers, probability=np.full(len(numbers), (1 - none) / len(numbers)), none=none)


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a search ends with. `decided`: one number, or the end of the range, has the wanted probability."""

    posterior: Posterior
    decided: bool
    questions: int


class SearchParams(msgspec.Struct, frozen=True, kw_only=True):
    """When a search stops.

    `certainty` is the posterior probability of one number that is enough: 0.99, as findings are reported with 0.95 and
    the model of the answers is never quite right. `least` questions are asked before any is trusted: with fewer, one
    disturbed batch decides. `most` questions bound its cost."""

    certainty: float = 0.99
    least: int = 6
    most: int = 60


def search(ask: Callable[[int], Times], curve: Curve, params: SearchParams) -> Found:
    """Ask until the threshold is decided or questions are spent. The curve may know earlier answers."""
    for count in range(1, params.most + 1):
        number = curve.question()
        curve.add(number, ask(number))
        found = curve.posterior()
        if count >= params.least and max(found.certainty, found.beyond) >= params.certainty:
            return Found(posterior=found, decided=True, questions=count)
    return Found(posterior=curve.posterior(), decided=False, questions=params.most)


def _errors(rounds: list[Times], degrees: float) -> Times:
    """Standard error of each number's time, from rounds of each: the scatter of its own rounds, moderated by what is
    usual, which counts as `degrees` further ones (Smyth 2004, Stat. Appl. Genet. Mol. Biol. 3:3)."""
    centred = [each - np.median(each) for each in rounds]
    usual = float(np.median(np.abs(np.concatenate(centred)))) / _OF_NORMAL
    counts = np.array([len(each) for each in rounds])
    squares = np.array([float((each**2).sum()) for each in centred])
    variance: Times = (squares + degrees * usual**2) / (counts - 1 + degrees)
    errors: Times = np.sqrt(variance / counts)
    return errors


_OF_NORMAL = 0.6745
"""Median absolute deviation of a standard normal."""


def _steps(first: int, most: int, ratio: float) -> list[int]:
    numbers = [first]
    while numbers[-1] < most:
        numbers.append(min(max(numbers[-1] + 1, int(numbers[-1] * ratio)), most))
    return numbers
