"""What a run can't see because it is slower than the run, on series whose spectrum is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from setebench.infer.drift import allan_variances, flicker_variance, over_run
from setebench.infer.ticks import over_rounds

ROUNDS, RUNS, TRIALS = 128, 16, 12


def flicker(rng: np.random.Generator, count: int, octave_sd: float) -> NDArray[np.float64]:
    """Noise with a variance of `octave_sd` ** 2 in every octave, from a value to the whole series: for each octave a
    value that is drawn anew at random times, on average once in its period."""
    total = np.zeros(count)
    for octave in range(int(np.log2(count)) + 1):
        anew = np.cumsum(rng.random(count) < 2.0**-octave)
        total += rng.normal(0.0, octave_sd, int(anew[-1]) + 1)[anew]
    return total


def test_independent_values_lose_half_their_variance_when_blocks_double() -> None:
    lengths, variances = allan_variances(np.random.default_rng(1).normal(500.0, 10.0, 4096))
    assert lengths[0] == 1
    assert variances[:6] * lengths[:6] == pytest.approx(100.0, rel=0.3)


def test_flicker_is_found_beside_white_noise() -> None:
    rng = np.random.default_rng(2)
    found = [flicker_variance(flicker(rng, 4096, 1.0) + rng.normal(0.0, 3.0, 4096)) for _ in range(8)]
    # twice the variance in an octave, were its edges sharp
    assert np.mean(found) == pytest.approx(2.0, rel=0.5)


def covered(noise: list[NDArray[np.float64]]) -> tuple[float, float]:
    """In how many runs the pooled value of neighbouring runs lies in the interval, and in that without drift."""
    within, without = [], []
    for series in noise:
        runs = (500.0 + series).reshape(RUNS, ROUNDS)
        pooled = runs.mean()
        within += [abs((each := over_run(run)).value - pooled) <= each.high - each.value for run in runs]
        without += [abs((each := over_rounds(run)).value - pooled) <= each.high - each.value for run in runs]
    return float(np.mean(within)), float(np.mean(without))


def test_intervals_cover_the_pooled_value_of_runs_that_drift() -> None:
    rng = np.random.default_rng(3)
    noise = [flicker(rng, RUNS * ROUNDS, 3.0) + rng.normal(0.0, 8.0, RUNS * ROUNDS) for _ in range(TRIALS)]
    within, without = covered(noise)
    assert within >= 0.9
    assert without < 0.75


def test_intervals_of_runs_that_do_not_drift_stay_narrow() -> None:
    rng = np.random.default_rng(4)
    series = rng.normal(500.0, 10.0, (100, ROUNDS))
    wider = [(over_run(run).high - run.mean()) / (over_rounds(run).high - run.mean()) for run in series]
    assert np.median(wider) < 1.5


def test_too_few_rounds_tell_nothing_of_drift() -> None:
    for values in ([500.0], [500.0, 510.0], [500.0, 510.0, 505.0]):
        assert over_run(values) == over_rounds(values)
