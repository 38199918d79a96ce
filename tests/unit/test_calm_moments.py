"""One cost from looks at several moments, of which some were raised."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from setebench.hierarchy.faults import FirstTouches
from setebench.infer.moments import agreed, over_moments
from setebench.machine import Machine
from setebench.scenario import Context


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


def test_moments_in_which_the_system_gave_other_pages_dont_count() -> None:
    """Large pages may run out between two moments; a later touch then costs as much as the first, and the difference
    nothing or less."""
    touches = FirstTouches(Context(machine=cast(Machine, None)), 4096)
    touches._cycles, touches._later_share = [1000.0, -5.0, 1010.0, 3.0], [0.01, 1.0, 0.01, 0.99]
    told = touches.told().cycles
    assert told is not None and told.value == 1005.0
    touches._cycles, touches._later_share = [1000.0, *11 * [4.0]], [0.01, *11 * [0.9]]
    assert "other pages" in touches.told().reason
