"""From a timeline to a result document: findings, advice, evidence."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from setebench import store
from setebench.counters.volumes import imbalance
from setebench.diagnose import advice
from setebench.diagnose.analysis import Basis, Figures, figures, measurement, saturated
from setebench.diagnose.evidence import evidence
from setebench.diagnose.findings import EVIDENCE, findings
from setebench.diagnose.places import hot, suffering
from setebench.diagnose.records import Timeline
from setebench.results import Document, MachineRecord

SCENARIO = "diagnose"
"""What `settings.scenario` of such a document says: it has no scenario behind it."""


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What stands around the findings: the machine, the settings, and when it began."""

    machine: MachineRecord
    settings: dict[str, Any]
    started: datetime


def diagnosed(timeline: Timeline, basis: Basis, frame: Frame) -> Document:
    """The document of one observed run."""
    found = list(findings(timeline, basis))
    each = [figures([interval], basis) for interval in timeline.intervals]
    spots = hot(timeline)
    case = advice.Case(
        values=advice.values_of(found) | _more(timeline, basis),
        spots=tuple(spots),
        suffering=tuple(_suffering(timeline, each, basis)),
        elapsed=timeline.seconds,
    )
    kept = evidence(timeline, each, basis, spots, advice.advise(case))
    return Document(
        tool=store.this_tool(),
        machine=frame.machine,
        settings=store.plain({"scenario": SCENARIO, "program": list(timeline.program), **frame.settings}),
        started=frame.started.isoformat(timespec="seconds"),
        elapsed_seconds=round(timeline.seconds, 3),
        findings=found,
        evidence=store.plain({EVIDENCE: kept}),
    )


def _suffering(timeline: Timeline, each: list[Figures], basis: Basis) -> list[Any]:
    flagged = {number for number, one in enumerate(each) if saturated(one, basis.calibration)}
    if not flagged:
        return []
    return suffering(timeline, flagged, basis.calibration.saturation_cycles or 0.0)


def _more(timeline: Timeline, basis: Basis) -> dict[str, float]:
    """Figures that are no findings, which advice rests on."""
    whole = figures(timeline.intervals, basis)
    found = {name: value for name in ("miss_parallelism", "instructions_per_cycle") if (value := whole.value(name))}
    lines = _lines_per_cycle(timeline, basis, whole)
    if lines is not None:
        found["lines_per_cycle"] = lines
    times = [thread.cpu_seconds for thread in timeline.threads]
    if len(times) > 1 and sum(times) > 0:
        found["thread_time_imbalance"] = imbalance(times)
    if timeline.idle_ns is not None:
        found["idle_latency"] = timeline.idle_ns
    return found


def _lines_per_cycle(timeline: Timeline, basis: Basis, whole: Figures) -> float | None:
    """Lines that come from memory in a cycle of a thread."""
    read = whole.metrics["memory_read"]
    if read.value is None:
        return None
    own = measurement(timeline.intervals, ("cycles", read.roles[0]), basis)
    if own.objection("cycles") or own.objection(read.roles[0]) or not own.value("cycles"):
        return None
    return own.value(read.roles[0]) / own.value("cycles")
