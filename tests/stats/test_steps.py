"""Steps of costs that are made up from known tables: where they rise, and which table has such a step."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.stats.steps import PARTS, Risen, entries_of, steps

NUMBERS = np.unique(np.round(np.geomspace(12, 6000, 120)))


def lost(numbers: np.ndarray, entries: int, ways: int) -> np.ndarray:
    """Fraction of pages whose set got more than its ways, where pages fill sets evenly."""
    return np.clip((numbers - entries) * ways / entries, 0.0, 1.0)


def by_chance(entries: int, ways: int) -> Risen:
    """Where parts of a step have risen in 4,000 drawn layouts."""
    rng, numbers = np.random.default_rng(3), np.unique(np.round(np.geomspace(entries / 8, entries * 4, 200)))
    risen = [np.mean(rng.poisson(number * ways / entries, 4000) >= ways) for number in numbers]
    low, middle, high = np.interp(PARTS, np.maximum.accumulate(risen), numbers)
    return float(low), float(middle), float(high)


@pytest.mark.parametrize(("first", "second"), [((96, 6), (2048, 16)), ((64, 64), (1536, 12)), ((16, 16), (512, 4))])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_two_steps_and_their_tables(first: tuple[int, int], second: tuple[int, int], noise: float) -> None:
    cost = 7.0 * lost(NUMBERS, *first) + 40.0 * lost(NUMBERS, *second)
    found = steps(NUMBERS, cost + noise * np.random.default_rng(1).standard_normal(len(NUMBERS)))
    assert len(found) == 2
    assert [step.behind for step in found] == pytest.approx([7.0, 47.0], abs=0.4)
    for step, (entries, ways) in zip(found, (first, second), strict=True):
        assert step.risen[1] == pytest.approx(entries * (1 + 0.5 / ways), rel=0.06)


def test_walks_that_get_dearer_with_the_pages_are_no_further_step() -> None:
    cost = 7.0 * lost(NUMBERS, 96, 6) + (45.0 + 15.0 * NUMBERS / 6000) * lost(NUMBERS, 2048, 4)
    assert len(steps(NUMBERS, cost)) == 2


def test_a_spike_is_no_step() -> None:
    cost = 7.0 * lost(NUMBERS, 96, 6)
    cost[[20, 80]] += 40.0
    assert [step.behind for step in steps(NUMBERS, cost)] == [pytest.approx(7.0)]


def test_flat_costs_have_none() -> None:
    assert steps(NUMBERS, 0.2 * np.random.default_rng(2).standard_normal(len(NUMBERS))) == []


@pytest.mark.parametrize("entries_and_ways", [(64, 4), (96, 6), (512, 4), (640, 5), (1536, 12), (2048, 16), (3072, 24)])
def test_the_table_of_a_sharp_step(entries_and_ways: tuple[int, int]) -> None:
    entries, ways = entries_and_ways
    low, middle, high = (entries * (1 + PARTS / ways)).tolist()
    assert entries_of((low, middle, high), True)[0] == entries
    assert entries_of((low, middle, high), True)[1] > 0.9


@pytest.mark.parametrize("entries_and_ways", [(512, 4), (1024, 8), (1536, 12), (2048, 16), (3072, 12)])
def test_the_table_of_pages_at_random(entries_and_ways: tuple[int, int]) -> None:
    found, sure = entries_of(by_chance(*entries_and_ways), False)
    assert found == entries_and_ways[0]
    assert sure > 0.5
