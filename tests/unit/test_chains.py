"""Chains that lost lines to memory: those that lost none are told apart over all rounds, against made-up chains."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.infer.chains import Chained, steps_alone
from setebench.infer.ticks import dominant, mean_ticks

LEVEL, NEARER, MEMORY, OVERHEAD, PER_TICK, STEP = 54.0, 13.0, 313.0, 40.0, 1.25, 4


def chains(
    rng: np.random.Generator, count: int, steps: int, lost: float, nearer: float = 0.0
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Ticks of `count` chains, whose every line was lost to memory or kept by the level before so often."""
    drawn = rng.random((count, steps))
    cycles = np.where(drawn < lost, MEMORY, np.where(drawn > 1 - nearer, NEARER, LEVEL)).sum(axis=1) + OVERHEAD
    return (np.floor((cycles / PER_TICK + STEP * rng.random(count)) / STEP) * STEP).astype(np.int64)


def rounds(seed: int, lost: float, nearer: float = 0.0) -> list[Chained]:
    rng = np.random.default_rng(seed)
    return [
        Chained(chains(rng, 12, 8, lost, nearer), chains(rng, 6, 16, lost, nearer), 8, 16, PER_TICK) for _ in range(24)
    ]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("lost", [0.05, 0.08, 0.11])
def test_chains_that_lost_no_line_are_told_over_all_rounds(seed: int, lost: float) -> None:
    steps = steps_alone(rounds(seed, lost), 1 - lost, 0.0, STEP)
    assert len(steps) >= 6
    assert float(np.mean(steps)) == pytest.approx(LEVEL, abs=0.7)


def test_the_largest_group_of_a_round_is_often_another() -> None:
    """What `steps_alone` is there for."""
    own = [
        (mean_ticks(one.long[dominant(one.long, STEP)]) - mean_ticks(one.short[dominant(one.short, STEP)]))
        * PER_TICK
        / 8
        for one in rounds(1, 0.08)
    ]
    assert np.mean(np.abs(np.array(own) - LEVEL) > 10) > 0.3


def test_where_few_lines_are_lost_the_largest_group_is_right_and_nothing_is_told() -> None:
    assert steps_alone(rounds(1, 0.02), 0.98, 0.0, STEP) == []


def test_where_hardly_a_chain_is_whole_nothing_is_told() -> None:
    assert steps_alone(rounds(1, 0.3), 0.7, 0.0, STEP) == []


def test_where_lines_answer_from_a_nearer_level_nothing_is_told() -> None:
    """The fastest chains would be those with such lines."""
    assert steps_alone(rounds(1, 0.08, nearer=0.05), 0.87, 0.05, STEP) == []


def test_where_the_histogram_parts_no_groups_nothing_is_told() -> None:
    """A line lost to memory at 75 cycles is hidden in the spread of a chain of 900."""
    rng = np.random.default_rng(1)
    near = [
        Chained(one.short + rng.integers(0, 300, 12), one.long + rng.integers(0, 300, 6), 8, 16, PER_TICK)
        for one in rounds(1, 0.08)
    ]
    assert steps_alone(near, 0.92, 0.0, STEP) == []


def test_no_rounds_tell_nothing() -> None:
    assert steps_alone([], 0.9, 0.0, STEP) == []
