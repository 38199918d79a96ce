"""Counts of a program as table, JSON and CSV: what is missing, what took turns, regions, means over runs."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from setebench.counters.counted import Counted, Event, Interval, RegionCounts, Run
from setebench.counters.means import mean
from setebench.counters.protocol import Count
from setebench.counters.roles import Scope
from setebench.report.counted import COLUMNS, as_csv, as_json, table

WHOLE = Count(role="load", value=1234567, enabled=1000, running=1000)
SHARED = Count(role="store", value=40, enabled=1000, running=400)
MISSING = Count(role="mem_read", reason="no right to count sockets")
COUNTS = {"load": WHOLE, "store": SHARED, "mem_read": MISSING}
EVENTS = [
    Event(name="load", event="cpu/event=0xd0/", unit="instructions"),
    Event(name="store", event="r82d0", unit="instructions", user_only=True),
    Event(name="mem_read", event="uncore_imc/cas_count_read/", unit="lines", scope=Scope.SOCKET),
]


def _region(thread: int, value: int, name: str = "solve") -> RegionCounts:
    counts = {**COUNTS, "load": Count(role="load", value=value, enabled=9, running=9)}
    return RegionCounts(name=name, calls=2, unended=thread - 5, seconds=0.5, process=5, thread=thread, counts=counts)


def _run(**changes: Any) -> Run:
    fields: dict[str, Any] = {"elapsed": 1.5, "status": 0, "signal": None, "asked": 0, "counts": COUNTS}
    return Run(**{**fields, **changes})


def _counted(*runs: Run) -> Counted:
    return Counted(
        command=["./solver", "a b", "\x1b[31m"],
        process=None,
        started="2026-11-23T10:00:00+00:00",
        events=EVENTS,
        runs=list(runs),
    )


def test_missing_is_null_with_a_reason_and_shared_is_flagged() -> None:
    document = json.loads(as_json(_counted(_run())))
    counts = document["runs"][0]["counts"]
    assert counts["mem_read"]["value"] is None and counts["mem_read"]["reason"] == MISSING.reason
    assert (counts["store"]["value"], counts["store"]["multiplexed"]) == (40, True)
    assert (counts["load"]["multiplexed"], counts["load"]["reason"]) == (False, None)
    assert (document["schema"], document["kind"], document["means"]) == (1, "counters stat", None)


def test_regions_are_summed_over_threads_that_stay_apart() -> None:
    counted = _counted(_run(regions=[_region(5, 100), _region(6, 23), _region(5, 1, "other")]))
    solve, other = json.loads(as_json(counted))["runs"][0]["regions"]
    assert (solve["name"], solve["calls"], solve["counts"]["load"]["value"], solve["unended"]) == ("solve", 4, 123, 1)
    assert [thread["counts"]["load"]["value"] for thread in solve["threads"]] == [100, 23]
    assert other["counts"]["load"]["value"] == 1 and solve["counts"]["mem_read"]["value"] is None
    assert "region solve: 1 begins without an end, not counted" in table(counted)


def test_every_count_is_a_row_of_the_csv() -> None:
    half = {name: Count(role=name, value=1, enabled=1, running=1) for name in COUNTS}
    intervals = [Interval(begin=0.0, end=0.75, counts=half), Interval(begin=0.75, end=1.5, counts=half)]
    rows = list(csv.DictReader(io.StringIO(as_csv(_counted(_run(intervals=intervals, regions=[_region(5, 100)]))))))
    assert tuple(rows[0]) == COLUMNS
    assert [row["kind"] for row in rows[::3]] == ["total", "interval", "interval", "region", "thread"]
    assert (rows[2]["value"], rows[2]["reason"]) == ("", MISSING.reason)
    assert (rows[1]["multiplexed"], rows[0]["multiplexed"]) == ("yes", "no")
    assert (rows[3]["begin_seconds"], rows[6]["end_seconds"]) == ("0.000000", "1.500000")
    assert (rows[9]["region"], rows[12]["thread"], rows[12]["calls"]) == ("solve", "5", "2")


# -- means over runs --------------------------------------------------------------------------------------------------


def _values(*values: int) -> list[Count]:
    return [Count(role="load", value=value, enabled=1, running=1) for value in values]


def test_the_interval_is_students() -> None:
    """Three values 1 apart: standard error 1 / sqrt(3), and 4.303 of it at two degrees of freedom."""
    found = mean(_values(9, 10, 11))
    assert found.mean == 10 and found.high is not None and found.low is not None
    assert found.high - 10 == pytest.approx(4.3027 / 3**0.5, rel=1e-4) == 10 - found.low
