"""From a timeline to a result document: findings, advice that names the figure it rests on, and the timeline in
columns for plots and other programs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from setebench import store
from setebench.counters.metrics import PARTS
from setebench.diagnose.figures import EVIDENCE, METRICS, Basis, Figures, findings
from setebench.diagnose.records import Timeline
from setebench.results import Document, MachineRecord
from setebench.text import MOST_LISTED

SCENARIO = "diagnose"
"""What `settings.scenario` of such a document says: it has no scenario behind it."""
OTHER = "other"
"""What functions took beyond the first that are kept, as many as a text lists."""

Spot = dict[str, Any]
"""One function, as `spots` describes it."""


@dataclass(frozen=True)
class Params:
    """From where on advice is given."""

    worth_percent: float = 15.0  # of cycles, a part worth work: without it a program is at most 1.18 times as fast
    uneven: float = 1.1  # most loaded thread over the mean: the others wait for 9 % of the time
    slower_memory: float = 1.5  # latency over that without the program: the knee of latency over load


LIMITS = Params()
RULES = {
    "memory_bandwidth": (
        LIMITS.worth_percent,
        "{:.0f} % of the cycles wait for the bandwidth of the memory hierarchy{where}: use each line fully, block the "
        "loops for a nearer cache, and where memory is saturated run fewer threads or a lower core clock",
    ),
    "memory_latency": (
        LIMITS.worth_percent,
        "{:.0f} % of the cycles wait for single loads{where}: follow several chains at once, store what is used in a "
        "row side by side, or prefetch what is needed later (advise-prefetch)",
    ),
    "imbalance": (
        LIMITS.uneven,
        "the busiest thread is on a CPU {:.3g} times as long as the mean: where threads sleep while they wait for each "
        "other, divide by work, not by count, or let threads take small pieces as they come",
    ),
    "probe_latency": (
        LIMITS.slower_memory,
        "beside the program memory takes {:.2g} times as long as without it: its bandwidth is nearly used up; use "
        "lines fully, block for a nearer cache, or run fewer threads",
    ),
}
"""By finding, the limit of its value and what to try."""


def diagnosed(
    timeline: Timeline, basis: Basis, machine: MachineRecord, settings: dict[str, Any], started: datetime
) -> Document:
    """The document of one observed run on a machine, which began at `started`."""
    found = list(findings(timeline, basis))
    each = [Figures([interval], basis) for interval in timeline.intervals]
    values = {one.parameter.removeprefix("diagnose."): one.number for one in found if one.number is not None}
    if timeline.idle_ns:
        values["probe_latency"] = values.get("probe_latency", 0.0) / timeline.idle_ns
    places = {part: _where(timeline, each, part) for part in ("memory_latency", "memory_bandwidth")}
    return Document(
        tool=store.this_tool(),
        machine=machine,
        settings=store.plain({"scenario": SCENARIO, "program": list(timeline.program), **settings}),
        started=started.isoformat(timespec="seconds"),
        elapsed_seconds=round(timeline.seconds, 6),
        findings=found,
        evidence=store.plain({EVIDENCE: evidence(timeline, each, basis) | {"advice": advise(values, places)}}),
    )


def _where(timeline: Timeline, each: Sequence[Figures], part: str) -> str:
    """ ", most of them in f (file.c:12)": the function that spends most of a part of the cycles, or of all time where
    no interval knows its parts; empty without samples."""
    percent = [figures.value(part) for figures in each]
    listed = spots(timeline, percent if any(value is not None for value in percent) else None)
    if not listed:
        return ""
    function, line = listed[0]["function"], listed[0]["line"]
    return f", most of them in {function}" + (f" ({line})" if line else "")


def evidence(timeline: Timeline, each: Sequence[Figures], basis: Basis) -> dict[str, Any]:
    """The entry `diagnose` of a document's evidence. `each`: the figures of every interval."""
    flags = [figures.saturated for figures in each]
    hot = spots(timeline)[:MOST_LISTED]
    return {
        "program": list(timeline.program),
        "source": timeline.source,
        "ending": timeline.ending,
        "start_seconds": [interval.begin for interval in timeline.intervals],
        "end_seconds": [interval.end for interval in timeline.intervals],
        "counts": _known({role: [row.counts[role].whole for row in timeline.intervals] for role in timeline.roles}),
        "parts": _known({name: [figures.value(name) for figures in each] for name in PARTS}),
        "metrics": _known({name: [figures.value(name) for figures in each] for name in METRICS}),
        "saturated": flags if any(flag is not None for flag in flags) else [],
        "saturation_cycles": basis.saturation_cycles,
        "functions": hot,
        "function_seconds": _by_interval(timeline, hot) if timeline.hits else {},
        "suffering": spots(timeline, [float(flag or 0) for flag in flags])[:MOST_LISTED],
        "unsampled": timeline.unsampled,
        "threads": list(timeline.threads),
        "watched_seconds": [seconds for seconds, _ in timeline.probed],
        "watched_ns": [latency for _, latency in timeline.probed],
        "idle_ns": timeline.idle_ns,
    }


def _known(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Columns in which some interval has a value."""
    return {name: column for name, column in columns.items() if any(value is not None for value in column)}


def spots(timeline: Timeline, weights: Sequence[float | None] | None = None) -> list[Spot]:
    """Functions by the time that was spent in them, the longest first: their part of the weighted time of all samples,
    their number, the CPU seconds that they stand for, and the line that most of them name. With `weights` the time of
    an interval counts for so much (Helm and Taura 2019, section 7: counters say when, samples taken in these intervals
    say where). Empty where all weights are 0 or unknown."""
    found: dict[tuple[str, str], Spot] = {}
    lines: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for hit in timeline.hits:
        if weight := 1.0 if weights is None else weights[hit.interval]:
            key = (hit.function, hit.object)
            spot = found.setdefault(key, {"function": key[0], "object": key[1], "samples": 0, "seconds": 0.0})
            spot["samples"] += hit.samples
            spot["seconds"] += hit.seconds * weight
            lines[key][hit.line] += hit.samples if hit.line else 0
    whole = sum(spot["seconds"] for spot in found.values())
    for key, spot in found.items():
        spot |= {"line": lines[key].most_common(1)[0][0], "fraction": spot["seconds"] / whole}
    return sorted(found.values(), key=lambda spot: -spot["seconds"])


def _by_interval(timeline: Timeline, listed: Iterable[Spot]) -> dict[str, list[float]]:
    """Seconds of CPU time in each interval, by function; what is in no listed spot is under "other"."""
    named = {(spot["function"], spot["object"]) for spot in listed}
    found = {name: [0.0] * len(timeline.intervals) for name in (*(function for function, _ in named), OTHER)}
    for hit in timeline.hits:
        found[hit.function if (hit.function, hit.object) in named else OTHER][hit.interval] += hit.seconds
    return found


def advise(values: Mapping[str, float], places: Mapping[str, str]) -> list[dict[str, object]]:
    """Everything that may be said, what weighs most first. `values`: findings by name without `diagnose.`, the probe's
    latency over that without the program; `places`: by part of the cycles, in words, where most of it is spent."""
    return [
        {"text": text.format(values[name], where=places.get(name, "")), "rests_on": [f"diagnose.{name}"]}
        for name, (limit, text) in RULES.items()
        if values.get(name, 0.0) >= limit
    ]
