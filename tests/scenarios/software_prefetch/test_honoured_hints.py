"""A core in a guest ignored t1 and t2 for seconds on end: what such a hint leaves undone says nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from setebench.scenarios.software_prefetch.answers import Answer
from setebench.scenarios.software_prefetch.fills import chosen
from setebench.scenarios.software_prefetch.params import Params
from setebench.scenarios.software_prefetch.run import Run

from setebench.experiments.lines.serving import PARAMS, References
from setebench.machine import Ticks

L1, MEMORY = 40, 400
TURN = 30


def ticks(cycles: int, count: int = 600) -> Any:
    return np.random.default_rng(cycles).normal(cycles, 4, count).astype(np.int64)


class Looked(Run):
    """A run without a machine, whose hint does nothing in so many turns of a sample in the plainest place."""

    def __init__(self, ignored_turns: int) -> None:
        self._ignored_turns = ignored_turns
        self.params, self.samples, self.hint = Params(), 800, "t1"
        self.references = References({"l1": ticks(L1), "memory": ticks(MEMORY)})

    def side_by_side(self, *_: Any) -> dict[str, Ticks]:
        turns = [ticks(MEMORY if number < self._ignored_turns else L1, TURN) for number in range(PARAMS.layouts)]
        return {"t1": np.concatenate(turns), "": ticks(MEMORY)}


@pytest.mark.parametrize("value", [False, "drops"])
def test_what_an_honoured_hint_did_not_do_is_reported(value: bool | str) -> None:
    assert Looked(0).unless_ignored(Answer(value)).value == value


def test_a_hint_that_no_turn_ignored_is_chosen() -> None:
    fills = {"t0": Answer(reason="disturbed"), "t1": Answer("l2"), "t2": Answer("l2"), "nta": Answer("l1")}
    assert chosen(fills) == "nta"
    assert chosen(fills, {"nta", "t1"}) == "t2"
    assert chosen(fills, {"nta", "t1", "t2"}) == "nta"
    assert chosen({"t0": Answer("none")}) == ""
