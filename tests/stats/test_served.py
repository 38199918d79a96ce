"""Densities of readings on a dithered clock, and which of several components served the loads of made-up intervals."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.stats.served import Intervals, LoadsParams, Readings, density, quantised_variance

PER_TICK, OVERHEAD, JITTER = 1.4, 40.0, 2.0
CYCLES, WEIGHTS = (55.0, 20.0, 376.0), (0.88, 0.1, 0.02)


def epoch(seed: int, step: float) -> Intervals:
    """Chains of four lengths, of loads that components of `CYCLES` serve by `WEIGHTS`."""
    rng = np.random.default_rng(seed)
    count = np.repeat((1, 2, 3, 4), 400)
    served = [rng.choice(CYCLES, each, p=WEIGHTS).sum() for each in count]
    durations = np.array(served) / PER_TICK + OVERHEAD + JITTER * rng.standard_normal(len(count))
    ticks = np.floor((durations + step * rng.random(len(count))) / step) * step
    return Intervals(count=count, ticks=ticks, step=step, jitter2=JITTER**2, cycles_per_tick=PER_TICK)


def test_the_density_of_readings_is_one_over_the_grid() -> None:
    readings = np.arange(-20, 40) * 7.0 + 3.0
    for duration in (100.0, 101.7, 104.9):
        shares = density(readings, np.full(len(readings), duration), JITTER**2, 7.0)
        assert shares.sum() == pytest.approx(1.0, abs=1e-6)
        assert shares @ readings == pytest.approx(duration, abs=1e-3)


def test_a_dithered_reading_varies_by_where_it_falls_between_two() -> None:
    assert quantised_variance(34.0, 34.0) == 0.0
    assert quantised_variance(17.0, 34.0) == pytest.approx(17.0**2)


@pytest.mark.parametrize("step", [1.0, 11.0, 34.0])
def test_loads_are_counted_for_those_who_served_them(step: float) -> None:
    """Of two epochs at once, each with its own weights; the likelihood is best at the true latencies."""
    made = [epoch(1, step), epoch(2, step)]
    readings, overhead = Readings(made, LoadsParams()), np.full(2, OVERHEAD)
    weights = np.array([WEIGHTS] * 2)
    found = readings.expect(np.array([CYCLES]), weights, overhead)
    shares = found.served / found.served.sum(axis=1, keepdims=True)
    assert shares == pytest.approx(weights, abs=0.03)
    assert found.served.sum(axis=1) == pytest.approx([one.count.sum() for one in made], rel=0.03)
    assert (found.stray < 0.03).all()
    for factor in (0.9, 1.1):
        other = readings.expect(factor * np.array([CYCLES]), weights, overhead)
        assert (other.likelihood < found.likelihood).all()


@pytest.mark.parametrize("step", [1.0, 11.0])
def test_readings_in_bins_say_what_each_does(step: float) -> None:
    made, overhead = [epoch(3, step)], np.array([OVERHEAD])
    fine, usual = (
        Readings(made, LoadsParams(bin=width)).expect(np.array([CYCLES]), np.array([WEIGHTS]), overhead)
        for width in (1e-3, LoadsParams().bin)
    )
    assert usual.served == pytest.approx(fine.served, rel=0.02, abs=1.0)
    assert usual.likelihood == pytest.approx(fine.likelihood, rel=0.01)
