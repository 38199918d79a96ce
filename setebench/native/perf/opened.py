"""Events that are open, and what they counted: in pinned groups around probes, or one by one for programs and threads
and everything that these start, or for whole CPUs.

Where each event has a descriptor of its own, one that finds no free counter stops no other; the times
enabled and running of each are reported with its count. A read of an inherited event is the sum over all threads and
processes that inherited it, those that have ended too (perf_event_open(2), `inherit`).
"""

from __future__ import annotations

import errno
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, Self

import msgspec

from setebench.counters.protocol import Count
from setebench.native.perf import _perf
from setebench.native.perf.attributes import EVERYBODY, THIS_THREAD, Flag, Type
from setebench.native.perf.encode import Term, Wanted, countable
from setebench.native.perf.messages import Request, Situation, explain, no_counter

FOR_REGIONS = "it was counted for regions only, as by --regions-only"


class Member(NamedTuple):
    """One open event: `factor` of the unit of `name` each count is; `waits`: it begins to count at an exec."""

    name: str
    fd: int
    factor: float
    waits: bool


class OpenEvents:
    """Open events in groups, the leader of each first. Close it, or use it as a context."""

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self.failed: dict[str, Count] = {}
        """What can't be counted, with its reason."""
        self._groups: list[list[Member]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, name: str, factor: float, request: Request, joins: bool = False) -> int:
        """Open one more event for `name`, in the last group or in one of its own; 0, or errno where it is refused."""
        group = self._groups[-1] if joins else []
        try:
            fd = _perf.open_event(request.attributes, request.pid, request.cpu, group[0].fd if joins else -1)
        except _perf.PerfError as error:
            return error.errno or errno.EINVAL
        group.append(Member(name, fd, factor, bool(request.attributes.flags & Flag.ENABLE_ON_EXEC)))
        if not joins:
            self._groups.append(group)
        return 0

    def fail(self, name: str, reason: str) -> None:
        """Nothing of this name is counted; the first reason holds."""
        self.failed.setdefault(name, Count(role=name, reason=reason))

    @property
    def leaders(self) -> list[int]:
        """Descriptors to enable and disable, each with its whole group."""
        return [group[0].fd for group in self._groups]

    def switch(self, on: bool, names: Container[str] | None = None) -> None:
        """Let all groups count, or those of these names, but for what waits for an exec; or let them rest."""
        for leader in (group[0] for group in self._groups):
            if (names is not None and leader.name in names) or (names is None and not leader.waits):
                (_perf.enable if on else _perf.disable)(leader.fd, True)

    def read(self) -> dict[str, Count]:
        """Counts since the events began, by name, never scaled up; None with a reason where there is none."""
        parts: dict[str, list[tuple[float, int, int]]] = {}
        lacking: dict[str, Count] = {}
        for group in self._groups:
            reading = _perf.read_values(group[0].fd, len(group))
            for number, (name, _, factor, _) in enumerate(group):
                if reading is None:
                    lacking[name] = Count(role=name, reason=no_counter(self.situation))
                else:
                    own = (reading.values[number] * factor, reading.enabled, reading.running)
                    parts.setdefault(name, []).append(own)
        return {name: summed(name, own, self.situation) for name, own in parts.items()} | lacking | self.failed

    def close(self, names: Container[str] | None = None) -> None:
        """Close every event, or those of these names, also where the kernel complains of one. May be called twice."""
        for group in [group for group in self._groups if names is None or group[0].name in names]:
            self._groups.remove(group)
            for member in reversed(group):
                with suppress(_perf.PerfError):
                    _perf.close(member.fd)


def summed(name: str, parts: Iterable[tuple[float, int, int]], situation: Situation) -> Count:
    """A count of parts with their times enabled and running; none where the event never had a counter."""
    value, enabled, running = (sum(each) for each in zip(*parts, strict=True))
    if enabled and not running:
        return Count(role=name, reason=no_counter(situation), enabled=int(enabled))
    return Count(role=name, value=round(value), enabled=int(enabled), running=int(running))


# -- events of programs -----------------------------------------------------------------------------------------------


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Whose events: threads by number (0: the calling one), with all that they start later where `inherit` is set.
    `on_exec`: from their next exec on. With `cpu` whatever runs on that CPU instead."""

    threads: tuple[int, ...] = (THIS_THREAD,)
    inherit: bool = False
    on_exec: bool = False
    cpu: int | None = None

    def requests(self, term: Term) -> Iterator[Request]:
        """What is requested of the kernel for a term; not counting at first."""
        event = term.attributes.with_flags(Flag.DISABLED)
        if term.cpus is not None or self.cpu is not None:
            for cpu in (self.cpu or 0,) if term.cpus is None else term.cpus:
                yield Request(attributes=event, pid=EVERYBODY, cpu=cpu)
            return
        flags = Flag.INHERIT * self.inherit | Flag.ENABLE_ON_EXEC * self.on_exec
        for thread in self.threads:
            yield Request(attributes=event.with_flags(flags), pid=thread)


class Counters(OpenEvents):
    """Open events of one target, all still at rest, each with a descriptor of its own. `wanted`: in the order and the
    form in which they were opened. What can't be opened has a reason, and raises nothing."""

    def __init__(self, names: Sequence[Wanted], target: Target, situation: Situation) -> None:
        super().__init__(situation)
        # in the form that opens here: without the kernel's part, where this process has no right to it
        self.wanted = [each if target.cpu is not None else countable(each, situation) for each in names]
        self.user_only = {form.name for form, each in zip(self.wanted, names, strict=True) if form.terms != each.terms}
        for each in self.wanted:
            if each.reason:
                self.fail(each.name, each.reason)
            for term in each.terms:
                self._open(each, term, target)

    def _open(self, wanted: Wanted, term: Term, target: Target) -> None:
        opened = False
        for request in () if wanted.name in self.failed else target.requests(term):
            number = self.add(wanted.name, term.factor, request)
            opened = opened or not number
            if number and (number != errno.ESRCH or len(target.threads) == 1):  # else it ended since it was listed
                self.close({wanted.name})
                self.fail(wanted.name, explain(number, request, self.situation))
        if not opened:
            self.fail(wanted.name, "every thread ended before it could be counted")

    def leave_to_regions(self) -> None:
        """Close what takes a counter of a PMU and follows threads: these count for their regions alone, and have the
        counters that the same events of the whole program would take."""
        for each in self.wanted:
            software = all(term.attributes.type == Type.SOFTWARE for term in each.terms)
            if each.name not in self.failed and not software and each.of_threads:
                self.close({each.name})

    def read(self) -> dict[str, Count]:
        """See `OpenEvents.read`; in the order of the names."""
        found = super().read()
        return {each.name: found.get(each.name, Count(role=each.name, reason=FOR_REGIONS)) for each in self.wanted}
