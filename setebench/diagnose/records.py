"""What was observed of a program, as plain records: counts by interval, samples with their places, threads, a probed
latency. Whoever observes writes a `Timeline`; whoever says what it means reads nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from setebench.counters.counted import Interval, total
from setebench.counters.protocol import Count

UNKNOWN = "[unknown]"
"""A function or an object that nothing names."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of time that fell into one place, by one thread, in one interval: how many, and the seconds of CPU time
    that they stand for. `object` is the file that holds the code of the function."""

    interval: int
    thread: int
    samples: int
    seconds: float
    function: str = UNKNOWN
    object: str = UNKNOWN
    line: str = ""


class Thread(msgspec.Struct, frozen=True, kw_only=True):
    """One thread of the program: its number, its name, and its CPU time."""

    number: int
    name: str
    cpu_seconds: float


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """A program that ran, as it was observed.

    `source`: "counted" on this machine, "simulated" on one that is not. `intervals` are the counts of all threads, each
    role that was not counted in one with its reason. `roles`: what was to be counted, with "" or the reason why it
    can't be here. `hits` are samples of time. `probed`: memory latency that a probing thread saw (seconds, ns), and
    `idle_ns` that without the program. `unsampled`, `unprobed`: why there is none of these; empty where there are.
    `ending`: how the program ended."""

    program: tuple[str, ...]
    source: str = "counted"
    intervals: tuple[Interval, ...] = ()
    roles: dict[str, str] = msgspec.field(default_factory=dict)
    hits: tuple[Hit, ...] = ()
    threads: tuple[Thread, ...] = ()
    probed: tuple[tuple[float, float], ...] = ()
    idle_ns: float | None = None
    unsampled: str = ""
    unprobed: str = ""
    ending: str = ""

    @property
    def seconds(self) -> float:
        """Elapsed time from the begin of the first to the end of the last interval."""
        return self.intervals[-1].end - self.intervals[0].begin if self.intervals else 0.0


def summed(counts: Sequence[Mapping[str, Count]], roles: Sequence[str]) -> dict[str, Count]:
    """Counts of these roles over several stretches of time; a role that one of them lacks has its reason."""
    if not counts:
        return {role: Count(role=role, value=0) for role in roles}
    lacking = {role: Count(role=role, reason=f"{role} was not counted") for role in roles}
    return {role: total(each.get(role, lacking[role]) for each in counts) for role in roles}
