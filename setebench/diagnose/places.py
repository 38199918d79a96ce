"""Which functions samples of time name, weighted by what each interval says: all time, saturated time, waiting time.

The hybrid of Helm and Taura 2019 (section 7): counters say when, samples taken in these intervals say where.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from setebench.diagnose.records import Timeline

OTHER = "other"


class Spot(msgspec.Struct, frozen=True, kw_only=True):
    """One function: its part of the weighted time of all samples, their number, the CPU seconds that they stand for,
    and the line that most of them name."""

    function: str
    object: str
    line: str
    fraction: float
    samples: int
    seconds: float


def spots(timeline: Timeline, weights: Sequence[float | None] | None = None) -> list[Spot]:
    """Functions by the time that was spent in them, the longest first. With `weights` the time of an interval counts
    for so much: what ran in an interval has its weight, so functions that take turns within one are not told apart.
    Empty where all weights are 0 or unknown."""
    samples: Counter[tuple[str, str]] = Counter()
    seconds: dict[tuple[str, str], float] = {}
    lines: dict[tuple[str, str], Counter[str]] = {}
    for hit in timeline.hits:
        weight = 1.0 if weights is None else weights[hit.interval]
        if weight:
            key = (hit.place.function, hit.place.object)
            samples[key] += hit.samples
            seconds[key] = seconds.get(key, 0.0) + hit.seconds * weight
            lines.setdefault(key, Counter())[hit.place.line] += hit.samples if hit.place.line else 0
    total = sum(seconds.values())
    return [
        Spot(
            function=key[0],
            object=key[1],
            line=lines[key].most_common(1)[0][0],
            fraction=own / total,
            samples=samples[key],
            seconds=own,
        )
        for key, own in sorted(seconds.items(), key=lambda each: -each[1])
    ]


def by_interval(timeline: Timeline, listed: Iterable[Spot]) -> dict[str, list[float]]:
    """Seconds of CPU time in each interval, by function; what is in no listed spot is under "other"."""
    named = {(spot.function, spot.object) for spot in listed}
    found = {name: [0.0] * len(timeline.intervals) for name in (*(function for function, _ in named), OTHER)}
    for hit in timeline.hits:
        name = hit.place.function if (hit.place.function, hit.place.object) in named else OTHER
        found[name][hit.interval] += hit.seconds
    return found
