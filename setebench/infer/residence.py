"""How much a cache holds, from how soon lines that passed through it are gone. Knows no machine.

A stream of lines, each new to the cache, puts one line in per access. So the number of lines held is the mean number
of further lines that pass until one is gone: Little's law, whatever is replaced and however sets are chosen. Loads of
lines that passed a known number of lines ago cost the nearest level's time at first and memory's at last, with one
smooth step per level; a level's capacity is the mean place of its step.

The shape of a step is that of a gamma distribution: exactly so for sets of `shape` ways that replace the oldest line
and get lines at random, and for random replacement (shape 1); anything between is close to one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from setebench.infer.ticks import Estimate

Values = NDArray[np.float64]

SHAPES = (1, 2, 3, 4, 6, 8, 11, 16, 24, 40)
"""Shapes of a step: ways of a set under the oldest-first order, fewer the more the replacement is random."""

FIRST_SHAPES = (2, 8)
BINS_PER_OCTAVE = 6
LEAST_SAMPLES = 8
"""Loads of a bin at least; a mean of fewer has no spread to speak of."""

STEPS = (0.25, 0.08, 0.03, 0.01)
"""Parts by which capacities are moved while the fit gets better."""

PRIOR_SHARE, PRIOR_LEAST = 0.08, 1.5
"""Standard deviation of what is known of a step's height beforehand: this share of it, cycles at least."""

LEAST_GAIN = 1e-9
"""A trial is better by so much at least, or rounding would have two of them take turns."""

BOOTSTRAPS = 24

SYSTEMATIC = 0.03
"""Half an interval at least: probes that bring lines in, shapes between those of the model."""

LOST_ROOM = 0.06
"""So much more a cache may hold than walks that agree leave there: a prefetcher's lines and holes that it makes in an
exclusive cache take that much in all orders alike."""

SAME_RATIO = 1.07
"""Capacities found on different walks are the same within this ratio, or as far as chance goes."""

BLUNT_APART = 0.2
"""Walks over a cache that replaces at random differ so much by chance; then all that any of them leaves is possible."""

MOST_DECAY = 600.0
"""Exponents beyond which nothing is held any more, even with as many terms as the sharpest shape has."""

LEAST_SHAPE = 3
"""A step that is blunter could also be that of a cache which keeps some lines for long, past where it was looked for,
and most for short."""


def survival(distance: Values, capacities: Values, shapes: NDArray[np.int64]) -> Values:
    """Share of lines still held `distance` lines later, distance of shape (n,), where they stay for so many lines on
    average, by steps of such shapes; both of shape (steps,). The result has shape (steps, n)."""
    # where e^-z comes near to the smallest numbers, nothing is held of any shape
    z = np.minimum(shapes[:, None] * distance[None, :] / capacities[:, None], MOST_DECAY)
    total = np.ones_like(z)
    for term in range(int(shapes.max()) - 1, 0, -1):
        total = 1.0 + total * z * ((term < shapes) / term)[:, None]
    held: Values = np.minimum(np.exp(-z) * total, 1.0)
    return held


@dataclass(frozen=True)
class Curve:
    """By how many lines passed since (`distance`): which share of the loads counts, the cycles of those per load (of
    all loads, so that what doesn't count is nought), and the error of that; shape (bins,) each."""

    distance: Values
    share: Values
    cycles: Values
    error: Values


def curve(distance: Values, cycles: Values, beyond: float = np.inf, rng: np.random.Generator | None = None) -> Curve:
    """Loads in bins of distance, shapes (n,) each. Only loads of less than `beyond` cycles count: a level further out
    that is clearly told load by load has no part in the steps before it. With `rng`, loads drawn anew."""
    if rng is not None:
        drawn = rng.integers(0, len(distance), len(distance))
        distance, cycles = distance[drawn], cycles[drawn]
    number = np.floor(np.log2(distance) * BINS_PER_OCTAVE).astype(np.int64)
    number -= number.min()
    near = (cycles < beyond).astype(np.float64)
    count, counted = np.bincount(number), np.bincount(number, near)
    least, inside = np.maximum(count, 1), np.maximum(counted, 1)
    means = np.bincount(number, near * cycles) / inside
    variance = np.bincount(number, near * (cycles - means[number]) ** 2) / inside
    kept = count >= LEAST_SAMPLES
    pooled = float(np.median(variance[kept]))
    # a bin whose few loads happen to agree knows no better than its neighbours
    error = np.sqrt((variance * counted / least + 0.25 * pooled + 0.01) / least)
    middle = np.bincount(number, distance) / least
    return Curve(middle[kept], (counted / least)[kept], (means * counted / least)[kept], error[kept])


@dataclass(frozen=True)
class Step:
    """One level's step: lines that are held up to it, levels before it included; its shape; its height in cycles."""

    lines: float
    shape: int
    height: float


@dataclass(frozen=True)
class Fit:
    """Steps, nearest level first; what loads beyond the last one read; squared errors per degree of freedom."""

    steps: tuple[Step, ...]
    beyond: float
    misfit: float


@dataclass(frozen=True)
class Known:
    """What is known before: lines of the first level (None if not), and about how many cycles each step costs."""

    first_lines: float | None
    heights: tuple[float, ...]


def fit(measured: Curve, known: Known, starts: Sequence[Sequence[float]]) -> Fit:
    """Steps that explain a curve best. `starts` are capacities in lines to begin with, several for each step, no
    further apart than an octave: the best of all combinations is improved."""
    trials = [
        tuple(zip(lines, shapes, strict=True))
        for lines in product(*starts)
        if all(inner < 0.99 * outer for inner, outer in pairwise(lines))
        for shapes in product(FIRST_SHAPES, repeat=len(lines))
    ]
    problem = _Problem(measured, known)
    return _improved(problem, trials[int(np.argmin(problem.misfits(trials)))], STEPS)


def improved(measured: Curve, known: Known, begin: Fit, steps: Sequence[float] = STEPS) -> Fit:
    """Move one capacity or shape at a time as long as that explains the curve better."""
    return _improved(_Problem(measured, known), tuple((each.lines, each.shape) for each in begin.steps), steps)


Trial = tuple[tuple[float, int], ...]
"""Lines and shape of every step."""


def _improved(problem: _Problem, found: Trial, steps: Sequence[float]) -> Fit:
    (least,) = problem.misfits([found])
    for step in steps:
        while True:
            trials = _neighbours(found, step, problem.known.first_lines is not None)
            misfits = problem.misfits(trials)
            best = int(np.argmin(misfits))
            if not misfits[best] < least - LEAST_GAIN:  # nor where it is no number
                break
            found, least = trials[best], misfits[best]
    return problem.solved(found)


def _neighbours(found: Trial, step: float, first_known: bool) -> list[Trial]:
    trials = []
    for number, (lines, shape) in enumerate(found):
        at = SHAPES.index(shape)
        changed = [(lines, SHAPES[k]) for k in (at - 1, at + 1) if 0 <= k < len(SHAPES)]
        if number or not first_known:  # a blunter step may read as a later one, so both together too
            blunter = [shape, *(each for _, each in changed)]
            changed += [(lines * float(np.exp(sign * step)), each) for each in blunter for sign in (-1, 1)]
        trials += [(*found[:number], each, *found[number + 1 :]) for each in changed]
    return trials


class _Problem:
    """Least squares for one curve: for given places and shapes of the steps, the heights that explain it best."""

    def __init__(self, measured: Curve, known: Known) -> None:
        self.measured, self.known = measured, known
        self._prior = np.array([1.0 / max(PRIOR_LEAST, PRIOR_SHARE * height) for height in known.heights])
        self._right = np.concatenate([measured.cycles / measured.error, self._prior * np.array(known.heights)])

    def misfits(self, trials: Sequence[Trial]) -> Values:
        """Squared errors per degree of freedom with the best heights, shape (trials,)."""
        rows = self._rows(trials)
        # what is known of the heights keeps the columns apart even where two steps lie at one place
        basis, _ = np.linalg.qr(rows)
        explained = (basis @ (basis.transpose(0, 2, 1) @ self._right)[:, :, None])[:, :, 0]
        misfits: Values = ((self._right - explained) ** 2).sum(axis=1) / self._freedom(trials[0])
        return misfits

    def solved(self, trial: Trial) -> Fit:
        """These steps with the best heights."""
        (rows,) = self._rows([trial])
        solution, *_ = np.linalg.lstsq(rows, self._right, rcond=None)
        left = float(((rows @ solution - self._right) ** 2).sum())
        steps = tuple(Step(lines, shape, float(h)) for (lines, shape), h in zip(trial, solution[1:], strict=True))
        return Fit(steps, float(solution[0]), left / self._freedom(trial))

    def _freedom(self, trial: Trial) -> int:
        return max(len(self.measured.distance) - 3 * len(trial), 1)

    def _rows(self, trials: Sequence[Trial]) -> Values:
        """The equations of every trial, shape (trials, bins + steps, 1 + steps)."""
        measured, bins = self.measured, len(self.measured.distance)
        numbers: dict[tuple[float, int], int] = {}
        index = np.array([[numbers.setdefault(step, len(numbers)) for step in trial] for trial in trials])
        lines, shapes = (np.array(each) for each in zip(*numbers, strict=True))
        rows = np.zeros((len(trials), bins + index.shape[1], 1 + index.shape[1]))
        rows[:, :bins, 0] = measured.share / measured.error
        rows[:, :bins, 1:] = -(survival(measured.distance, lines, shapes) / measured.error)[index].transpose(0, 2, 1)
        rows[:, bins:, 1:] = np.diag(self._prior)
        return rows


@dataclass(frozen=True)
class Held:
    """Lines held up to a level, those of the levels before it that it doesn't hold itself included; whether that is all
    it holds (else there is room for so many at least); the shape of its step; and whether that alone, being `blunt`,
    leaves open if it is all. Beside a `tenant`, who ran on another thread of the core, some of it was his."""

    lines: Estimate
    steady: bool
    shape: int
    blunt: bool = False
    tenant: bool = False


def held(lines: float, shape: int, again: Sequence[float]) -> Held:
    """What one walk found; `again` is what loads drawn anew did."""
    half = 2.0 * float(np.std(again)) + SYSTEMATIC * lines
    return Held(Estimate(lines, lines - half, lines + half), True, shape)


def agreed(found: Sequence[Held], walks: int) -> Held | None:
    """One result of several walks; `walks` were meant to tell. Whatever differs between them takes room away, so where
    they don't agree the largest counts, and only from below."""
    if not found:
        return None
    most = max(found, key=lambda each: each.lines.value)
    least = min(found, key=lambda each: each.lines.value)
    value = float(np.mean([each.lines.value for each in found]))
    chance = float(np.mean([each.lines.high - each.lines.value for each in found])) - SYSTEMATIC * value
    apart = most.lines.value - least.lines.value
    if len(found) < walks or apart > max((SAME_RATIO - 1.0) * value, 2**0.5 * chance):
        if len(found) == walks and max(each.shape for each in found) < LEAST_SHAPE and apart < BLUNT_APART * value:
            low, high = min(each.lines.low for each in found), max(each.lines.high for each in found)
            return Held(Estimate(value, low, high + LOST_ROOM * value), False, most.shape, blunt=True)
        return Held(most.lines, False, most.shape)
    low = min(value - chance / len(found) ** 0.5, least.lines.value) - SYSTEMATIC * value
    high = max(value + chance / len(found) ** 0.5, most.lines.value) + (SYSTEMATIC + LOST_ROOM) * value
    shape = min(each.shape for each in found)
    return Held(Estimate(value, low, high), shape >= LEAST_SHAPE, shape, blunt=shape < LEAST_SHAPE)


def plain_sizes(low: float, high: float) -> set[int]:
    """Sizes in bytes that caches have: a power of two times 4, 5, 6 or 7. That is what a power of two of sets makes
    with any number of ways up to 8, and with 10, 12, 14, 16, 20 and 24; an interval without any tells no size."""
    found = set()
    for power in range(10, 40):
        found |= {number << power for number in (4, 5, 6, 7) if low <= number << power <= high}
    return found


def sizes_with_ways(low: float, high: float, ways: int, line_bytes: int, times: tuple[int, ...] = (1,)) -> set[int]:
    """Sizes in bytes of a power of two of sets of so many ways, or so many `times` that."""
    sizes = {each * ways * line_bytes << power for power in range(30) for each in times}
    return {size for size in sizes if low <= size <= high}
