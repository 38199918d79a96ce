"""From a timeline to a result document: findings, advice, evidence."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from setebench import store
from setebench.counters.imbalance import imbalance
from setebench.diagnose import advice
from setebench.diagnose.analysis import Basis, Figures, saturated
from setebench.diagnose.evidence import evidence
from setebench.diagnose.findings import EVIDENCE, findings
from setebench.diagnose.params import Params
from setebench.diagnose.places import Spot, Touched, hot, suffering, touched, waiting
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
    each = [Figures([interval], basis) for interval in timeline.intervals]
    spots = hot(timeline)
    suffers, objects = _suffering(timeline, each, basis)
    case = advice.Case(
        values=advice.values_of(found) | _more(timeline, each, basis),
        spots=_where(timeline, each),
        suffering=suffers[0] if suffers else None,
        elapsed=timeline.seconds,
    )
    kept = evidence(timeline, each, basis, spots, advice.advise(case)) | {
        "suffering": suffers[: Params().most_spots],
        "objects": objects[: Params().most_spots],
    }
    return Document(
        tool=store.this_tool(),
        machine=frame.machine,
        settings=store.plain({"scenario": SCENARIO, "program": list(timeline.program), **frame.settings}),
        started=frame.started.isoformat(timespec="seconds"),
        elapsed_seconds=round(timeline.seconds, 6),
        findings=found,
        evidence=store.plain({EVIDENCE: kept}),
    )


def _where(timeline: Timeline, each: list[Figures]) -> dict[str, Spot]:
    """By part of the cycles the function that spends most of it; of all time where no interval knows its parts."""
    found = {}
    for part in ("memory_latency", "memory_bandwidth"):
        percent = [figures.value(part) for figures in each]
        known = any(value is not None for value in percent)
        spots = waiting(timeline, percent) if known else hot(timeline)
        if spots:
            found[part] = spots[0]
    return found


def _suffering(timeline: Timeline, each: list[Figures], basis: Basis) -> tuple[list[Spot], list[Touched]]:
    """Functions, and data objects, of slow loads while memory is saturated."""
    flagged = {number for number, one in enumerate(each) if saturated(one)}
    if not flagged:
        return [], []
    least = basis.calibration.saturation_cycles or 0.0
    return suffering(timeline, flagged, least), touched(timeline, flagged, least)


def _more(timeline: Timeline, each: list[Figures], basis: Basis) -> dict[str, float]:
    """Figures that are no findings, which advice rests on; what concerns latency, of the intervals that it limits."""
    intervals = [row for row, own in zip(timeline.intervals, each, strict=True) if _waits_for_latency(own)]
    chosen = intervals or list(timeline.intervals)
    there = Figures(chosen, basis)
    found = {
        "miss_parallelism": there.value("miss_parallelism"),
        "miss_cycles": there.value("load_miss_latency"),
        "lines_per_cycle": _lines_per_cycle(there),
        "idle_latency": timeline.idle_ns,
    }
    times = [thread.cpu_seconds for thread in timeline.threads]
    if len(times) > 1 and sum(times) > 0:
        found["thread_time_imbalance"] = imbalance(times)
    return {name: value for name, value in found.items() if value is not None}


def _waits_for_latency(own: Figures) -> bool:
    latency, bandwidth = own.value("memory_latency"), own.value("memory_bandwidth")
    return latency is not None and bandwidth is not None and latency > bandwidth


def _lines_per_cycle(there: Figures) -> float | None:
    """Lines that come from memory in a cycle of a thread."""
    read = there.metric("memory_read")
    if read.value is None:
        return None
    own = there.measurement(("cycles", read.roles[0]))
    if own.objection("cycles") or own.objection(read.roles[0]) or not own.value("cycles"):
        return None
    return own.value(read.roles[0]) / own.value("cycles")
