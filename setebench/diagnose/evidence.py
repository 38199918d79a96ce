"""What a result file keeps of a timeline, in columns, for plots and for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from setebench.counters.decomposition import Decomposition
from setebench.diagnose.advice import Advice
from setebench.diagnose.analysis import METRICS, PARTS, Basis, Figures, saturated, sockets
from setebench.diagnose.params import Params
from setebench.diagnose.places import Spot, by_interval
from setebench.diagnose.records import Timeline


def evidence(
    timeline: Timeline, each: Sequence[Figures], basis: Basis, spots: Sequence[Spot], advice: Sequence[Advice]
) -> dict[str, Any]:
    """The entry `diagnose` of a document's evidence. `each`: the figures of every interval."""
    flags = [saturated(figures) for figures in each]
    return {
        "program": list(timeline.program),
        "source": timeline.source,
        "ending": timeline.ending,
        "start_seconds": [interval.begin for interval in timeline.intervals],
        "end_seconds": [interval.end for interval in timeline.intervals],
        "counts": _counts(timeline),
        "uncounted": {role: reason for role, reason in timeline.roles.items() if reason},
        "parts": {name: [figures.value(name) for figures in each] for name in PARTS if _decomposed(each)},
        "metrics": _columns(each),
        "saturated": flags if any(flag is not None for flag in flags) else [],
        "saturation_cycles": basis.calibration.saturation_cycles,
        "functions": list(spots[: Params().most_spots]),
        "function_seconds": by_interval(timeline, spots[: Params().most_spots]) if timeline.hits else {},
        "unsampled": timeline.unsampled,
        "lost_samples": timeline.lost_samples,
        "threads": list(timeline.threads),
        "regions": list(timeline.regions),
        "sockets": sockets(timeline, basis),
        "watched_seconds": [watched.seconds for watched in timeline.watched],
        "watched_ns": [watched.latency_ns for watched in timeline.watched],
        "idle_ns": timeline.idle_ns,
        "unwatched": timeline.unwatched,
        "advice": list(advice),
    }


def _decomposed(each: Sequence[Figures]) -> bool:
    return any(isinstance(figures.parts, Decomposition) for figures in each)


def _columns(each: Sequence[Figures]) -> dict[str, list[float | None]]:
    """Metrics that some interval has."""
    columns = {name: [figures.value(name) for figures in each] for name in METRICS}
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
