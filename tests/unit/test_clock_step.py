"""The clock's granularity from elapsed times alone: the step itself, never a multiple and never a part of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from quantised import read_clock, uniform_waits

from setebench.stats.ticks.clock import clock_step

STEPS = (1.0, 2.0, 2.5, 4.0, 5.0, 5.1, 5.5, 10.0, 24.4543, 26.0, 38.4, 100.0)


def sweep(step: float, seed: int, repeats: int = 24, overhead: float = 43.0) -> NDArray[np.int64]:
    """Readings of waits of 1 to some 1,700 ticks, no two pairs equally far apart, as a machine takes them."""
    rng = np.random.default_rng(seed)
    durations = overhead + 0.77 * np.repeat(np.arange(48.0) ** 2, repeats)
    return read_clock(rng, durations, uniform_waits(rng, len(durations), step), step)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("step", [step for step in STEPS if step > 20])
def test_a_tick_of_jitter_does_not_hide_a_step(step: float, seed: int) -> None:
    ticks = sweep(step, seed)
    ticks += np.random.default_rng(seed).integers(-1, 2, len(ticks))
    assert clock_step(ticks) == pytest.approx(step, rel=0.005)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("step", STEPS)
def test_stalls_do_not_hide_a_step(step: float, seed: int) -> None:
    ticks = sweep(step, seed)
    hit = np.random.default_rng(seed).random(len(ticks)) < 0.01
    ticks[hit] += np.int64(1_000_003)
    assert clock_step(ticks) == pytest.approx(step, rel=0.005)


@settings(max_examples=25, deadline=None)
@given(st.floats(2.0, 300.0), st.integers(0, 1000))
def test_any_step_is_found(step: float, seed: int) -> None:
    assert clock_step(sweep(step, seed)) == pytest.approx(step, rel=0.003)


@pytest.mark.parametrize("seed", range(3))
def test_a_fine_clock_with_jitter_has_no_step(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert clock_step(sweep(1.0, seed) + rng.integers(0, 7, 48 * 24)) == 1.0
