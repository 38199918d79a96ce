"""Steps of costs that are made up from known tables: where they rise, and which table has such a step."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.stats.steps import PARTS, entries_of, steps

NUMBERS = np.unique(np.round(np.geomspace(12, 6000, 120)))


def lost(numbers: np.ndarray, entries: int, ways: int) -> np.ndarray:
    """Fraction of pages whose set got more than its ways, where pages fill sets evenly."""
    return np.clip((numbers - entries) * ways / entries, 0.0, 1.0)


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


@pytest.mark.parametrize("entries_and_ways", [(96, 6), (640, 5), (2048, 16)])
def test_the_table_of_a_sharp_step(entries_and_ways: tuple[int, int]) -> None:
    entries, ways = entries_and_ways
    low, middle, high = (entries * (1 + PARTS / ways)).tolist()
    assert entries_of((low, middle, high))[0] == entries
    assert entries_of((low, middle, high))[1] > 0.9
