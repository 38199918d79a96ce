"""Open events in pinned groups, and what they counted.

A group is counted at once or not at all: its leader is pinned, so the kernel never lets it take turns with others, and
a group that finds no free counter says so when it is read. Enabled and running times are kept as they are and counts
are never scaled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from setebench.counters.protocol import Count
from setebench.native.perf import _perf
from setebench.native.perf.messages import Request, Situation, explain, no_counter
from setebench.native.perf.plans import Plan, Term, request_of


class Tally(NamedTuple):
    """What was counted of one role so far; with a reason, its value means nothing."""

    value: float = 0.0
    enabled: int = 0
    running: int = 0
    reason: str = ""

    def of(self, role: str) -> Count:
        """As the capability of machines reports it."""
        value = None if self.reason else round(self.value)
        return Count(role=role, value=value, reason=self.reason, enabled=self.enabled, running=self.running)


def add(total: dict[str, Tally], role: str, more: Tally) -> None:
    """Take counts of a role into the total; the first reason stays."""
    value, enabled, running, reason = total.get(role, Tally())
    total[role] = Tally(value + more.value, enabled + more.enabled, running + more.running, reason or more.reason)


class Placed(NamedTuple):
    """One term of a role on one CPU (None: of the thread)."""

    role: str
    term: Term
    cpu: int | None

    @property
    def place(self) -> tuple[str, int, int]:
        """Events of one place may be in one group; each of the kernel's clocks is alone."""
        alone = self.term.attributes.config if self.term.is_clock else -1
        return self.term.pmu, -1 if self.cpu is None else self.cpu, alone

    def request(self, *, first: bool) -> Request:
        """As the kernel is asked: the first of a group is pinned and waits to be enabled, the others follow it."""
        asked = request_of(self.term, msgspec.structs.replace(self.term.attributes, disabled=first, pinned=first))
        return asked if self.cpu is None else msgspec.structs.replace(asked, cpu=self.cpu)


def placed(plans: Iterable[Plan]) -> list[Placed]:
    """Every term of these plans on every CPU where it is counted."""
    terms = ((plan.role, term) for plan in plans for term in plan.terms)
    return [Placed(role, term, cpu) for role, term in terms for cpu in ((None,) if term.cpus is None else term.cpus)]


def tallied(members: Sequence[Placed], reading: _perf.Reading | None, situation: Situation) -> dict[str, Tally]:
    """Counts of a group by role, each event's times its factor. A group that found no counter has a reason."""
    found: dict[str, Tally] = {}
    for index, event in enumerate(members):
        if reading is None:
            add(found, event.role, Tally(reason=no_counter(situation)))
        else:
            value = reading.values[index] * event.term.factor
            add(found, event.role, Tally(value, reading.enabled, reading.running))
    return found


class OpenGroups:
    """The events of one thread, or those of whole CPUs, opened but not counting yet. What can't be opened fails its
    role."""

    def __init__(self, sets: Iterable[Sequence[Placed]], situation: Situation) -> None:
        """Open events that may be counted at once, set by set, one group for each PMU and CPU. What the kernel doesn't
        take into a group counts in one of its own."""
        self._situation = situation
        self._groups: list[tuple[list[int], list[Placed]]] = []  # descriptors and events, the leader first
        self._failed: dict[str, Tally] = {}
        for events in sets:
            for _, same in groupby(sorted(events, key=lambda event: event.place), key=lambda event: event.place):
                fds: list[int] = []
                for event in same:
                    fds = self._admit(event, fds)

    def _admit(self, event: Placed, fds: list[int]) -> list[int]:
        """Open the event in the group of these descriptors, or in a new one, which is returned as the one to go on
        with."""
        request = event.request(first=not fds)
        try:
            fd = _perf.open_event(request.attributes, request.pid, request.cpu, *fds[:1])
        except _perf.PerfError as error:
            if fds:
                return self._admit(event, []) or fds
            self._failed.setdefault(event.role, Tally(reason=explain(error.errno or 0, request, self._situation)))
            return []
        if not fds:
            self._groups.append((fds, []))
        fds.append(fd)
        next(members for own, members in self._groups if own is fds).append(event)
        return fds

    @property
    def leaders(self) -> list[int]:
        """Descriptors to enable and disable, each with its whole group."""
        return [fds[0] for fds, _ in self._groups]

    def read(self) -> dict[str, Tally]:
        """Counts of every role so far. A role with a term that was not counted has a reason."""
        total = dict(self._failed)
        for fds, members in self._groups:
            for role, tally in tallied(members, _perf.read_values(fds[0], len(fds)), self._situation).items():
                add(total, role, tally)
        return total

    def have_counters(self) -> bool:
        """Whether the kernel gives every group its counters, tried by switching them on for a moment."""
        for leader in self.leaders:
            _perf.enable(leader, True)
        found = [_perf.read_values(fds[0], len(fds)) for fds, _ in self._groups]
        for leader in self.leaders:
            _perf.disable(leader, True)
        return None not in found

    def close(self) -> None:
        """Close every event. May be called twice."""
        while self._groups:
            for fd in reversed(self._groups.pop()[0]):
                _perf.close(fd)
