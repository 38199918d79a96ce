"""Metrics over roles, made of counts that are there and trusted or not made, with the reason; the papers'
figures; and counts of programs as table and JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setebench.counters.counted import Counted, Event, Region, Run
from setebench.counters.metrics import (
    PARTS,
    PARTS_ROLES,
    Measurement,
    best,
    cycles_by_cause,
)
from setebench.counters.protocol import Count
from setebench.counters.roles import Scope
from setebench.report.counted import render, table


def counted(**values: int) -> dict[str, Count]:
    return {role: Count(role=role, value=value, enabled=10, running=10) for role, value in values.items()}


def measured(seconds: float = 1.0, **values: int) -> Measurement:
    return Measurement(counts=counted(**values), seconds=seconds)


@pytest.mark.parametrize(
    ("count", "reason"),
    [
        (None, "was not counted"),
        (Count(role="mem_read", reason="no counter free"), "no counter free"),
        (Count(role="mem_read", value=5, enabled=10, running=4), "40 % of the time"),
        (Count(role="mem_read", value=-5, enabled=10, running=10), "backwards"),
    ],
)
def test_a_count_that_is_no_count_leaves_its_metric_without_a_value(count: Count | None, reason: str) -> None:
    counts = {} if count is None else {"mem_read": count}
    metric = best("memory_read", lambda _: Measurement(counts=counts, seconds=1.0))
    assert metric.value is None and reason in metric.reason


def parts(**counts: int) -> dict[str, float]:
    found = {name: each.value for name, each in cycles_by_cause(lambda _: measured(**counts)).items()}
    return {name: value for name, value in found.items() if value is not None}


@given(st.fixed_dictionaries({role: st.integers(0, 1000) for role in PARTS_ROLES}))
def test_the_four_parts_of_the_cycles_are_all_of_them(counts: dict[str, int]) -> None:
    found = parts(cycles=1000, **counts)
    four = [found[name] for name in PARTS[:4]]
    assert all(part >= 0 for part in four) and math.isclose(sum(four), 100)


# -- counts of a program as table and JSON ----------------------------------------------------------------------


WHOLE = Count(role="load", value=1234567, enabled=1000, running=1000)
SHARED = Count(role="store", value=40, enabled=1000, running=400)
MISSING = Count(role="mem_read", reason="no right to count sockets")
COUNTS = {"load": WHOLE, "store": SHARED, "mem_read": MISSING}
EVENTS = [
    Event(name="load", event="cpu/event=0xd0/", unit="instructions"),
    Event(name="store", event="r82d0", unit="instructions", user_only=True),
    Event(name="mem_read", event="uncore_imc/cas_count_read/", unit="lines", scope=Scope.SOCKET),
]


def _region(thread: int, value: int, name: str = "solve") -> Region:
    counts = {**COUNTS, "load": Count(role="load", value=value, enabled=9, running=9)}
    return Region(name=name, calls=2, unended=thread - 5, seconds=0.5, process=5, thread=thread, counts=counts)


def _run(**changes: Any) -> Run:
    fields: dict[str, Any] = {"elapsed": 1.5, "status": 0, "signal": None, "ended_by": 0, "counts": COUNTS}
    return Run(**{**fields, **changes})


def _counted(run: Run) -> Counted:
    return Counted(
        command=["./solver", "a b", "\x1b[31m"],
        started="2026-11-23T10:00:00+00:00",
        events=EVENTS,
        run=run,
    )


def test_missing_is_null_with_a_reason_and_shared_is_flagged() -> None:
    document = json.loads(render(_counted(_run()), "json"))
    counts = document["runs"][0]["counts"]
    assert counts["mem_read"]["value"] is None and counts["mem_read"]["reason"] == MISSING.reason
    assert (counts["store"]["value"], counts["store"]["multiplexed"]) == (40, True)
    assert (counts["load"]["multiplexed"], counts["load"]["reason"]) == (False, None)
    assert (document["schema"], document["kind"], document["means"]) == (1, "counters stat", None)


def test_regions_are_summed_over_threads_that_stay_apart() -> None:
    counted = _counted(_run(regions=[_region(5, 100), _region(6, 23), _region(5, 1, "other")]))
    solve, other = json.loads(render(counted, "json"))["runs"][0]["regions"]
    assert (solve["name"], solve["calls"], solve["counts"]["load"]["value"], solve["unended"]) == ("solve", 4, 123, 1)
    assert [thread["counts"]["load"]["value"] for thread in solve["threads"]] == [100, 23]
    assert other["counts"]["load"]["value"] == 1 and solve["counts"]["mem_read"]["value"] is None
    assert "region solve: 1 begins without an end, not counted" in table(counted)
