"""This CPU's counted events, in roles: the capability `CountsEvents` of the native machine.

Each thread that runs a probe counts with events of its own, switched on and off right around the probe's code. Events
of a whole CPU or socket count around the run, or around a joint run from before its threads begin until they have
ended; what others do there meanwhile is in them. Waiting at a joint run's barriers is counted, too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.counters.protocol import Count
from setebench.counters.roles import ROLES
from setebench.errors import UsageError
from setebench.host.processor import read_processor
from setebench.host.tree import Tree
from setebench.native.perf import _perf
from setebench.native.perf.constraints import grouped
from setebench.native.perf.encode import plan_of
from setebench.native.perf.machine.groups import OpenGroups, Tally, add, placed
from setebench.native.perf.messages import Situation, no_pmu, read_situation
from setebench.native.perf.plans import SYSTEM_PLANS, Plan, countable, user_form
from setebench.native.perf.sysfs import core_pmus
from setebench.native.perf.tables import EventSpec, events_for, why_none


class NativeCounting:
    """Events of some roles, open in as many threads as run probes. See `setebench.counters.protocol.Counting`."""

    def __init__(self, situation: Situation, groups: Sequence[Sequence[Plan]]) -> None:
        self._situation = situation
        self._done = {plan.role: Tally(reason=plan.reason) for group in groups for plan in group}
        self._events = [placed(group) for group in groups]
        self._threads: dict[threading.Thread, OpenGroups] = {}
        self._lock = threading.Lock()
        self._shared = self._opened(of_cpus=True)

    def leaders(self, *, joint: bool = False) -> NDArray[np.int32]:
        """Descriptors to be switched around what the calling thread runs; its events are opened by the first call.
        In a joint run those of whole CPUs are left to `around_joint_run`."""
        thread = threading.current_thread()
        own = self._threads.get(thread)
        if own is None:
            own = self._opened(of_cpus=False)
            with self._lock:
                self._threads[thread] = own
        return np.array([*([] if joint else self._shared.leaders), *own.leaders], dtype=np.int32)

    @contextmanager
    def around_joint_run(self) -> Iterator[None]:
        """Count whole CPUs and sockets within."""
        for leader in self._shared.leaders:
            _perf.enable(leader, True)
        try:
            yield
        finally:
            for leader in self._shared.leaders:
                _perf.disable(leader, True)

    def leave(self) -> None:
        """The calling thread runs no more probes: its counts are kept and its events closed."""
        with self._lock:
            self._keep(self._threads.pop(threading.current_thread(), None))

    def read(self) -> dict[str, Count]:
        """See `Counting.read`."""
        with self._lock:
            total = dict(self._done)
            for groups in (self._shared, *self._threads.values()):
                for role, tally in groups.read().items():
                    add(total, role, tally)
        return {role: tally.of(role) for role, tally in total.items()}

    def close(self) -> None:
        """Keep what was counted and close every event."""
        with self._lock:
            while self._threads:
                self._keep(self._threads.popitem()[1])
            self._keep(self._shared)

    def _keep(self, groups: OpenGroups | None) -> None:
        if groups is not None:
            for role, tally in groups.read().items():
                add(self._done, role, tally)
            groups.close()

    def _opened(self, *, of_cpus: bool) -> OpenGroups:
        """The events of whole CPUs, or those of the calling thread."""
        sets = ([event for event in events if (event.cpu is not None) == of_cpus] for events in self._events)
        return OpenGroups(sets, self._situation)


class NativeCounters:
    """What of this CPU's events can be counted, and counting them."""

    def __init__(self, tree: Tree | None = None) -> None:
        """Reads the system's files and the event table of this processor; opens nothing."""
        tree = Tree(Path("/")) if tree is None else tree
        self._situation = read_situation(tree)
        self._processor = read_processor(tree)
        self._forms: dict[str, Plan] = {}
        self._specs = events_for(self._processor)
        self._plans = {role: self._plan(role, spec) for role, spec in self._specs.items()} | SYSTEM_PLANS

    def _plan(self, role: str, spec: EventSpec) -> Plan:
        """Probes run in user mode, so what the kernel does in between is left out of the cores' own events."""
        plan = plan_of(role, spec, self._situation.pmus)
        if plan.reason and not core_pmus(self._situation.pmus):
            return Plan(role=role, reason=no_pmu(self._situation))
        terms = (
            msgspec.structs.replace(term, attributes=user_form(term.attributes)) if term.cpus is None else term
            for term in plan.terms
        )
        return msgspec.structs.replace(plan, terms=tuple(terms))

    def event_roles(self) -> dict[str, str]:
        """See `CountsEvents.event_roles`."""
        return {role: self._countable(role).reason for role in self._plans}

    def event_groups(self, roles: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """See `CountsEvents.event_groups`. The table says what fits a whole PMU; what fits now, as a watchdog or others
        may hold counters, the kernel is asked by opening it."""
        for role in roles:
            if role not in self._plans:
                why = why_none(self._processor, role) if role in ROLES else f"there is no role {role!r}"
                raise UsageError(f"this machine knows no event for {role!r}: {why}; it knows {', '.join(self._plans)}")
        free = [role for role in dict.fromkeys(roles) if role not in self._specs]
        bound = {role: self._specs[role] for role in roles if role in self._specs}
        groups = [part for group in grouped(bound) for part in self._parts(group)]
        if free:
            groups[:1] = [(*(groups[0] if groups else ()), *free)]
        return tuple(groups)

    def _parts(self, group: tuple[str, ...]) -> list[tuple[str, ...]]:
        """The group, or halves of it that fit the counters that are free now."""
        if len(group) < 2 or self._fits_now(group):
            return [group]
        half = len(group) // 2
        return [*self._parts(group[:half]), *self._parts(group[half:])]

    def _fits_now(self, group: Sequence[str]) -> bool:
        events = placed(self._countable(role) for role in group)
        opened = OpenGroups([events], self._situation)
        try:
            return opened.have_counters() and len(opened.leaders) == len({event.place for event in events})
        finally:
            opened.close()

    def count(self, roles: Sequence[str]) -> NativeCounting:
        """Open what is needed to count these roles. The caller closes it."""
        groups = self.event_groups(roles)
        return NativeCounting(self._situation, [[self._countable(role) for role in group] for group in groups])

    def _countable(self, role: str) -> Plan:
        """The plan in its form that opens here. One that did is kept; one that did not may another time."""
        if role in self._forms:
            return self._forms[role]
        plan = countable(self._plans[role], self._situation)
        if not plan.reason:
            self._forms[role] = plan
        return plan
