"""This CPU's counted events, in roles: the capability `CountsEvents` of the native machine.

Each thread that runs a probe counts with events of its own, switched on and off right around the probe's code. Events
of a whole CPU or socket count around the run, or around a joint run from before its threads begin until they have
ended; what others do there meanwhile is in them. Waiting at a joint run's barriers is counted, too.

A group is counted at once or not at all: its leader is pinned, so the kernel never lets it take turns with others, and
a group that finds no free counter says so when it is read. Counts are never scaled.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from setebench.counters.counted import total
from setebench.counters.protocol import Count, Counting
from setebench.counters.roles import ROLES
from setebench.errors import UsageError
from setebench.host.doctor.reports import CounterReport
from setebench.native.perf import _perf
from setebench.native.perf.attributes import USER_ONLY, Attributes, Flag, Software, Type
from setebench.native.perf.encode import SYSTEM_ROLES, Resolver, Term, Wanted, countable
from setebench.native.perf.messages import Situation, explain, no_counter, read_situation
from setebench.native.perf.opened import OpenEvents
from setebench.native.perf.tables import why_none

Counts = dict[str, Count]
Placed = tuple[str, Term, int | None]
"""A role, one of its terms, and a CPU where it is counted (None: it follows the thread)."""


def _group_of(placed: Placed) -> tuple[str, int, int]:
    """Events of one PMU and CPU may be in one group. Each of the kernel's clocks is alone: as members of a group they
    stand still from the second time on that it is enabled (seen on Linux 6.18)."""
    _, term, cpu = placed
    clock = term.is_software(Software.CPU_CLOCK, Software.TASK_CLOCK)
    return term.pmu, -1 if cpu is None else cpu, term.attributes.config if clock else -1


def open_groups(sets: Iterable[Sequence[Wanted]], situation: Situation, of_cpus: bool) -> OpenEvents:
    """Open the events of whole CPUs, or those of the calling thread, that may be counted at once, set by set, one group
    for each PMU and CPU, at rest. What the kernel doesn't take into a group counts in one of its own."""
    opened = OpenEvents(situation)
    for wanted in sets:
        terms = ((each.name, term) for each in wanted for term in each.terms if (term.cpus is not None) == of_cpus)
        placed: list[Placed] = [(role, term, cpu) for role, term in terms for cpu in term.cpus or (None,)]
        for _, same in groupby(sorted(placed, key=_group_of), key=_group_of):
            joins = False
            for role, term, cpu in same:
                # only a leader is pinned, and its members with it
                event = (term if joins else term.only(Flag.PINNED)).at_rest(cpu)
                joins = opened.add(role, term.factor, event, joins) or joins
    return opened


def merged(*parts: Counts) -> Counts:
    """Counts by role over parts that have some of them each."""
    roles = dict.fromkeys(role for part in parts for role in part)
    return {role: total(part[role] for part in parts if role in part) for role in roles}


class NativeCounting:
    """Events of some roles, in as many threads as run probes. See `setebench.counters.protocol.Counting`."""

    def __init__(self, situation: Situation, groups: Sequence[Sequence[Wanted]]) -> None:
        self._situation, self._sets = situation, groups
        each = (wanted for group in groups for wanted in group)
        self._parts = [{w.name: Count(role=w.name, value=None if w.reason else 0, reason=w.reason) for w in each}]
        self._shared = open_groups(groups, situation, of_cpus=True)

    @contextmanager
    def around_run(self, joint: bool) -> Iterator[NDArray[np.int32]]:
        """Open the events of the calling thread: gives the descriptors to be enabled around what it runs. In a joint
        run those of whole CPUs are left to `around_joint_run`."""
        with open_groups(self._sets, self._situation, of_cpus=False) as own:
            yield np.array([*([] if joint else self._shared.leaders), *own.leaders], dtype=np.int32)
            self._parts.append(own.read())

    @contextmanager
    def around_joint_run(self) -> Iterator[None]:
        """Count whole CPUs and sockets within."""
        self._shared.switch(True)
        try:
            yield
        finally:
            self._shared.switch(False)

    def read(self) -> Counts:
        """See `Counting.read`."""
        return merged(*self._parts, self._shared.read())

    def close(self) -> None:
        """Keep what was counted and close every event."""
        self._parts.append(self._shared.read())
        self._shared.close()


class NativeCounters:
    """The capability `CountsEvents` of this CPU. Nothing is read or opened before it is needed."""

    _counting: NativeCounting | None = None

    @cached_property
    def _resolver(self) -> Resolver:
        return Resolver()

    def event_roles(self) -> dict[str, str]:
        """See `CountsEvents.event_roles`."""
        return {role: self._countable(role).reason for role in (*self._resolver.specs, *SYSTEM_ROLES)}

    def event_groups(self, roles: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """See `CountsEvents.event_groups`. A group that finds others' counters taken has that reason."""
        specs = self._resolver.specs
        for role in roles:
            if role not in specs and role not in SYSTEM_ROLES:
                why = why_none(self._resolver.processor, role) if role in ROLES else f"there is no role {role!r}"
                known = ", ".join((*specs, *SYSTEM_ROLES))
                raise UsageError(f"this machine knows no event for {role!r}: {why}; it knows {known}")
        first, *others = self._resolver.groups(roles) or ((),)
        free = dict.fromkeys(role for role in roles if role not in specs)
        return ((*first, *free), *others) if roles else ()

    @contextmanager
    def count_events(self, roles: Sequence[str]) -> Iterator[Counting]:
        """See `CountsEvents.count_events`. Raises `UsageError` within another one, too."""
        if self._counting is not None:
            raise UsageError("events are counted already; name all roles at once, or one after the other")
        groups = [[self._countable(role) for role in each] for each in self.event_groups(roles)]
        self._counting = NativeCounting(self._resolver.situation, groups)
        try:
            yield self._counting
        finally:
            self._counting.close()
            self._counting = None

    def _countable(self, role: str) -> Wanted:
        """The role in its form that opens here. Probes run in user mode, so what the kernel does in between is left out
        of the cores' own events."""
        wanted = self._resolver.of_role(role)
        own = role not in SYSTEM_ROLES and wanted.of_threads
        return countable(wanted.only(USER_ONLY) if own else wanted, self._resolver.situation)


MOST_COUNTERS = 32
"""More than any core has."""
BRANCHES = Attributes(type=Type.HARDWARE, config=4, flags=USER_ONLY | Flag.PINNED | Flag.DISABLED)
"""Every core has this event and none a fixed counter for it, so that it shows the counters that any event can use."""


def counter_report() -> CounterReport:
    """How many of a core's counters are free: pinned events are opened until one finds none. Raises nothing."""
    situation, reason = read_situation(), f"at least {MOST_COUNTERS}"
    fds: list[int] = []
    try:
        while len(fds) < MOST_COUNTERS:
            fds.append(_perf.open_event(BRANCHES))
            _perf.switch(fds[-1], True)
            sum(range(100))  # some hundred branches
            reading = _perf.read_values(fds[-1], 1)
            if reading is None or not reading.values[0]:
                silent = "the event opens but does not count: its counts would be zeros that mean nothing"
                reason = no_counter(situation) if reading is None else silent
                os.close(fds.pop())
                break
    except OSError as error:
        reason = explain(error.errno or 0, BRANCHES, situation)
    finally:
        for fd in fds:
            os.close(fd)
    return CounterReport(free=len(fds), reason=reason)
