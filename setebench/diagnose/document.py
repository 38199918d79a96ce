"""From a timeline to a result document: findings, advice, and the timeline in columns for plots and other programs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from setebench import store
from setebench.diagnose.advice import advise
from setebench.diagnose.analysis import METRICS, PARTS, Basis, Figures
from setebench.diagnose.findings import EVIDENCE, findings
from setebench.diagnose.params import Params
from setebench.diagnose.places import Spot, by_interval, spots
from setebench.diagnose.records import Timeline
from setebench.results import Document, Finding, MachineRecord

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
    values = _values(found) | _more(timeline, each, basis) | {"elapsed": timeline.seconds}
    kept = evidence(timeline, each, basis) | {"advice": advise(values, _where(timeline, each))}
    return Document(
        tool=store.this_tool(),
        machine=frame.machine,
        settings=store.plain({"scenario": SCENARIO, "program": list(timeline.program), **frame.settings}),
        started=frame.started.isoformat(timespec="seconds"),
        elapsed_seconds=round(timeline.seconds, 6),
        findings=found,
        evidence=store.plain({EVIDENCE: kept}),
    )


def _values(found: Sequence[Finding]) -> dict[str, float]:
    """Findings that are numbers or truths, by name without `diagnose.`."""
    numbers = ((each.parameter.removeprefix("diagnose."), each.value) for each in found)
    return {name: float(value) for name, value in numbers if isinstance(value, (int, float))}


def _where(timeline: Timeline, each: Sequence[Figures]) -> dict[str, Spot]:
    """By part of the cycles the function that spends most of it; of all time where no interval knows its parts."""
    found: dict[str, Spot] = {}
    for part in ("memory_latency", "memory_bandwidth"):
        percent = [figures.value(part) for figures in each]
        listed = spots(timeline, percent if any(value is not None for value in percent) else None)
        if listed:
            found[part] = listed[0]
    return found


def _more(timeline: Timeline, each: Sequence[Figures], basis: Basis) -> dict[str, float]:
    """Figures that are no findings, which advice rests on; what concerns latency, of the intervals that it limits."""
    waits = [own for own in each if (own.value("memory_latency") or 0.0) > (own.value("memory_bandwidth") or 0.0)]
    there = Figures([row for own in waits for row in own.intervals] or timeline.intervals, basis)
    found = {
        "miss_parallelism": there.value("miss_parallelism"),
        "miss_cycles": there.value("load_miss_latency"),
        "lines_per_cycle": _lines_per_cycle(there),
        "idle_latency": timeline.idle_ns,
    }
    times = [thread.cpu_seconds for thread in timeline.threads]
    if len(times) > 1 and sum(times) > 0:
        found["thread_time_imbalance"] = max(times) * len(times) / sum(times)
    return {name: value for name, value in found.items() if value is not None}


def _lines_per_cycle(there: Figures) -> float | None:
    """Lines that come from memory in a cycle of a thread."""
    read = there.metric("memory_read")
    own = there.measurement(("cycles", *read.roles))
    if read.value is None or own.objection("cycles") or own.objection(read.roles[0]) or not own.value("cycles"):
        return None
    return own.value(read.roles[0]) / own.value("cycles")


def evidence(timeline: Timeline, each: Sequence[Figures], basis: Basis) -> dict[str, Any]:
    """The entry `diagnose` of a document's evidence. `each`: the figures of every interval."""
    flags = [figures.saturated for figures in each]
    most, hot = Params().most_spots, spots(timeline)
    return {
        "program": list(timeline.program),
        "source": timeline.source,
        "ending": timeline.ending,
        "start_seconds": [interval.begin for interval in timeline.intervals],
        "end_seconds": [interval.end for interval in timeline.intervals],
        "counts": _counts(timeline),
        "uncounted": {role: reason for role, reason in timeline.roles.items() if reason},
        "parts": _columns(each, PARTS),
        "metrics": _columns(each, METRICS),
        "saturated": flags if any(flag is not None for flag in flags) else [],
        "saturation_cycles": basis.calibration.saturation_cycles,
        "functions": hot[:most],
        "function_seconds": by_interval(timeline, hot[:most]) if timeline.hits else {},
        "suffering": spots(timeline, [float(flag or 0) for flag in flags])[:most],
        "unsampled": timeline.unsampled,
        "lost_samples": timeline.lost_samples,
        "threads": list(timeline.threads),
        "regions": list(timeline.regions),
        "watched_seconds": [watched.seconds for watched in timeline.watched],
        "watched_ns": [watched.latency_ns for watched in timeline.watched],
        "idle_ns": timeline.idle_ns,
        "unwatched": timeline.unwatched,
    }


def _columns(each: Sequence[Figures], names: Sequence[str] | dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """Figures that some interval has, by name."""
    columns = {name: [figures.value(name) for figures in each] for name in names}
    return {name: column for name, column in columns.items() if any(value is not None for value in column)}


def _counts(timeline: Timeline) -> dict[str, list[int | None]]:
    """By role the counts of each interval; roles that were never counted are in `uncounted` only."""
    found: dict[str, list[int | None]] = {}
    for role in timeline.roles:
        counts = [interval.counts.get(role) for interval in timeline.intervals]
        values = [None if count is None or count.shared else count.value for count in counts]
        if any(value is not None for value in values):
            found[role] = values
    return found
