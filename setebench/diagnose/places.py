"""Which functions and lines samples name: where time went, and which code suffers while memory is saturated.

The second is the hybrid that Helm and Taura 2019 (section 7) propose: counters say when (intervals whose load-miss
latency is above the threshold), samples taken in these intervals say where.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import msgspec

from setebench.diagnose.records import Hit, Load, Place, Timeline


class Spot(msgspec.Struct, frozen=True, kw_only=True):
    """One function: the part of all samples that named it, their number, the CPU seconds that they stand for (0 for
    samples of loads), and the line that most of them name."""

    function: str
    object: str
    line: str
    fraction: float
    samples: int
    seconds: float = 0.0


def hot(timeline: Timeline) -> list[Spot]:
    """Functions by the time that was spent in them, the longest first."""
    return _spots(map(_named, timeline.hits))


def suffering(timeline: Timeline, flagged: Collection[int], least_cycles: float) -> list[Spot]:
    """Functions by what they lose while memory is saturated, in intervals with these numbers: by sampled loads that
    took longer than `least_cycles`, or where no loads were sampled, by their time."""
    if not timeline.loads:
        return _spots(_named(hit) for hit in timeline.hits if hit.interval in flagged)
    return _spots((load.place, 1, 0.0) for load in _slow(timeline, flagged, least_cycles))


class Touched(msgspec.Struct, frozen=True, kw_only=True):
    """One data object: the part of the slow loads that went to it, their number, and what they took in the mean."""

    data: str
    fraction: float
    samples: int
    cycles: float


def touched(timeline: Timeline, flagged: Collection[int], least_cycles: float) -> list[Touched]:
    """Data objects by the sampled loads that took longer than `least_cycles` while memory was saturated."""
    cycles: dict[str, list[int]] = {}
    slow = _slow(timeline, flagged, least_cycles)
    for load in slow:
        if load.data:
            cycles.setdefault(load.data, []).append(load.latency_cycles)
    return [
        Touched(data=data, fraction=len(each) / len(slow), samples=len(each), cycles=sum(each) / len(each))
        for data, each in sorted(cycles.items(), key=lambda item: -len(item[1]))
    ]


def _slow(timeline: Timeline, flagged: Collection[int], least_cycles: float) -> list[Load]:
    spans = [(each.begin, each.end) for number, each in enumerate(timeline.intervals) if number in flagged]
    return [load for load in timeline.loads if load.latency_cycles > least_cycles and _within(load, spans)]


def waiting(timeline: Timeline, percent: Sequence[float | None]) -> list[Spot]:
    """Functions by the time that they spent in a part of the cycles, of which each interval had so many percent. What
    ran in an interval has its percentage, so intervals that do different things are distinguished, and functions
    that take turns within one are not. None where no interval knows."""
    named = (
        (hit.place, hit.samples, hit.seconds * part / 100) for hit in timeline.hits if (part := percent[hit.interval])
    )
    return sorted(_spots(named), key=lambda spot: -spot.seconds)


def by_interval(timeline: Timeline, spots: Iterable[Spot]) -> dict[str, list[float]]:
    """Seconds of CPU time in each interval, by function; what is in no spot is under "other"."""
    named = {(spot.function, spot.object) for spot in spots}
    found = {spot.function: [0.0] * len(timeline.intervals) for spot in spots} | {
        OTHER: [0.0] * len(timeline.intervals)
    }
    for hit in timeline.hits:
        place = hit.place
        name = place.function if (place.function, place.object) in named else OTHER
        found[name][hit.interval] += hit.seconds
    return found


OTHER = "other"


def _within(load: Load, spans: list[tuple[float, float]]) -> bool:
    return any(start <= load.seconds < end for start, end in spans)


def _named(hit: Hit) -> tuple[Place, int, float]:
    return hit.place, hit.samples, hit.seconds


def _spots(named: Iterable[tuple[Place, int, float]]) -> list[Spot]:
    """Functions by the samples that named their places; with these, seconds that they stand for."""
    samples: Counter[tuple[str, str]] = Counter()
    seconds: dict[tuple[str, str], float] = {}
    lines: dict[tuple[str, str], Counter[str]] = {}
    for place, count, each in named:
        key = (place.function, place.object)
        samples[key] += count
        seconds[key] = seconds.get(key, 0.0) + each
        lines.setdefault(key, Counter())[place.line] += count
    total = samples.total()
    return [
        Spot(
            function=function,
            object=file,
            line=_most_common(lines[function, file]),
            fraction=count / total,
            samples=count,
            seconds=seconds[function, file],
        )
        for (function, file), count in samples.most_common()
    ]


def _most_common(lines: Counter[str]) -> str:
    """The line that most samples name, of those that have one."""
    named = [(count, line) for line, count in lines.items() if line]
    return max(named)[1] if named else ""
