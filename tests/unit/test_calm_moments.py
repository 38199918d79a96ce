"""One cost from looks at several moments, of which some were raised."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.infer.moments import agreed, over_moments


def test_moments_that_agree_on_the_lowest_cost_tell_it() -> None:
    """Page faults of a guest whose sibling thread belongs to somebody who comes and goes."""
    told = over_moments([7100.0, 5510.0, 8700.0, 5650.0])
    assert told.value == pytest.approx(5580.0)
    assert told.low < 5510.0 < 5650.0 < told.high < 6000.0


def test_one_low_moment_is_no_proof() -> None:
    costs = [7100.0, 5275.0, 7300.0]
    assert not agreed(costs)
    told = over_moments(costs)
    assert told.low < 5275.0
    assert told.high > 7300.0


def test_noise_hardly_moves_the_cost() -> None:
    rng = np.random.default_rng(1)
    values = [over_moments(list(2000.0 * (1 + 0.01 * rng.standard_normal(4)))).value for _ in range(200)]
    assert np.mean(values) == pytest.approx(2000.0, rel=0.003)
    assert max(abs(each / 2000.0 - 1.0) for each in values) < 0.03


@pytest.mark.parametrize("seed", range(5))
def test_runs_at_busy_and_at_calm_times_agree(seed: int) -> None:
    """Whatever share of the moments was busy, so long as two weren't."""
    rng = np.random.default_rng(seed)
    calm = 5600.0 * (1 + 0.02 * rng.standard_normal(6))
    busy = rng.uniform(6600.0, 8700.0, 4)
    one, other = over_moments([*calm[:2], *busy]), over_moments(list(calm[2:]))
    assert one.low < other.high
    assert other.low < one.high
