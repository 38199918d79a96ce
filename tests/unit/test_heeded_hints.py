"""A core in a guest ignored t1 and t2 for seconds on end: what such a hint leaves undone tells nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from setebench.infer.software_prefetch import Answer
from setebench.measure.serving import LAYOUTS, References
from setebench.software_prefetch import heeded
from setebench.software_prefetch.fills import chosen

L1, MEMORY = 40, 400
TURN = 30


def ticks(cycles: int, count: int = 600) -> Any:
    return np.random.default_rng(cycles).normal(cycles, 4, count).astype(np.int64)


def run_with(ignored_turns: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A run whose hint does nothing in so many turns of a look in the plainest place."""
    turns = [ticks(MEMORY if number < ignored_turns else L1, TURN) for number in range(LAYOUTS)]
    monkeypatch.setattr(heeded, "side_by_side", lambda *_: {"t1": np.concatenate(turns), "": ticks(MEMORY)})
    references = References({"l1": ticks(L1), "memory": ticks(MEMORY)})
    return SimpleNamespace(context=None, region=None, samples=800, hint="t1", references=references)


@pytest.mark.parametrize("told", [False, "drops"])
def test_nothing_is_told_by_a_hint_that_is_ignored(told: bool | str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = heeded.unless_ignored(run_with(4, monkeypatch), Answer(told))
    assert found.value is None
    assert found.reason.startswith("prefetches t1 do nothing at all at this time, in 4 of 6 turns")


@pytest.mark.parametrize("told", [False, "drops"])
def test_what_a_heeded_hint_did_not_do_is_told(told: bool | str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert heeded.unless_ignored(run_with(0, monkeypatch), Answer(told)).value == told


@pytest.mark.parametrize("told", [True, "stalls", None])
def test_what_a_hint_did_needs_no_further_look(told: bool | str | None) -> None:
    run: Any = None
    assert heeded.unless_ignored(run, Answer(told)).value == told


def test_a_hint_that_no_turn_ignored_is_chosen() -> None:
    fills = {"t0": Answer(reason="disturbed"), "t1": Answer("l2"), "t2": Answer("l2"), "nta": Answer("l1")}
    assert chosen(fills) == "nta"
    assert chosen(fills, {"nta", "t1"}) == "t2"
    assert chosen(fills, {"nta", "t1", "t2"}) == "nta"
    assert chosen({"t0": Answer("none")}) == ""
