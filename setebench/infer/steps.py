"""Where a time jumps as more is asked for at once: change points with bootstrap intervals. Knows no machine.

A queue with L places answers up to L requests in the time of one; the next has to wait for the first to leave. So time
over the number of requests is a staircase. What only limits the rate (a bus, a port) makes it a slope. A jump is told
from a slope by its height between neighbouring numbers, beside what the numbers around them add.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from setebench.infer.levels import rising

CALM_FROM, CALM_TO = 0.2, 0.6
"""Samples are ordered and averaged between these shares. What disturbs a volley makes it longer, and seldom shorter (a
line that was there already), so the slow ones are left out more freely. Trimming biases a quantised mean by less than
a clock step, alike for all numbers, and jumps are several steps high."""

LEAST_RISE = 0.2
"""A jump is at least this share of the time that one request takes. The first place is free again after one request
time, less what the requests before it needed to set out, and less how much request times differ."""

SLOPE_RATIO = 4.0
"""A jump is at least this many times what one more request adds before it. Between noisy points of a slope the largest
difference is two or three times the usual one."""

CEILING_UNITS = 1.2
"""Times are cut so many request times above the lowest in the window: higher than a first jump ever is."""

WINDOW_BEFORE, WINDOW_BEHIND = 5, 5
"""Numbers on either side of a jump that are measured one by one."""

LEAST_FOR_SLOPE = 6
"""A window of fewer numbers can't tell a slope beside the jump."""

Samples = Mapping[int, NDArray[np.float64]]
"""By number of requests: times, shape (rounds, repetitions)."""


@dataclass(frozen=True)
class Step:
    """Time jumps by `height` behind the number `last`; `low` and `high` bound that number at 95 %."""

    last: int
    low: int
    high: int
    height: float


def calm_level(times: NDArray[np.float64]) -> float:
    """Time in the calm part of the samples (any shape), see `CALM_FROM`."""
    return float(calm_levels(times[np.newaxis])[0])


def calm_levels(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """As `calm_level`, for each first index."""
    ordered = np.sort(times.reshape(len(times), -1), axis=1)
    size = ordered.shape[1]
    begin, end = int(CALM_FROM * size), max(int(CALM_TO * size), 1)
    part: NDArray[np.float64] = ordered[:, min(begin, end - 1) : end].mean(axis=1)
    return part


def curve(samples: Samples) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Numbers in ascending order and the calm time of each, shape (numbers,) each."""
    numbers = np.array(sorted(samples), dtype=np.int64)
    return numbers, np.array([calm_level(samples[int(number)]) for number in numbers])


@dataclass
class Staircase:
    """What was measured, by number of requests; the jump in it, and whether the next one came where it should."""

    unit: float
    samples: dict[int, list[NDArray[np.float64]]] = field(default_factory=dict)
    step: Step | None = None
    repeats: bool | None = None

    @property
    def largest(self) -> int:
        """The largest number measured."""
        return max(self.samples)

    def level(self, number: int) -> float:
        """Calm time of a number."""
        return calm_level(np.concatenate(self.samples[number]))

    def curve(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Numbers, and the calm time of each; shape (numbers,) each."""
        return curve({number: np.stack(own) for number, own in self.samples.items()})


def first_rise(numbers: NDArray[np.int64], times: NDArray[np.float64], unit: float, from_number: int = 0) -> int | None:
    """Index of the first number from `from_number` on behind which time rises by `LEAST_RISE` of `unit`, None without.

    A time that a larger number undercuts was disturbed, and is cut to that."""
    rises = np.diff(rising(times))
    found = np.flatnonzero((rises > LEAST_RISE * unit) & (numbers[:-1] >= from_number))
    return int(found[0]) if len(found) else None


def window(last: int, first: int) -> range:
    """Numbers to measure one by one around a jump behind `last`. Ends before the next jump: that comes after as many
    requests again, at twice the number."""
    return range(max(first, last - WINDOW_BEFORE), min(last + WINDOW_BEHIND, max(2 * last, last + 1)) + 1)


def change_point(samples: Samples, unit: float, rng: np.random.Generator, resamples: int = 400) -> Step | None:
    """The jump in a window of neighbouring numbers (see `window`), None where there is no jump.

    The model is a line with a jump, fitted by least squares for every possible place of the jump; the interval comes
    from fitting it to rounds drawn anew, with replacement, for every number. `unit` is the time of one request."""
    numbers, whole = curve(samples)
    # what follows the first jump may be as steep as it, where every further request waits for one before it
    ceiling = whole.min() + CEILING_UNITS * unit
    times = np.minimum(whole, ceiling)
    models = _models(numbers)
    places, heights = _fits(models, times[np.newaxis])
    last, height = int(numbers[places[0]]), float(heights[0])
    if height < LEAST_RISE * unit or not _sudden(numbers, times, last, unit):
        return None
    found = numbers[_fits(models, np.minimum(_resampled(samples, rng, resamples), ceiling))[0]]
    low, high = np.quantile(found, (0.025, 0.975), method="inverted_cdf")
    return Step(last, min(int(low), last), max(int(high), last), height)


def _resampled(samples: Samples, rng: np.random.Generator, resamples: int) -> NDArray[np.float64]:
    """Calm times of all numbers, in ascending order, with rounds drawn anew; shape (resamples, numbers)."""
    drawn = {number: np.empty((resamples, len(own)), dtype=np.int64) for number, own in samples.items()}
    for resample in range(resamples):
        for number, own in samples.items():
            drawn[number][resample] = rng.integers(0, len(own), len(own))
    return np.stack([calm_levels(samples[number][drawn[number]]) for number in sorted(samples)], axis=1)


def _sudden(numbers: NDArray[np.int64], times: NDArray[np.float64], last: int, unit: float) -> bool:
    """Whether time rises from `last` to the next number as it does not between numbers before."""
    at = int(np.flatnonzero(numbers == last)[0])
    rises = np.diff(times)
    before = float(np.median(np.abs(rises[:at]))) if at else 0.0
    return bool(rises[at] > max(LEAST_RISE * unit, SLOPE_RATIO * before))


@dataclass(frozen=True)
class _Models:
    """For every possible place of the jump what takes times to what the model leaves unexplained, shape (places,
    numbers, numbers), and to the height of its jump, shape (places, numbers)."""

    rest: NDArray[np.float64]
    height: NDArray[np.float64]


def _models(numbers: NDArray[np.int64]) -> _Models:
    """Least squares with columns (1, jump, number)."""
    designs = _designs(numbers)
    inverses = [np.linalg.pinv(design) for design in designs]
    rest = [np.eye(len(numbers)) - design @ inverse for design, inverse in zip(designs, inverses, strict=True)]
    return _Models(np.stack(rest), np.stack([inverse[1] for inverse in inverses]))


def _designs(numbers: NDArray[np.int64]) -> list[NDArray[np.float64]]:
    """One design matrix per possible place of the jump."""
    centred = (numbers - numbers.mean()).astype(np.float64)
    found = []
    for place in range(len(numbers) - 1):
        columns = [np.ones(len(numbers)), (np.arange(len(numbers)) > place).astype(np.float64)]
        if len(numbers) >= LEAST_FOR_SLOPE and 0 < place < len(numbers) - 2:
            columns.append(centred)
        found.append(np.stack(columns, axis=1))
    return found


def _fits(models: _Models, times: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Of times in rows, (index of the number before the jump, its height) of the best model: least is unexplained."""
    left = (np.tensordot(times, models.rest, axes=(1, 2)) ** 2).sum(axis=2)
    places = left.argmin(axis=1)
    return places, (models.height[places] * times).sum(axis=1)
