"""Estimators on readings of a coarse clock whose true durations, step and shares of levels are known. All seeds are
fixed, all bounds follow from the number of samples."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from for_all import for_all
from numpy.typing import NDArray

from setebench.stats.ticks.clock import clock_step
from setebench.stats.ticks.location import mean_ticks, undisturbed
from setebench.stats.ticks.mixture import unmix

STEPS = (1.0, 24.45, 26.0)
TRUTHS = (0.3, 3.9, 17.25, 42.7, 130.01)
PHASES = (0.0, 0.31, 0.77)


def read_clock(
    rng: np.random.Generator,
    durations: NDArray[np.float64],
    waits: NDArray[np.float64],
    step: float,
    phase: float = 0.0,
) -> NDArray[np.int64]:
    """Elapsed ticks of `durations` (shape (n,), ticks) that begin `waits` after the same phase of some clock step.

    The clock shows whole ticks of its last step, so a step that is no whole number adds a rounding at each end."""
    begin = rng.integers(0, 100_000, len(durations)) * step + phase + waits
    return _shown(begin + durations, step) - _shown(begin, step)


def _shown(time: NDArray[np.float64], step: float) -> NDArray[np.int64]:
    return np.floor(np.floor(time / step) * step).astype(np.int64)


def uniform_waits(rng: np.random.Generator, count: int, step: float) -> NDArray[np.float64]:
    """Waits spread evenly over one step."""
    return rng.random(count) * step


def standard_error(ticks: NDArray[np.int64]) -> float:
    return float(ticks.std()) / len(ticks) ** 0.5


# ---- means below a step -------------------------------------------------------------------------------------------


@for_all({repr(case): case for case in product(STEPS, TRUTHS, PHASES)})
def test_the_mean_of_dithered_samples_is_the_true_duration(step: float, truth: float, phase: float) -> None:
    rng = np.random.default_rng(1)
    ticks = read_clock(rng, np.full(40_000, truth), uniform_waits(rng, 40_000, step), step, phase * step)
    assert mean_ticks(ticks, step) == pytest.approx(truth, abs=4.5 * standard_error(ticks) + 1e-9)


# ---- stalls -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.001, 0.02, 0.08])
@pytest.mark.parametrize("step", STEPS)
def test_stalls_are_left_out_and_nothing_else(step: float, share: float) -> None:
    rng = np.random.default_rng(4)
    count = 20_000
    clean = read_clock(rng, np.full(count, 48.3), uniform_waits(rng, count, step), step)
    stalled = rng.random(count) < share
    ticks = clean + np.where(stalled, rng.integers(2000, 200_000, count), 0)
    assert (undisturbed(ticks, step) == ~stalled).all()
    assert mean_ticks(ticks, step) == pytest.approx(48.3, abs=4.5 * standard_error(clean) + 1e-9)


# -- the clock's granularity from elapsed times alone ----------------------------------------------------------------


CLOCK_STEPS = (1.0, 2.0, 2.5, 4.0, 5.0, 5.1, 5.5, 10.0, 24.4543, 26.0, 38.4, 100.0)


def sweep(step: float, seed: int, repeats: int = 24, overhead: float = 43.0) -> NDArray[np.int64]:
    """Readings of waits of 1 to some 1,700 ticks, no two pairs equally far apart, as a machine takes them."""
    rng = np.random.default_rng(seed)
    durations = overhead + 0.77 * np.repeat(np.arange(48.0) ** 2, repeats)
    return read_clock(rng, durations, uniform_waits(rng, len(durations), step), step)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("step", CLOCK_STEPS)
def test_stalls_do_not_hide_a_step(step: float, seed: int) -> None:
    ticks = sweep(step, seed)
    hit = np.random.default_rng(seed).random(len(ticks)) < 0.01
    ticks[hit] += np.int64(1_000_003)
    assert clock_step(ticks) == pytest.approx(step, rel=0.005)


@pytest.mark.parametrize("seed", range(3))
def test_a_fine_clock_with_jitter_has_no_step(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert clock_step(sweep(1.0, seed) + rng.integers(0, 7, 48 * 24)) == 1.0


# -- shares of levels from mixed loads, on synthetic ticks whose shares are known ------------------------------------


LATENCIES = {"l1": (4.0, 0.3), "l2": (14.0, 0.6), "l3": (50.0, 4.0), "memory": (420.0, 35.0)}
CYCLES_PER_TICK = 1.6
MIXTURES = ((1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), (0.0, 0.6, 0.4, 0.0), (0.1, 0.2, 0.3, 0.4))


def loads(rng: np.random.Generator, level: str, count: int, step: float) -> NDArray[np.int64]:
    """Dithered readings of single loads on a clock of that step."""
    latency, spread = LATENCIES[level]
    ticks = 43.0 + (latency + spread * rng.standard_normal(count)) / CYCLES_PER_TICK
    return (np.floor(ticks / step + rng.random(count)) * step).astype(np.int64)


def mixed(rng: np.random.Generator, shares: tuple[float, ...], count: int, step: float) -> NDArray[np.int64]:
    counts = rng.multinomial(count, shares)
    return np.concatenate([loads(rng, level, n, step) for level, n in zip(LATENCIES, counts, strict=True)])


def references(rng: np.random.Generator, step: float) -> dict[str, NDArray[np.int64]]:
    return {level: loads(rng, level, 600, step) for level in LATENCIES}


@pytest.mark.parametrize("step", [1.0, 26.0])
def test_shares_of_levels_are_found_in_a_mixture(step: float) -> None:
    """A step of 26 ticks hides L1 from L2 in most single readings."""
    rng = np.random.default_rng(5)
    sets = [mixed(rng, shares, 400, step) for shares in MIXTURES]
    errors = np.abs(unmix(references(rng, step), sets).value - np.array(MIXTURES))
    assert np.max(errors[:, 2:]) < 0.1 and np.mean(errors[:, :2]) < 0.2


def test_loads_a_little_slower_than_a_level_are_of_it() -> None:
    """As behind a queue; half of the way to the next level is far."""
    known = {"l1": np.array([7, 8] * 200), "l2": np.array([28, 29] * 200), "memory": 324 + np.arange(400) % 29}
    assert unmix(known, [np.full(16, 38)]).value[0, 1] > 0.9
