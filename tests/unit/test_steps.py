"""Change points on synthetic staircases, slopes and mixtures, with the noise of a coarse clock."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from setebench.infer.in_flight import proven
from setebench.infer.steps import change_point, window
from setebench.measure.climb import climb

MISS = 400.0


def quantised(times: NDArray[np.float64], step: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Elapsed times as a clock with that step shows them when the start is dithered."""
    phase = rng.random(times.shape) * step
    return (np.floor((times + phase) / step)) * step


def staircase(entries: int, number: int, rng: np.random.Generator, slope: float = 3.0) -> NDArray[np.float64]:
    """Eight timings of `number` misses where `entries` are in flight at once, now and then disturbed."""
    times = np.ceil(number / entries) * MISS + slope * number + rng.normal(0, 15, 8)
    times[rng.random(8) < 0.1] += rng.exponential(2000)
    return quantised(times, 37.0, rng)


@pytest.mark.parametrize("entries", [1, 2, 3, 6, 10, 24, 64, 100])
def test_a_staircase_tells_its_period_and_repeats(entries: int) -> None:
    rng = np.random.default_rng(entries)
    found = climb(lambda n: staircase(entries, n, rng), 1, 256, MISS, rng)
    assert found.step is not None
    assert (found.step.last, found.step.low, found.step.high) == (entries, entries, entries)
    assert found.repeats


@pytest.mark.parametrize("per_request", [4.0, 12.0, 40.0])
def test_a_limit_of_the_rate_is_a_slope_and_no_jump(per_request: float) -> None:
    rng = np.random.default_rng(int(per_request))

    def measure(number: int) -> NDArray[np.float64]:
        return quantised(MISS + per_request * (number - 1) + rng.normal(0, 15, 8), 37.0, rng)

    found = climb(measure, 1, 256, MISS, rng)
    assert found.step is None
    assert proven(found) <= 1.1 * MISS / per_request + 1


def test_a_place_that_differs_from_round_to_round_gets_an_interval() -> None:
    rng = np.random.default_rng(5)
    numbers = window(20, 1)
    samples = {n: np.stack([staircase(int(rng.integers(18, 23)), n, rng) for _ in range(10)]) for n in numbers}
    step = change_point(samples, MISS, rng)
    assert step is None or step.low < step.high


def test_noise_alone_is_no_jump() -> None:
    rng = np.random.default_rng(6)
    samples = {n: MISS + rng.normal(0, 40, (10, 8)) for n in range(10, 20)}
    assert change_point(samples, MISS, rng) is None
