"""Inclusion of the caches behind the first from lines in use beside streams, and traversals that take lines out."""

from __future__ import annotations

import pytest
from quiet_machines import quiet
from setebench.scenarios.hierarchy import inclusion

from setebench.calibration import Calibration, Levels
from setebench.results import Outcome
from setebench.scenario import Context

CYCLES = {"l1": 4.0, "l2": 14.0, "l3": 46.0, "memory": 300.0}
"""Of the quiet machine, about."""

FIRST_LINES, REGION_BYTES = 512, 64 << 20


def context(**changes: object) -> Context:
    return Context(machine=quiet(**changes), calibration=Calibration(levels=Levels(walks={}, cycles=CYCLES)))


@pytest.mark.parametrize("how", ["inclusive", "exclusive", "neither"])
def test_inclusion(how: str) -> None:
    asked = context(l2={"sets": 1024, "ways": 8, "inclusion": how})
    region = asked.machine.allocate(REGION_BYTES, 4096)
    question = inclusion.Question(level=2, lines=8192, first=FIRST_LINES)
    assert inclusion.inclusive(asked, region, question, inclusion.Params()).value is (how == "inclusive")


def test_a_first_cache_that_gives_up_lines_in_use_tells_no_inclusion() -> None:
    asked = context(l1={"replacement": "random"}, l2={"sets": 1024, "ways": 8})
    region = asked.machine.allocate(REGION_BYTES, 4096)
    question = inclusion.Question(level=2, lines=8192, first=FIRST_LINES)
    assert inclusion.inclusive(asked, region, question, inclusion.Params()).outcome is Outcome.UNRESOLVED


def test_one_loss_in_a_pass_is_inclusion_and_none_is_not() -> None:
    params = inclusion.Params()
    assert inclusion.inclusion_posterior(inclusion.Losses(1.0, 0.05, 0.0), params)[True] > 0.95
    assert inclusion.inclusion_posterior(inclusion.Losses(0.0, 0.05, 0.0), params)[False] > 0.95
    often = inclusion.inclusion_posterior(inclusion.Losses(0.5, 0.05, 20.0), params)
    assert max(often.values()) < 0.9
