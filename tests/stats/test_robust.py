"""Robust centre and spread on samples of known truth."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.stats import nodes as estimates


def test_of_many_normal_values_it_is_mean_and_standard_deviation() -> None:
    rng = np.random.default_rng(1)
    found = estimates.spread(rng.normal(7.0, 2.0, 200_000))
    assert found.centre == pytest.approx(7.0, abs=0.02) and found.spread == pytest.approx(2.0, rel=0.005)


@pytest.mark.parametrize(("fraction", "most"), [(0.05, 1.3), (0.2, 2.0), (0.4, 4.5)])
def test_a_minority_moves_it_little(fraction: float, most: float) -> None:
    """Values 50 standard deviations off: the spread grows, but stays far below their distance."""
    rng = np.random.default_rng(2)
    values = rng.normal(0, 1, 1000)
    values[: int(1000 * fraction)] = 50.0
    found = estimates.spread(values)
    assert abs(found.centre) < 0.7 and 0.9 < found.spread < most


@pytest.mark.parametrize("count", [3, 4, 7, 12, 50, 200])
def test_distances_of_equal_values_pass_the_limit_at_most_as_often_as_it_says(count: int) -> None:
    """Measured as a rate over all values; three binomial errors (of samples, as values of one share their spread)."""
    rng = np.random.default_rng(count)
    samples = 20_000 // count
    passed = {0.01: 0, 0.001: 0}
    for values in rng.normal(0, 1, (samples, count)):
        found = estimates.spread(values)
        p = estimates.tail((values - found.centre) / found.spread, found.degrees)
        for level in passed:
            passed[level] += int((p <= level).sum())
    for level, times in passed.items():
        expected = level * samples * count
        assert times <= expected + 3 * (expected * count**0.5) ** 0.5
