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
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import lgamma

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

LEAST_SHAPE = 3
"""A step that is blunter could also be that of a cache which keeps some lines for long, past where it was looked for,
and most for short."""


def survival(distance: Values, capacity: float, shape: int) -> Values:
    """Share of lines still held `distance` lines later, shape (n,), where they stay for `capacity` lines on average."""
    z = shape * distance / capacity
    numbers = np.arange(shape)
    factorials = np.array([lgamma(k + 1.0) for k in numbers])
    terms = np.exp(np.outer(numbers, np.log(np.maximum(z, 1e-300))) - z[None, :] - factorials[:, None])
    held: Values = np.minimum(terms.sum(axis=0), 1.0)
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
    found = [
        _solved(measured, known, lines, shapes)
        for lines in product(*starts)
        if all(inner < 0.99 * outer for inner, outer in pairwise(lines))
        for shapes in product(FIRST_SHAPES, repeat=len(lines))
    ]
    return improved(measured, known, min(found, key=lambda each: each.misfit))


def improved(measured: Curve, known: Known, begin: Fit, steps: Sequence[float] = STEPS) -> Fit:
    """Move one capacity or shape at a time as long as that explains the curve better."""
    found = _solved(measured, known, [each.lines for each in begin.steps], [each.shape for each in begin.steps])
    for step in steps:
        better = True
        while better:
            better = False
            for trial in _neighbours(found, step, known.first_lines is not None):
                new = _solved(measured, known, [each.lines for each in trial], [each.shape for each in trial])
                if new.misfit < found.misfit - 1e-9:
                    found, better = new, True
    return found


def _neighbours(found: Fit, step: float, first_known: bool) -> list[tuple[Step, ...]]:
    trials = []
    for number, own in enumerate(found.steps):
        at = SHAPES.index(own.shape)
        changed = [replace(own, shape=SHAPES[k]) for k in (at - 1, at + 1) if 0 <= k < len(SHAPES)]
        if number or not first_known:  # a blunter step may read as a later one, so both together too
            changed += [
                replace(each, lines=each.lines * np.exp(sign * step)) for each in (own, *changed) for sign in (-1, 1)
            ]
        trials += [(*found.steps[:number], each, *found.steps[number + 1 :]) for each in changed]
    return trials


def _solved(measured: Curve, known: Known, lines: Sequence[float], shapes: Sequence[int]) -> Fit:
    """The best heights for given places and shapes, by weighted least squares."""
    columns = [measured.share]
    columns += [-survival(measured.distance, own, shape) for own, shape in zip(lines, shapes, strict=True)]
    prior = np.array([1.0 / max(PRIOR_LEAST, PRIOR_SHARE * height) for height in known.heights])
    rows = np.vstack(
        [np.stack(columns, axis=1) / measured.error[:, None], np.hstack([np.zeros((len(prior), 1)), np.diag(prior)])]
    )
    right = np.concatenate([measured.cycles / measured.error, prior * np.array(known.heights)])
    solution, *_ = np.linalg.lstsq(rows, right, rcond=None)
    left = float(((rows @ solution - right) ** 2).sum())
    found = tuple(Step(float(a), s, float(h)) for a, s, h in zip(lines, shapes, solution[1:], strict=True))
    return Fit(found, float(solution[0]), left / max(len(measured.distance) - 3 * len(lines), 1))


@dataclass(frozen=True)
class Held:
    """Lines held up to a level, those of the levels before it that it doesn't hold itself included; whether that is all
    it holds (else there is room for so many at least); the shape of its step; and whether that alone, being `blunt`,
    leaves open if it is all."""

    lines: Estimate
    steady: bool
    shape: int
    blunt: bool = False


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
