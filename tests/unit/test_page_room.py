"""A cache's size from how many whole pages stay at once, on made-up findings and rounds."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.infer.page_room import (
    LEAST_ROUNDS,
    MOST_ROUNDS,
    Packed,
    least_pages,
    rounds_for,
    typical,
    whole_size,
)

PAGE = 4096
FULL = Packed(256, 0.005, 1.0, 3.0)


def test_a_full_cache_tells_its_size() -> None:
    assert whole_size([FULL, FULL], PAGE, 8) == 1 << 20
    assert whole_size([FULL, Packed(250, 0.01, 1.0, 3.0)], PAGE, 8) == 1 << 20


@pytest.mark.parametrize(
    "other",
    [
        Packed(256, 0.005, 0.7, 3.0),  # further pages found room
        Packed(256, 0.05, 1.0, 3.0),  # somebody took some
        Packed(256, 0.005, 1.0, 0.5),  # pages that stay and pages that don't are hardly two kinds
        Packed(256),  # no calm moment
        Packed(220, 0.005, 1.0, 3.0),  # another size
        Packed(238, 0.005, 1.0, 3.0),  # no size that caches have
    ],
)
def test_no_size_where_one_of_two_findings_doesn_t_tell_the_same(other: Packed) -> None:
    assert whole_size([FULL, other], PAGE, 8) is None
    assert whole_size([FULL], PAGE, 8) is None


def test_a_bound_leaves_out_what_is_missing_and_what_the_first_cache_may_hold() -> None:
    assert least_pages([Packed(240, 0.05, 0.6, 1.3), Packed(250)], 8) == pytest.approx(228)
    assert least_pages([Packed(64, 0.0, 1.0, 3.0)], 8) == pytest.approx(56)
    assert least_pages([Packed(240, 0.05, 0.6, 0.9), Packed(240, 0.1, 0.6, 1.3)], 8) == 0


def test_pages_that_miss_in_turns_are_crowded_where_nothing_disturbs() -> None:
    rounds = np.full((6, 20), 900.0)
    rounds[np.arange(6), np.arange(6)] = 3000.0
    assert (typical(rounds, 1100.0)[:6] > 1100.0).all()


def test_pages_that_others_disturb_are_not_crowded() -> None:
    rng = np.random.default_rng(1)
    rounds = np.where(rng.random((12, 200)) < 0.5, 900.0, 1500.0)
    rounds[:, 190:] = 1500.0
    crowded = typical(rounds, 1100.0) > 1100.0
    assert crowded[190:].all()
    assert crowded[:190].mean() < 0.02


def test_more_rounds_where_others_disturb_more() -> None:
    assert rounds_for(0.0) == LEAST_ROUNDS
    assert LEAST_ROUNDS <= rounds_for(0.01) < rounds_for(0.03) <= MOST_ROUNDS
    assert rounds_for(1.0) == MOST_ROUNDS
