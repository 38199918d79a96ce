"""A kernel whose counters, rights and faults a test chooses: every branch that this computer can't take by itself."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field

from setebench.native.perf.attributes import Attributes
from setebench.native.perf.kernel import EventPage, PerfError, Reading

NEVER = 1 << 62
Refusal = Callable[["FakeEvent"], int]


@dataclass
class FakeEvent:
    """An open event and what it counted."""

    attributes: Attributes
    pid: int
    cpu: int
    leader: int
    on: bool = False
    count: int = 0
    enabled: int = 0
    running: int = 0


@dataclass
class FakeKernel:
    """`refuse` returns an errno or 0 for an event to be opened; `free` counters are there for each PMU's pinned groups;
    `fraction` of the enabled time a group has its counters; `files` may be open at once. `pace`: what
     every event counts between two readings."""

    refuse: Refusal = lambda event: 0
    free: int = NEVER
    fraction: float = 1.0
    files: int = NEVER
    pace: int = 0
    events: dict[int, FakeEvent] = field(default_factory=dict)
    opened: int = 0

    def open_event(
        self, attributes: Attributes, pid: int = 0, cpu: int = -1, group_fd: int = -1, flags: int = 8
    ) -> int:
        """The next number, or what the rules of the real one and the test's own refuse."""
        event = FakeEvent(attributes, pid, cpu, group_fd, on=not attributes.disabled)
        number = self._refused(event)
        if number:
            raise PerfError(number)
        self.opened += 1
        self.events[2000 + self.opened] = event
        return 2000 + self.opened

    def _refused(self, event: FakeEvent) -> int:
        if len(self.events) >= self.files:
            return errno.EMFILE
        if event.pid == -1 and event.cpu < 0:
            return errno.EINVAL
        if event.leader != -1 and (event.attributes.pinned or self._foreign(event)):
            return errno.EINVAL
        return self.refuse(event)

    def _foreign(self, event: FakeEvent) -> bool:
        """A member follows its leader's thread and CPU, and belongs to its PMU."""
        leader = self.events[event.leader]
        return (leader.pid, leader.cpu, leader.attributes.type) != (event.pid, event.cpu, event.attributes.type)

    def enable(self, fd: int, group: bool = False) -> None:
        """Switch on; with `group` all of it."""
        self._switch(fd, group, True)

    def disable(self, fd: int, group: bool = False) -> None:
        """Switch off."""
        self._switch(fd, group, False)

    def _switch(self, fd: int, group: bool, on: bool) -> None:
        for member in self.members(fd) if group else [fd]:
            self.events[member].on = on

    def members(self, leader: int) -> list[int]:
        """Leader and members in the order of opening."""
        return [leader, *(fd for fd, event in self.events.items() if event.leader == leader)]

    def happen(self, config: int, times: int, ns: int = 1000, cpu: int = -1, type: int | None = None) -> None:
        """So many events of one kind happen in so many nanoseconds, to threads or on one CPU."""
        for fd, event in self.events.items():
            if event.cpu != cpu or not self.events[self._leader(fd)].on or not self.has_counters(self._leader(fd)):
                continue
            event.enabled += ns
            event.running += round(ns * self.fraction)
            if event.attributes.config == config and type in (None, event.attributes.type):
                event.count += round(times * self.fraction)

    def _leader(self, fd: int) -> int:
        return fd if self.events[fd].leader == -1 else self.events[fd].leader

    def has_counters(self, leader: int) -> bool:
        """Groups of one PMU and CPU get counters in the order of opening, each all of its own or none."""
        place = self._place(leader)
        free = self.free
        for fd, event in self.events.items():
            if event.leader != -1 or self._place(fd) != place:
                continue
            fits = len(self.members(fd)) <= free
            free -= len(self.members(fd)) * fits
            if fd == leader:
                return fits
        return False

    def _place(self, fd: int) -> tuple[int, int]:
        return self.events[fd].attributes.type, self.events[fd].cpu

    def read_values(self, fd: int, count: int) -> Reading | None:
        """What the group counted; nothing where it is pinned and has no counters."""
        group = [self.events[member] for member in self.members(fd)]
        if len(group) != count:
            raise PerfError(errno.EINVAL)
        if self.events[fd].attributes.pinned and not self.has_counters(fd):
            return None
        for event in group:
            event.count += self.pace * event.on
        return Reading(group[0].enabled, group[0].running, [event.count for event in group])

    def map_page(self, fd: int, data_pages: int = 0, own: bool = False) -> EventPage:
        """Not to be had; tests of pages use memory of their own."""
        raise PerfError(errno.EPERM)

    def close(self, fd: int) -> None:
        """Forget it; twice is an error."""
        if self.events.pop(fd, None) is None:
            raise PerfError(errno.EBADF)
