"""Climbing staircases that were made up: how many samples it takes, and where it gives up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from setebench.climb import FAST, THOROUGH, Effort, climb
from setebench.infer.steps import Staircase

UNIT = 400.0


def measured(time: Callable[[int], float], effort: Effort) -> tuple[Staircase, int]:
    """What is found, and the number of volleys it took."""
    rng, asked = np.random.default_rng(5), []

    def measure(number: int) -> NDArray[np.float64]:
        asked.append(number)
        return time(number) + rng.normal(0, 0.05 * UNIT, 8)

    return climb(measure, 1, 256, UNIT, np.random.default_rng(6), effort), len(asked)


def creeping(number: int) -> float:
    return UNIT * (1 + 0.05 * number)


@pytest.mark.parametrize("effort", [THOROUGH, FAST])
def test_a_jump_is_found_at_either_effort(effort: Effort) -> None:
    found, _ = measured(lambda n: UNIT * (1 + (n - 1) // 20), effort)
    assert found.step is not None and (found.step.last, found.step.low, found.step.high) == (20, 20, 20)


def test_fast_takes_fewer_volleys_to_a_jump() -> None:
    volleys = [measured(lambda n: UNIT * (1 + (n - 1) // 20), effort)[1] for effort in (THOROUGH, FAST)]
    assert volleys[1] < 0.8 * volleys[0]


def test_a_curve_that_only_creeps_has_no_jump_and_an_end() -> None:
    for effort in (THOROUGH, FAST):
        found, volleys = measured(creeping, effort)
        assert found.step is None
        assert volleys < 60 + effort.rises * (11 * sum(effort.rounds) + 16)
