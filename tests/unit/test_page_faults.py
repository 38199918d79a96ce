"""What a first touch costs, from epochs of which some were beside a co-runner."""

from __future__ import annotations

import numpy as np
import pytest
from setebench.scenarios.hierarchy.faults import Epoch, fault_finding, infer_fault


def test_few_epochs_beside_a_co_runner_hardly_move_the_cost() -> None:
    found = infer_fault([Epoch(each, 0.01) for each in (7100.0, 8700.0, 5500.0, 5650.0, 5580.0, 5900.0, 5600.0)])
    assert found.counted == 7 and found.cycles is not None
    assert found.cycles.value == pytest.approx(5650, abs=150)


def test_where_half_of_them_were_the_interval_holds_all() -> None:
    found = infer_fault([Epoch(each, 0.01) for each in (7100.0, 5510.0, 8700.0, 5650.0)])
    assert found.counted == 4 and found.cycles is not None
    assert found.cycles.low < 5510.0 and found.cycles.high > 8700.0


def test_nine_of_ten_intervals_or_more_hold_the_cost() -> None:
    """Four epochs, each off by 2 %: 100 runs."""
    rng = np.random.default_rng(1)
    found = [
        infer_fault([Epoch(each, 0.01) for each in 2000 * (1 + 0.02 * rng.standard_normal(4))]).cycles
        for _ in range(100)
    ]
    assert sum(each is not None and each.low <= 2000 <= each.high for each in found) >= 90
    assert np.mean([each.value for each in found if each]) == pytest.approx(2000, rel=0.005)


def test_what_the_system_does_for_others_moves_hardly_anything() -> None:
    """Seven epochs within 2 %, and three in which it compacted memory for large pages, natively seen: 100 runs."""
    rng = np.random.default_rng(2)
    costs = 6e5 * (1 + 0.02 * rng.standard_normal((100, 10)))
    costs[:, :3] *= rng.uniform(1.2, 30, (100, 3))
    found = [infer_fault([Epoch(each, 0.01) for each in run]).cycles for run in costs]
    assert sum(each is not None and each.low <= 6e5 <= each.high for each in found) >= 90
    assert np.median([each.half_width for each in found if each]) < 0.1 * 6e5


def test_epochs_in_which_the_system_gave_other_pages_do_not_count() -> None:
    """Large pages may run out; a later touch then costs as much as the first, and the difference nothing or less."""
    given = [Epoch(1000.0, 0.01), Epoch(1010.0, 0.01)]
    other = [Epoch(-5.0, 1.0), Epoch(3.0, 0.99)]
    found = infer_fault([*given, *other])
    assert found.cycles is not None and found.cycles.value == 1005.0 and found.counted == 2
    assert "other pages" in str(fault_finding("4k", infer_fault([given[0], *other])).reason)
