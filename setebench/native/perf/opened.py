"""Events that are open, and what they counted: in pinned groups around probes, or one by one for programs and threads
and everything that these start, or for whole CPUs.

Where each event has a descriptor of its own, one that finds no free counter stops no other; the times
enabled and running of each are reported with its count. A read of an inherited event is the sum over all threads and
processes that inherited it, those that have ended too (perf_event_open(2), `inherit`).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple, Self

import msgspec

from setebench.counters.protocol import Count
from setebench.native.perf import _perf
from setebench.native.perf.attributes import Attributes, Flag
from setebench.native.perf.encode import Wanted, countable
from setebench.native.perf.messages import Situation, explain, no_counter


class Member(NamedTuple):
    """One open event: `factor` of the unit of `name` each count is."""

    name: str
    fd: int
    factor: float


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

    def add(self, name: str, factor: float, event: Attributes, joins: bool = False) -> bool:
        """Open one more event for `name`, in the last group where it `joins` and the kernel takes it there, or in one
        of its own; whether it opened. Where it did not, `name` has failed for the first such reason."""
        group = self._groups[-1] if joins else []
        try:
            fd = _perf.open_event(event, group[0].fd if joins else -1)
        except OSError as error:
            if joins:
                return self.add(name, factor, event.with_flags(Flag.PINNED))
            reason = explain(error.errno or errno.EINVAL, event, self.situation)
            self.failed.setdefault(name, Count(role=name, reason=reason))
            return False
        group.append(Member(name, fd, factor))
        if not joins:
            self._groups.append(group)
        return True

    @property
    def leaders(self) -> list[int]:
        """Descriptors to enable and disable, each with its whole group."""
        return [group[0].fd for group in self._groups]

    def switch(self, on: bool, names: Container[str] | None = None) -> None:
        """Let all groups count, or those of these names, or let them rest."""
        for leader in (group[0] for group in self._groups):
            if names is None or leader.name in names:
                _perf.switch(leader.fd, on)

    def read(self) -> dict[str, Count]:
        """Counts since the events began, by name, never scaled up; None with a reason where there is none."""
        parts: dict[str, list[tuple[float, int, int]]] = {}
        lacking: dict[str, Count] = {}
        for group in self._groups:
            reading = _perf.read_values(group[0].fd, len(group))
            for number, (name, _, factor) in enumerate(group):
                if reading is None:
                    lacking[name] = Count(role=name, reason=no_counter(self.situation))
                else:
                    own = (reading.values[number] * factor, reading.enabled, reading.running)
                    parts.setdefault(name, []).append(own)
        return {name: summed(name, own, self.situation) for name, own in parts.items()} | lacking | self.failed

    def close(self) -> None:
        """Close every event, also where the kernel complains of one. May be called twice."""
        while self._groups:
            for member in reversed(self._groups.pop()):
                with suppress(OSError):
                    os.close(member.fd)


def summed(name: str, parts: Iterable[tuple[float, int, int]], situation: Situation) -> Count:
    """A count of parts with their times enabled and running; none where the event never had a counter."""
    value, enabled, running = (sum(each) for each in zip(*parts, strict=True))
    if enabled and not running:
        return Count(role=name, reason=no_counter(situation), enabled=int(enabled))
    return Count(role=name, value=round(value), enabled=int(enabled), running=int(running))


class Counters(OpenEvents):
    """Open events of a thread, all still at rest, each with a descriptor of its own. `wanted`: in the order and form in
    which they were opened. What can't be opened has a reason, and raises nothing."""

    def __init__(self, names: Sequence[Wanted], situation: Situation, thread: int = 0, flags: int = 0) -> None:
        """Of `thread` (0: the calling one), with what it starts later where `flags` say `INHERIT`, from its next exec
        on where they say `ENABLE_ON_EXEC`."""
        super().__init__(situation)
        # in the form that opens here: without the kernel's part, where this process has no right to it
        self.wanted = [countable(each, situation) for each in names]
        self.user_only = {form.name for form, each in zip(self.wanted, names, strict=True) if form.terms != each.terms}
        for each in self.wanted:
            if each.reason:
                self.failed[each.name] = Count(role=each.name, reason=each.reason)
            for term in each.terms:
                own = msgspec.structs.replace(term.attributes.with_flags(Flag.DISABLED | flags), pid=thread)
                for event in map(term.at_rest, term.cpus) if term.cpus else (own,):
                    self.add(each.name, term.factor, event)
        self._at_once = {each.name for each in self.wanted if not (flags & Flag.ENABLE_ON_EXEC and each.of_threads)}

    def begin(self) -> None:
        """Let everything count, but for what waits for an exec."""
        self.switch(True, self._at_once)

    def read(self) -> dict[str, Count]:
        """See `OpenEvents.read`; in the order of the names."""
        found = super().read()
        return {each.name: found[each.name] for each in self.wanted}
