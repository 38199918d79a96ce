"""Advice from a table alone: known machines, missing findings, C to paste."""

from __future__ import annotations

from typing import Any

import msgspec
from documents import make_document

import setebench
from setebench.loops import Policy
from setebench.loops.advice import Advisor, loop_of
from setebench.loops.shapes import shape
from setebench.results import Finding, Outcome
from setebench.sim.files.loader import load
from setebench.sim.truth.parameters import truth

PROBE: dict[str, Any] = {
    "name": "my probe",
    "unit": "probes",
    "cycles_per_iteration": 12.0,
    "working_set_bytes": 1 << 30,
    "iterations": 1000,
    "streams": [
        {"name": "keys", "pattern": "sequential", "bytes_per_iteration": 8, "prefetched": False},
        {"name": "buckets", "pattern": "lookup", "bytes_per_iteration": 16, "extent_bytes": 1 << 30, "via": "keys"},
    ],
}


def _table(machine: str, **changed: Any) -> dict[str, Finding]:
    findings = {finding.parameter: finding for finding in truth(load(machine))}
    for parameter, value in changed.items():
        name = parameter.replace("__", ".")
        findings[name] = msgspec.structs.replace(findings[name], value=value, outcome=Outcome.MEASURED)
    return findings


def test_where_prefetches_gain_nothing_over_what_was_timed_none_is_advised() -> None:
    slow, fast = (msgspec.structs.replace(shape("hash_join"), measured_cycles=cycles) for cycles in (300.0, 12.0))
    assert Advisor(slow, _table("plain")).choice().stages
    assert Advisor(fast, _table("plain")).choice() == Policy()


def test_prefetches_that_never_get_through_are_not_advised() -> None:
    """Where a prefetch must stay in the page of the latest access, one that leads anywhere is dropped, and one of a
    stream stays within the page: 16 elements of `strided` lie on a page of 4 KiB."""
    loop = msgspec.structs.replace(shape("hash_join"), measured_cycles=100.0)
    within = _table("plain", software_prefetch__across_page=False)
    assert Advisor(loop, within).choice() == Policy()
    tables = within, _table("plain")
    swept = [Advisor(shape("strided"), table).swept((1, 4, 64)) for table in tables]
    assert [max(policy.furthest for policy in own) for own in swept] == [4, 64]


def test_what_is_missing_is_named_and_taken_for_what_is_plausible() -> None:
    findings = [each for each in truth(load("knc")) if not each.parameter.startswith(("mshr.", "latency.memory"))]
    findings.append(
        Finding(parameter="latency.memory", unit="cycles", outcome=Outcome.UNRESOLVED, reason="too noisy a night")
    )
    advice = setebench.prefetch_advice(make_document(findings), loop_of(PROBE))
    assert advice.needs["latency.memory"] == "too noisy a night"
    assert advice.needs["mshr.l1.prefetch"] == "not in the result"
    assert advice.policy.stages
    assert any("not measured" in sentence for sentence in advice.why)
