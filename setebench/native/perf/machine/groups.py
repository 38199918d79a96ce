"""Open events in pinned groups, and what they counted.

A group is counted at once or not at all: its leader is pinned, so the kernel never lets it take turns with others, and
a group that finds no free counter says so when it is read. Enabled and running times are kept as they are and counts
are never scaled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import msgspec

from setebench.counters.protocol import Count
from setebench.native.perf.attributes import GROUP, Attributes, Software, Type
from setebench.native.perf.kernel import NO_GROUP, Kernel, PerfError, close_all
from setebench.native.perf.messages import Request, Situation, explain, no_counter
from setebench.native.perf.plans import Plan, Term, request_of


@dataclass
class Tally:
    """What was counted of one role so far; with a reason, its value means nothing."""

    value: float = 0.0
    enabled: int = 0
    running: int = 0
    reason: str = ""

    def add(self, other: Tally) -> None:
        """Take another's counts into this one; the first reason stays."""
        self.value += other.value
        self.enabled += other.enabled
        self.running += other.running
        self.reason = self.reason or other.reason

    def count(self, role: str) -> Count:
        """As the capability of machines reports it."""
        value = None if self.reason else round(self.value)
        return Count(role=role, value=value, reason=self.reason, enabled=self.enabled, running=self.running)


def add_all(total: dict[str, Tally], more: dict[str, Tally]) -> None:
    """Add role by role."""
    for role, tally in more.items():
        total.setdefault(role, Tally()).add(tally)


_CLOCKS = (Software.CPU_CLOCK, Software.TASK_CLOCK)


@dataclass(frozen=True)
class Placed:
    """One term of a role on one CPU (None: of the thread)."""

    role: str
    term: Term
    cpu: int | None

    @property
    def place(self) -> tuple[str, int, int]:
        """Events of one place may be in one group. The kernel's clocks are alone: as a member of a group they stand
        still from the second time on that the group is switched on (seen on Linux 6.18)."""
        attributes = self.term.attributes
        clock = attributes.type == Type.SOFTWARE and attributes.config in _CLOCKS
        return self.term.pmu, -1 if self.cpu is None else self.cpu, attributes.config if clock else -1


@dataclass
class _Group:
    """A leader and its members, in the order of opening."""

    fds: list[int] = field(default_factory=list)
    members: list[Placed] = field(default_factory=list)


def placed(plans: Iterable[Plan]) -> list[Placed]:
    """Every term of these plans on every CPU where it is counted."""
    return [
        Placed(plan.role, term, cpu)
        for plan in plans
        for term in plan.terms
        for cpu in ((None,) if term.cpus is None else term.cpus)
    ]


class OpenGroups:
    """The events of one thread, or those of whole CPUs, opened but not counting yet."""

    def __init__(self, kernel: Kernel, situation: Situation) -> None:
        self._kernel = kernel
        self._situation = situation
        self._groups: list[_Group] = []
        self._failed: dict[str, Tally] = {}

    @property
    def leaders(self) -> list[int]:
        """Descriptors to enable and disable, each with its whole group."""
        return [group.fds[0] for group in self._groups]

    def open(self, events: Sequence[Placed]) -> None:
        """Open what may be counted at once, one group for each PMU and CPU. What can't be opened fails its role."""
        for _, same in groupby(sorted(events, key=lambda event: event.place), key=lambda event: event.place):
            self._open_group(list(same))

    def _open_group(self, events: list[Placed]) -> None:
        group = _Group()
        for event in events:
            group = self._open_event(event, group)
        self._keep(group)

    def _keep(self, group: _Group) -> None:
        if group.fds:
            self._groups.append(group)

    def _open_event(self, event: Placed, group: _Group) -> _Group:
        """Put the event into the group, or where the kernel does not take it there, into a new one, which is returned
        as the one to go on with."""
        try:
            self._admit(event, group)
            return group
        except PerfError as error:
            refused = error
        if group.fds:
            alone = _Group()
            try:
                self._admit(event, alone)
            except PerfError as error:
                refused = error
            else:
                self._keep(group)
                return alone
        self._fail(event, refused)
        return group

    def _admit(self, event: Placed, group: _Group) -> None:
        leader = group.fds[0] if group.fds else NO_GROUP
        request = _request(event, first=not group.fds)
        group.fds.append(self._kernel.open_event(request.attributes, request.pid, request.cpu, leader))
        group.members.append(event)

    def _fail(self, event: Placed, error: PerfError) -> None:
        reason = explain(error.errno or 0, _request(event, first=True), self._situation)
        self._failed.setdefault(event.role, Tally(reason=reason))

    def read(self) -> dict[str, Tally]:
        """Counts of every role so far. A role with a term that was not counted has a reason."""
        total: dict[str, Tally] = {role: Tally(reason=tally.reason) for role, tally in self._failed.items()}
        for group in self._groups:
            add_all(total, self._read_group(group))
        return total

    def _read_group(self, group: _Group) -> dict[str, Tally]:
        reading = self._kernel.read_values(group.fds[0], len(group.fds))
        total: dict[str, Tally] = {}
        for index, event in enumerate(group.members):
            if reading is None:
                tally = Tally(reason=no_counter(self._situation))
            else:
                value = reading.values[index] * event.term.factor
                tally = Tally(value, reading.enabled, reading.running)
            add_all(total, {event.role: tally})
        return total

    def have_counters(self) -> bool:
        """Whether the kernel gives every group its counters, tried by switching them on for a moment."""
        for leader in self.leaders:
            self._kernel.enable(leader, True)
        found = [self._kernel.read_values(group.fds[0], len(group.fds)) for group in self._groups]
        for leader in self.leaders:
            self._kernel.disable(leader, True)
        return None not in found

    def close(self) -> None:
        """Close every event. May be called twice."""
        while self._groups:
            close_all(self._kernel, self._groups.pop().fds)


def _request(event: Placed, *, first: bool) -> Request:
    """As the kernel is asked: the first of a group is pinned and waits to be enabled, the others follow it."""
    attributes: Attributes = msgspec.structs.replace(
        event.term.attributes, disabled=first, pinned=first, read_format=GROUP
    )
    request = request_of(event.term, attributes)
    return request if event.cpu is None else msgspec.structs.replace(request, cpu=event.cpu)
