"""Jumps of a time, on curves made up with the noise of a coarse clock."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.stats.jump import Jump, Search

SETS_OUT = 0.0075
"""After how much of a unit the next request sets out."""


def searched(entries: int, seed: int, noise: float = 0.04, near: int | None = None) -> Jump:
    """Of a queue whose every tenth burst is disturbed, twice."""
    rng = np.random.default_rng(seed)

    def time(number: int) -> float:
        waves, rest = divmod(max(number - 1, 0), entries)
        disturbed = rng.exponential(1.0) if rng.random() < 0.1 else 0.0
        return waves + SETS_OUT * rest + disturbed + rng.normal(0, noise)

    search = Search(time, (1, 256), rng, near)
    search.again()
    return search.found


@pytest.mark.parametrize(("entries", "noise"), [*((n, 0.04) for n in (1, 3, 10, 64)), (2, 0.1), (24, 0.1)])
def test_the_last_number_before_the_jump_is_found(entries: int, noise: float) -> None:
    found = [searched(entries, seed, noise) for seed in range(8)]
    assert sum(each.certain and each.last == entries for each in found) >= 7


@pytest.mark.parametrize("near", [3, 9, 10, 11, 14])
def test_a_wrong_expectation_only_costs_time(near: int) -> None:
    assert [searched(10, seed, near=near).last for seed in range(6)].count(10) >= 5


@pytest.mark.parametrize("slope", [0.0, 0.02, 0.1, 0.25, 1.5])
def test_a_slope_is_no_jump(slope: float) -> None:
    """A limit of the rate: every request takes as much longer as the one before, though the first is no exception."""
    rng = np.random.default_rng(3)
    found = Search(lambda number: slope * max(number - 6, 0) + rng.normal(0, 0.02), (1, 256), rng).found
    assert found.last is None or (slope > 1 and found.last == 6)


def test_who_takes_entries_in_some_rounds_takes_none_away() -> None:
    """One entry is held in most rounds of the first epoch: the larger number counts where enough rounds say it."""
    rng, calls = np.random.default_rng(5), iter(range(10**6))

    def time(number: int) -> float:
        entries = 9 if next(calls) < 90 else 10
        return (number > entries) + rng.normal(0, 0.03)

    search = Search(time, (1, 64), rng)
    assert search.found.last == 9
    for _ in range(2):
        search.again()
    assert (search.found.last, search.found.low, search.found.certain) == (10, 9, True)
