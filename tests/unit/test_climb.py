"""Climbing staircases that were made up: how many samples it takes, and where it gives up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from setebench.infer.steps import Staircase
from setebench.measure.climb import FAST, THOROUGH, Effort, climb, once_more

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


def asked_again(last: int | None) -> Staircase:
    """A jump behind 20, asked again when it is behind `last`, or nowhere."""
    found, _ = measured(lambda n: UNIT * (1 + (n - 1) // 20), THOROUGH)
    rng = np.random.default_rng(7)

    def measure(number: int) -> NDArray[np.float64]:
        return UNIT * (1 + (last is not None and number > last)) + rng.normal(0, 0.05 * UNIT, 8)

    once_more(found, measure, 1, np.random.default_rng(8), THOROUGH)
    return found


@pytest.mark.parametrize(("last", "low", "high"), [(20, 20, 20), (18, 18, 20), (22, 20, 22), (None, 15, 24)])
def test_times_that_disagree_widen_the_interval(last: int | None, low: int, high: int) -> None:
    found = asked_again(last)
    assert found.step is not None and (found.step.last, found.step.low, found.step.high) == (20, low, high)


def test_without_a_jump_there_is_nothing_to_ask_again() -> None:
    found, _ = measured(creeping, FAST)
    before = {number: len(own) for number, own in found.samples.items()}
    once_more(found, lambda _: np.full(8, UNIT), 1, np.random.default_rng(8), FAST)
    assert found.step is None and {number: len(own) for number, own in found.samples.items()} == before
