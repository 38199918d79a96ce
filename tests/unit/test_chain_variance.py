"""By how much chains vary with each step, on a clock whose step is far longer than a load."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from quantised import read_clock, triangular_waits

from setebench.infer.chains import Chained, quantised_variance, steps_alone

STEP, PER_TICK, LEVEL, FURTHER, LENGTHS = 26, 1.42, 14.0, 50.0, (2, 4, 8)


def chains(rng: np.random.Generator, count: int, steps: int, lost: float, overhead_ticks: float) -> NDArray[np.int64]:
    """Ticks of chains whose lines take `LEVEL` cycles, or `FURTHER` with a probability of `lost`."""
    cycles = np.where(rng.random((count, steps)) < lost, FURTHER, LEVEL).sum(axis=1)
    return read_clock(rng, overhead_ticks + cycles / PER_TICK, triangular_waits(rng, count, STEP), STEP)


def excess(lost: float, overhead_ticks: float) -> float:
    """As inferred from 64 rounds."""
    rng = np.random.default_rng((1, int(10 * overhead_ticks)))
    rounds = [
        Chained(
            {steps: chains(rng, 128, steps, lost, overhead_ticks) for steps in LENGTHS},
            PER_TICK,
            overhead_ticks + LEVEL / PER_TICK,
            LEVEL,
        )
        for _ in range(64)
    ]
    found = steps_alone(rounds, STEP)
    assert found is not None
    return found.excess


@pytest.mark.parametrize("overhead_ticks", [50.0, 55.5, 61.0, 66.5, 72.0])
def test_lines_that_are_all_alike_add_no_variance_wherever_chains_end_between_readings(overhead_ticks: float) -> None:
    """The readings' own variance is 0 where a chain takes whole steps, and 340 cycles squared between."""
    assert abs(excess(0.0, overhead_ticks)) < 6.0


def test_lines_of_a_further_level_add_what_they_should() -> None:
    """Up to a factor of two at one place between readings, as the mean by which these are judged has such lines too."""
    lost = 0.02
    expected = lost * (FURTHER - LEVEL) ** 2
    found = [excess(lost, overhead_ticks) for overhead_ticks in (50.0, 55.5, 61.0, 66.5, 72.0)]
    assert float(np.mean(found)) == pytest.approx(expected, rel=0.4)
    assert min(found) > -expected / 4
    assert max(found) < 2.5 * expected


def test_a_duration_of_whole_steps_is_read_alike_each_time() -> None:
    assert quantised_variance(10 * 26.0, 26.0) == 0.0
    assert quantised_variance(10.5 * 26.0, 26.0) == 0.25 * 26.0**2
