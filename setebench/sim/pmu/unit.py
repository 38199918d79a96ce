"""The simulated performance monitoring unit: counting the runs of a machine, by event and with the faults of each.

It watches runs from outside and changes nothing that they do; what is random about its faults comes from a generator of
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from setebench.counters.protocol import Count
from setebench.errors import UsageError
from setebench.sim import layout as at
from setebench.sim import spec
from setebench.sim.arrays import Arrays, events_of
from setebench.sim.pmu.events import Reading, Sums
from setebench.sim.spec.pmu import SIMULATED_ROLES

ABSENT = "this machine has no performance monitoring unit"
NO_REGISTER = "no counter was free for it: the read returned 0 bytes"


@dataclass(eq=False)
class _Counting:
    """Events that are open, and all that was counted since: by lone threads (row 0), by those beside a running sibling
    thread (row 1), and how long they ran, all together."""

    readings: dict[str, Reading]
    sums: Sums = field(default_factory=lambda: np.zeros((2, at.EVENT_WORDS), dtype=np.int64))
    nanoseconds: int = 0

    def count(self, role: str) -> Count:
        """What was counted of a role so far."""
        if role not in self.readings:
            return Count(role=role, reason=ABSENT)
        value, enabled = self.readings[role].value(*self.sums), self.nanoseconds
        if value is None:
            return Count(role=role, reason=NO_REGISTER, enabled=enabled)
        running = round(enabled * self.readings[role].fraction)
        return Count(role=role, value=value, enabled=enabled, running=running)


@dataclass(frozen=True)
class OpenEvents:
    """Events of a simulated machine, counted within the context: `setebench.counters.protocol.Counting`. No fault of an
    event can be reached from it, as it holds two functions alone."""

    switch: Callable[[bool], None]
    read: Callable[[], dict[str, Count]]

    def __enter__(self) -> OpenEvents:
        self.switch(True)
        return self

    def __exit__(self, *_: object) -> None:
        self.switch(False)


class SimulatedPmu:
    """The PMU of one open machine, or the lack of one. Never handed out."""

    def __init__(self, machine: spec.Machine, arrays: Arrays, seed: int) -> None:
        self._machine = machine
        self._events: dict[str, tuple[spec.Fault, ...]] = {**machine.pmu.events} if machine.pmu else {}
        self._registers = machine.pmu.registers if machine.pmu else len(SIMULATED_ROLES)
        self._arrays = arrays
        self._rng = np.random.default_rng((seed, 0x9A17))
        self._open: list[_Counting] = []

    def event_roles(self) -> dict[str, str]:
        """See `CountsEvents.event_roles`."""
        absent = self._machine.pmu is None
        return dict.fromkeys(SIMULATED_ROLES, ABSENT) if absent else dict.fromkeys(self._events, "")

    def event_groups(self, roles: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """See `CountsEvents.event_groups`."""
        wanted = self._checked(roles)
        return tuple(wanted[i : i + self._registers] for i in range(0, len(wanted), self._registers))

    def count_events(self, roles: Sequence[str]) -> OpenEvents:
        """See `CountsEvents.count_events`. More roles than the PMU has registers take turns."""
        wanted = self._checked(roles)
        turns = min(1.0, self._registers / max(len(wanted), 1))
        known = {role: self._events[role] for role in wanted if role in self._events}
        counting = _Counting({role: Reading(role, known[role], turns, self._rng) for role in known})

        def switch(on: bool) -> None:
            self._open = [*self._open, counting] if on else [each for each in self._open if each is not counting]
            self._arrays.c[at.C_COUNTING] = bool(self._open)

        return OpenEvents(switch, lambda: {role: counting.count(role) for role in wanted})

    @contextmanager
    def watching(self, cpus: Collection[int]) -> Iterator[None]:
        """Note what happens within, a run on these CPUs, in every counting that is open."""
        if not self._open:
            yield
            return
        cores, clock = self._machine.core.cores, self._machine.clock
        used = [cpu % cores for cpu in cpus]
        counts = events_of(self._arrays.c, self._arrays.s)
        before, began = counts.copy(), int(self._arrays.s[at.S_NOW])
        try:
            yield
        finally:
            passed = counts - before
            parts = ([core for core in {*used} if (used.count(core) > 1) == beside] for beside in (False, True))
            cycles = (int(self._arrays.s[at.S_NOW]) - began) / at.UNIT
            nanoseconds = round(cycles * clock.ticks_per_cycle / clock.ticks_per_second * 1e9) * len(cpus)
            sums = np.array([passed[sorted(part)].sum(axis=0) for part in parts])
            for counting in self._open:
                counting.sums += sums
                counting.nanoseconds += nanoseconds

    def _checked(self, roles: Iterable[str]) -> tuple[str, ...]:
        """These roles, each once. Raises `UsageError` for one that there is no event for."""
        known, wanted = self.event_roles(), tuple(dict.fromkeys(roles))
        for role in wanted:
            if role not in known:
                raise UsageError(f"{self._machine.name} has no event for {role!r}; it has {', '.join(known)}")
        return wanted
