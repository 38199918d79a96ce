"""Estimators on readings of a coarse clock whose true durations are known. All seeds are fixed, all bounds follow from
the number of samples."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from for_all import for_all
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from quantised import read_clock, triangular_waits, uniform_waits

from setebench.stats.ticks.location import (
    Interval,
    dominant,
    mean_ticks,
    over_replicates,
    undisturbed,
)

STEPS = (1.0, 24.45, 26.0)
TRUTHS = (0.3, 3.9, 17.25, 42.7, 130.01)
PHASES = (0.0, 0.31, 0.77)


def standard_error(ticks: NDArray[np.int64]) -> float:
    return float(ticks.std()) / len(ticks) ** 0.5


# ---- means below a step -------------------------------------------------------------------------------------------


@for_all({repr(case): case for case in product(STEPS, TRUTHS, PHASES)})
def test_the_mean_of_dithered_samples_is_the_true_duration(step: float, truth: float, phase: float) -> None:
    rng = np.random.default_rng(1)
    ticks = read_clock(rng, np.full(40_000, truth), uniform_waits(rng, 40_000, step), step, phase * step)
    assert mean_ticks(ticks, step) == pytest.approx(truth, abs=4.5 * standard_error(ticks) + 1e-9)


@for_all({repr(case): case for case in product(STEPS, TRUTHS, PHASES, (-0.1, 0.1))})
def test_triangular_waits_forgive_a_step_that_is_a_tenth_wrong(
    step: float, truth: float, phase: float, error: float
) -> None:
    rng = np.random.default_rng(2)
    waits = triangular_waits(rng, 40_000, step * (1 + error))
    ticks = read_clock(rng, np.full(40_000, truth), waits, step, phase * step)
    # what is left of a rounding after both waits: twice step/pi times the square of the error
    bias = 2 * step / np.pi * (error / (1 + error)) ** 2 * 1.1
    assert mean_ticks(ticks, step) == pytest.approx(truth, abs=4.5 * standard_error(ticks) + bias)


# ---- stalls -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.001, 0.02, 0.08])
@pytest.mark.parametrize("step", STEPS)
def test_stalls_are_left_out_and_nothing_else(step: float, share: float) -> None:
    rng = np.random.default_rng(4)
    count = 20_000
    clean = read_clock(rng, np.full(count, 48.3), triangular_waits(rng, count, step), step)
    stalled = rng.random(count) < share
    ticks = clean + np.where(stalled, rng.integers(2000, 200_000, count), 0)
    assert (undisturbed(ticks, step) == ~stalled).all()
    assert mean_ticks(ticks, step) == pytest.approx(48.3, abs=4.5 * standard_error(clean) + 1e-9)


def test_the_tail_of_memory_stays() -> None:
    rng = np.random.default_rng(5)
    ticks = (250 + rng.gamma(2.0, 12.0, 10_000)).astype(np.int64)
    assert undisturbed(ticks).mean() > 0.999


# ---- mixtures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("share", [0.55, 0.7, 0.9, 0.99])
def test_the_larger_of_two_groups_is_kept_whole(step: float, share: float) -> None:
    rng = np.random.default_rng(6)
    count = 8000
    near = rng.random(count) < share
    truth = np.where(near, 60.0, 360.0)
    ticks = read_clock(rng, truth, triangular_waits(rng, count, step), step)
    kept = dominant(ticks, step)
    assert (kept == near).all()
    assert mean_ticks(ticks[kept], step) == pytest.approx(60.0, abs=4.5 * standard_error(ticks[near]) + 1e-9)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=300), st.sampled_from(STEPS))
def test_some_samples_are_always_kept(values: list[int], step: float) -> None:
    ticks = np.array(values, dtype=np.int64)
    assert dominant(ticks, step).any()
    assert undisturbed(ticks, step).any()


# ---- intervals ----------------------------------------------------------------------------------------------------

TRIALS = 1000
LEAST_COVERED, MOST_COVERED = 0.91, 0.99
"""Plain t intervals cover 95 %; Yuen's, on few values, 93 to 95 %. In 1,000 trials a share of 94 % comes out within
0.75 %; four of those are 3 %."""


def covered(intervals: list[Interval], truth: float) -> float:
    return float(np.mean([each.low <= truth <= each.high for each in intervals]))


@pytest.mark.parametrize("count", [2, 3, 4, 6, 8, 12, 16, 30])
def test_replicate_intervals_cover_what_they_claim(count: int) -> None:
    rng = np.random.default_rng(9)
    intervals = [over_replicates(rng.normal(14.0, 0.3, count)) for _ in range(TRIALS)]
    assert LEAST_COVERED <= covered(intervals, 14.0) <= MOST_COVERED


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40))
def test_an_interval_holds_its_value_which_lies_among_the_replicates(values: list[float]) -> None:
    found = over_replicates(values)
    slack = 1e-9 * max(map(abs, values), default=1)
    assert found.low <= found.value <= found.high
    assert min(values) - slack <= found.value <= max(values) + slack
    assert over_replicates(values[::-1]) == found
