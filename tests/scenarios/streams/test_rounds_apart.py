"""Rounds that lie apart in time: what they say of a machine whose neighbours come and go, and in which order."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from setebench.scenarios import loaded_latency
from setebench.scenarios.loaded_latency.chase import LoadedChase, Reading
from setebench.scenarios.loaded_latency.params import PARAMS as LOADED

from setebench.machine import Facts
from setebench.registry import scenario
from setebench.results import Outcome
from setebench.scenario import Context

FACTS = Facts(name="drifting", kind="sim", cpus=(0, 1), siblings=((0,), (1,)), ticks_per_second=1e9)


# -- latency under load -----------------------------------------------------------------------------------------------


def test_every_load_point_is_measured_once_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int, int]] = []

    def measure(_self: LoadedChase, loaders: tuple[int, ...], delay: int, writes: int = 0) -> Reading:
        asked.append((len(loaders), delay, writes))
        return Reading(np.array([100.0 + len(asked) % 7]), np.array([10.0]))

    monkeypatch.setattr(LoadedChase, "__init__", lambda self, *_: setattr(self, "_cpu", 0))
    monkeypatch.setattr(LoadedChase, "measure", measure)
    monkeypatch.setattr(LoadedChase, "lay_out", lambda _self: None)
    monkeypatch.setattr(LoadedChase, "close", lambda _self: None)
    context = Context(machine=cast(Any, type("Machine", (), {"facts": FACTS})()), fast=True)
    found = {each.parameter: each for each in scenario("loaded-latency").answer(context)}
    whole, last = divmod(len(asked), LOADED.rounds)
    assert last == 1  # latency without load once more at the end
    rounds = [asked[number * whole : (number + 1) * whole] for number in range(LOADED.rounds)]
    assert all(sorted(each) == sorted(set(asked)) for each in rounds)
    points = context.evidence["loaded_latency"]["points"]
    assert all(len(point["rounds_ns"]) == LOADED.rounds for point in points)
    assert found["loaded_latency.at_peak"].outcome is Outcome.MEASURED


def test_latency_at_the_peak_holds_that_of_loads_which_may_be_as_high() -> None:
    """Chance decides which of them a run picks."""
    highest, as_high, lower = (
        Reading(latency + np.array([-1.0, 0.0, 1.0] * 3), rate + np.array([-2.0, 0.0, 2.0] * 3))
        for latency, rate in ((150.0, 100.0), (190.0, 99.0), (90.0, 50.0))
    )
    found = loaded_latency._latency_at_peak(highest, [lower, as_high, highest])
    assert found.value == 150.0
    assert 140.0 < found.low < 150.0 and 190.0 < found.high < 200.0
