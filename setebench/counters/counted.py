"""What was counted of a program, as records: events wanted, its run, intervals, and regions."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from functools import reduce

import msgspec

from setebench.counters.protocol import Count
from setebench.counters.roles import Scope
from setebench.errors import INTERRUPTED

SCHEMA = 1
KILLED = 128
"""Added to a signal's number it is the status that shells give to what the signal ended."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One name that was to be counted: by which event it was counted, the unit of a count, whose events it sees.
    `user_only`: those in the kernel were left out, as there was no right to count them."""

    name: str
    event: str
    unit: str
    scope: Scope = Scope.THREAD
    user_only: bool = False


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted from `begin` to `end`, seconds since the program began."""

    begin: float
    end: float
    counts: dict[str, Count]

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.end - self.begin


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """What one thread counted in one region, or all `threads` together: `calls` begins, of which `unended` had no end
    and are not in the counts, and `seconds` between the outermost begins and their ends."""

    name: str
    calls: int
    unended: int
    seconds: float
    counts: dict[str, Count]
    process: int = 0
    thread: int = 0
    threads: list[Region] = []


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the program. `status` where it exited, `signal` where it was killed, `ended_by` the signal by which
    a user ended it before it was done; 0 if none did."""

    elapsed: float
    status: int | None
    signal: int | None
    ended_by: int
    counts: dict[str, Count]
    intervals: list[Interval] = []
    regions: list[Region] = []
    notes: list[str] = []

    def shell_status(self, child_status: bool) -> int:
        """The exit status of the command that ran it: as of a shell where a user ended it, else the program's own on
        request, and 0."""
        if self.ended_by:
            return INTERRUPTED if self.ended_by == signal.SIGINT else KILLED + self.ended_by
        if not child_status:
            return 0
        return KILLED + self.signal if self.signal else self.status or 0


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """All that was counted of `command`."""

    command: list[str]
    started: str
    events: list[Event]
    run: Run


def difference(later: Count, earlier: Count | None) -> Count:
    """What was counted between two reads."""
    return later if earlier is None else _combined(later, earlier, -1)


def total(counts: Iterable[Count]) -> Count:
    """The sum of counts of one name; None with its reason where one of them is missing."""
    return reduce(_combined, counts)


def _combined(one: Count, other: Count, sign: int = 1) -> Count:
    """One count plus (or less) another; the first of them that is missing, if one is."""
    if one.value is None or other.value is None:
        return one if one.value is None else other
    enabled, running = one.enabled + sign * other.enabled, one.running + sign * other.running
    return Count(role=one.role, value=one.value + sign * other.value, enabled=enabled, running=running)


def regions(found: Sequence[Region]) -> list[Region]:
    """Records of threads, put together by region in the order of the first of each."""
    threads = {each.name: [other for other in found if other.name == each.name] for each in found}
    return [
        Region(
            name=name,
            calls=sum(each.calls for each in own),
            unended=sum(each.unended for each in own),
            seconds=sum(each.seconds for each in own),
            counts={event: total(each.counts[event] for each in own) for event in own[0].counts},
            threads=own,
        )
        for name, own in threads.items()
    ]
