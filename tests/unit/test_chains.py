"""Steps of chains of several lengths, against made-up chains: with lines lost to memory, or held up by a queue."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.infer.chains import Chained, all_steps, slope, steps_alone
from setebench.infer.ticks import dominant, mean_ticks

LEVEL, NEARER, MEMORY, OVERHEAD, PER_TICK, STEP = 54.0, 13.0, 313.0, 40.0, 1.25, 4
COUNTS = {2: 24, 4: 12, 8: 6, 16: 3}
"""Chains of a round by length."""


def chains(
    rng: np.random.Generator, count: int, steps: int, lost: float, nearer: float = 0.0, held_up: float = 0.0
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Ticks of `count` chains, whose every line was lost to memory or kept by the level before so often, and whose
    steps from the sixth on took `held_up` cycles longer."""
    drawn = rng.random((count, steps))
    cycles = np.where(drawn < lost, MEMORY, np.where(drawn > 1 - nearer, NEARER, LEVEL)).sum(axis=1) + OVERHEAD
    cycles = cycles + held_up * max(steps - 5, 0)
    return (np.floor((cycles / PER_TICK + STEP * rng.random(count)) / STEP) * STEP).astype(np.int64)


def rounds(seed: int, lost: float = 0.0, nearer: float = 0.0, held_up: float = 0.0, count: int = 24) -> list[Chained]:
    rng = np.random.default_rng(seed)
    first = (LEVEL + OVERHEAD) / PER_TICK
    return [
        Chained(
            {length: chains(rng, own, length, lost, nearer, held_up) for length, own in COUNTS.items()},
            PER_TICK,
            first,
            LEVEL,
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("lost", [0.0, 0.05, 0.1, 0.3])
def test_chains_that_lost_no_line_are_told_over_all_rounds(seed: int, lost: float) -> None:
    found = steps_alone(rounds(seed, lost), STEP)
    assert found is not None and len(found.cycles) >= 20
    assert float(np.mean(found.cycles)) == pytest.approx(LEVEL, abs=0.7)


def test_the_largest_group_of_a_round_is_often_another() -> None:
    """What `steps_alone` is there for."""

    def largest(one: Chained, length: int) -> float:
        return mean_ticks(one.ticks[length][dominant(one.ticks[length], STEP)])

    own = [(largest(one, 16) - largest(one, 8)) * PER_TICK / 8 for one in rounds(1, 0.08)]
    assert np.mean(np.abs(np.array(own) - LEVEL) > 10) > 0.3


def test_steps_that_wait_for_a_full_queue_are_not_told() -> None:
    """Prefetches that the chain's own loads set off hold up its later steps by 30 cycles."""
    held_up = rounds(1, held_up=30.0)
    assert np.mean([all_steps(one) for one in held_up]) > LEVEL + 10
    found = steps_alone(held_up, STEP)
    assert found is not None
    assert float(np.mean(found.cycles)) == pytest.approx(LEVEL, abs=0.7)


@pytest.mark.parametrize("seed", range(4))
def test_one_nearer_line_in_a_long_chain_parts_it_from_whole_ones(seed: int) -> None:
    """It is a twentieth of the chain's time, but far more than by what lines of one level differ."""
    fine, per_tick, overhead, level, nearer, lost = 1, 1.6, 36.0, 43.0, 22.0, 339.0
    rng = np.random.default_rng(seed)

    def drawn(count: int, steps: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        lines = rng.choice([level, nearer, lost], (count, steps), p=[0.86, 0.1, 0.04])
        ticks = (lines.sum(axis=1) + overhead) / per_tick
        return np.floor(ticks + fine * rng.random(count)).astype(np.int64)

    own = [
        Chained({steps: drawn(count, steps) for steps, count in COUNTS.items()}, per_tick, 79.0 / per_tick, level)
        for _ in range(24)
    ]
    found = steps_alone(own, fine)
    assert found is not None
    assert float(np.mean(found.cycles)) == pytest.approx(level, abs=0.7)


def test_steps_that_are_all_alike_have_no_excess_of_variance() -> None:
    found = steps_alone(rounds(1), STEP)
    assert found is not None
    assert found.excess == pytest.approx(0.0, abs=1.0)


def test_lines_of_another_level_that_the_clock_cannot_part_show_in_the_variance() -> None:
    """A tenth of lines is nearer by 41 cycles, on a clock whose step hides that."""
    rng = np.random.default_rng(1)
    mixed = []
    for one in rounds(1, nearer=0.1, count=200):
        blurred = {length: own + rng.integers(0, 60, len(own)) for length, own in one.ticks.items()}
        mixed.append(Chained(blurred, PER_TICK, one.first_ticks + 30, LEVEL))
    found = steps_alone(mixed, STEP)
    assert found is not None
    assert found.excess == pytest.approx(0.1 * 0.9 * (LEVEL - NEARER) ** 2, rel=0.3)
    assert not found.upwards


def test_lines_from_further_out_make_the_spread_lopsided() -> None:
    """As above, but a tenth of lines takes 41 cycles longer instead: each chain mirrored about what it should take."""
    rng = np.random.default_rng(1)
    mixed = []
    for one in rounds(1, nearer=0.1, count=200):
        mirrored = {length: np.int64(2 * one.foretold(length)) - own for length, own in one.ticks.items()}
        blurred = {length: own + rng.integers(0, 60, len(own)) for length, own in mirrored.items()}
        mixed.append(Chained(blurred, PER_TICK, one.first_ticks + 30, LEVEL))
    found = steps_alone(mixed, STEP)
    assert found is not None and found.upwards


def test_too_few_chains_tell_nothing() -> None:
    few = [Chained({2: np.array([80, 84]), 4: np.array([170])}, PER_TICK, 75.0, LEVEL)]
    assert steps_alone(few, STEP) is None


def test_no_rounds_tell_nothing() -> None:
    assert steps_alone([], STEP) is None


def test_a_slope_needs_two_lengths() -> None:
    assert slope({4: np.array([10, 12])}) is None
    assert slope({2: np.array([10, 14]), 4: np.array([20, 24])}) == pytest.approx(5.0)
