"""What a run can't see because it is slower than the run, on series whose spectrum is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from setebench.stats.drift import allan_variances, drift_half_width, over_time

RUNS, SERIES = 16, 12
"""Runs in a row whose pooled value each run should cover, and how many such series."""


def white(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Independent values."""
    return rng.normal(0.0, 8.0, count)


def flicker(rng: np.random.Generator, count: int, octave_sd: float) -> NDArray[np.float64]:
    """Noise with a variance of `octave_sd` ** 2 in every octave, from a value to the whole series: for each octave a
    value that is drawn anew at random times, on average once in its period."""
    total = np.zeros(count)
    for octave in range(int(np.log2(count)) + 1):
        anew = np.cumsum(rng.random(count) < 2.0**-octave)
        total += rng.normal(0.0, octave_sd, int(anew[-1]) + 1)[anew]
    return total


def walk(rng: np.random.Generator, count: int, rounds: int) -> NDArray[np.float64]:
    """A random walk that goes twice as far in a run of `rounds` as that run's mean is uncertain by its white noise."""
    return np.cumsum(rng.normal(0.0, 2 * 8.0 / rounds, count))


def runs(seed: int, rounds: int, octave_sd: float) -> list[NDArray[np.float64]]:
    """Series of runs, shape (RUNS, rounds) each, with a flicker of `octave_sd` beside white noise of 8."""
    rng = np.random.default_rng((seed, rounds))
    count = RUNS * rounds
    made = [white(rng, count) + (flicker(rng, count, octave_sd) if octave_sd else 0.0) for _ in range(SERIES)]
    return [500.0 + series.reshape(RUNS, rounds) for series in made]


def half_width(values: NDArray[np.float64]) -> float:
    """Of the interval over a run."""
    return over_time(values).half_width


def coverage(series: list[NDArray[np.float64]]) -> float:
    """In how many runs the pooled value of their series lies in the interval."""
    estimates = [(over_time(run), own.mean()) for own in series for run in own]
    return float(np.mean([each.low <= pooled <= each.high for each, pooled in estimates]))


def test_independent_values_lose_half_their_variance_when_blocks_double() -> None:
    variances, counts = allan_variances(np.random.default_rng(1).normal(500.0, 10.0, 4096))
    assert counts.tolist() == [2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1]
    assert variances[:6] * 2.0 ** np.arange(6) == pytest.approx(100.0, rel=0.3)


def test_flicker_keeps_its_variance_when_blocks_double() -> None:
    rng = np.random.default_rng(2)
    found = np.mean([allan_variances(flicker(rng, 4096, 1.0))[0][1:9] for _ in range(16)], axis=0)
    assert found.max() < 2 * found.min()


@pytest.mark.parametrize(("octave_sd", "least"), [(0.0, 0.9), (0.8, 0.9), (2.4, 0.9), (8.0, 0.82)])
@pytest.mark.parametrize("rounds", [8, 12, 32, 128])
def test_intervals_cover_the_pooled_value_of_many_runs(rounds: int, octave_sd: float, least: float) -> None:
    """Nine times in ten, with no drift as with some that no run can see. Where an octave of drift is as strong as all
    other noise, twelve rounds hardly tell the two apart: over 40 series 87 %."""
    assert coverage(runs(3, rounds, octave_sd)) >= least


@pytest.mark.parametrize("rounds", [8, 32, 128])
def test_what_is_shared_gets_room_for_drift_that_no_run_sees(rounds: int) -> None:
    """Such as after a run whose halves happen to be alike."""
    series = np.random.default_rng(7).normal(500.0, 8.0, rounds)
    series = np.concatenate([series, series])
    bare, shared = over_time(series), over_time(series, shared=True)
    assert shared.high - shared.value > 2.0 * 1.96 * 8.0 / np.sqrt(2 * rounds)
    assert shared.high >= bare.high


@pytest.mark.parametrize(("rounds", "wider"), [(8, 2.8), (12, 3.2), (32, 2.8), (128, 2.3)])
def test_intervals_of_runs_that_do_not_drift_stay_narrow(rounds: int, wider: float) -> None:
    """Few rounds can't rule much drift out; more rounds can."""
    own = np.concatenate(runs(4, rounds, 0.0))
    exact = 1.96 * 8.0 / np.sqrt(rounds)
    assert np.mean([half_width(run) for run in own]) < wider * exact


def test_a_walk_beside_noise_is_covered_in_the_next_run() -> None:
    """Steeper than flicker, so beyond what the room is made for: how far it goes in an hour no run of seconds tells."""
    rng = np.random.default_rng(5)
    covered = []
    for rounds in (12, 32, 128):
        for _ in range(200):
            here, following = 500.0 + walk(rng, 2 * rounds, rounds).reshape(2, rounds) + rng.normal(0, 8, (2, rounds))
            covered.append(abs(over_time(here).value - following.mean()) <= half_width(here))
    assert np.mean(covered) >= 0.9


def test_more_of_the_same_noise_never_makes_an_interval_much_wider() -> None:
    """An estimate of the flicker's strength, which is 0 or far too much in most short runs, would."""
    widths = [half_width(run) for run in np.concatenate(runs(6, 12, 0.0))]
    assert np.quantile(widths, 0.95) < 2.5 * np.median(widths)


def test_values_that_do_not_vary_leave_no_room() -> None:
    assert drift_half_width(np.full(16, 500.0)) == 0.0
    assert over_time(np.full(16, 500.0)).half_width == 0.0


def test_a_single_epoch_has_no_interval() -> None:
    assert over_time([500.0]).half_width == np.inf


def test_a_burst_in_a_quarter_of_the_epochs_moves_the_mean_by_less_than_its_error() -> None:
    series = np.random.default_rng(8).normal(500.0, 8.0, 32)
    disturbed = series + np.where(np.arange(32) % 5 == 0, 400.0, 0.0)
    assert abs(over_time(disturbed).value - over_time(series).value) < over_time(disturbed).half_width
