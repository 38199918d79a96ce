"""Where prefetched lines are reported to be, from rounds that were made up."""

from __future__ import annotations

import numpy as np
import pytest
from setebench.scenarios.mshr.params import Params
from setebench.scenarios.mshr.prefetching import UNSTEADY, Landing
from setebench.scenarios.mshr.prefetching import landed as landed_in

CYCLES = {"l1": 4.0, "l2": 14.0, "l3": 50.0, "memory": 400.0}


def landed(rounds: list[Landing]) -> str:
    return landed_in(rounds, CYCLES, Params())


def rounds(cycles: float, noise: float, count: int = 12, seed: int = 1) -> list[Landing]:
    """Rounds whose median is rounded to clock steps of five cycles a line, and whose mean scatters by `noise`."""
    rng = np.random.default_rng(seed)
    means = cycles + rng.normal(0, noise, count)
    return [Landing(round(mean / 5) * 5, mean) for mean in means]


@pytest.mark.parametrize("level", list(CYCLES))
def test_lines_are_reported_where_they_are(level: str) -> None:
    assert landed(rounds(CYCLES[level], 2.0)) == level


def test_lines_of_a_third_level_that_was_not_found_are_not_in_the_second() -> None:
    found = {level: cycles for level, cycles in CYCLES.items() if level != "l3"}
    assert landed_in(rounds(CYCLES["l3"], 2.0), found, Params()) == UNSTEADY


def test_a_hint_that_is_ignored_in_half_of_the_rounds_is_unsteady() -> None:
    assert landed(rounds(4.0, 0.5, 6) + rounds(400.0, 5.0, 6)) == UNSTEADY


def test_a_few_disturbed_rounds_change_nothing() -> None:
    assert landed(rounds(14.0, 1.0, 10) + rounds(400.0, 5.0, 2)) == "l2"
