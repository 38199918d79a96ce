"""The simulated performance monitoring unit: counting the runs of a machine, by event and with the faults of each.

It watches runs from outside and changes nothing that they do; what is random about its faults comes from a generator of
its own. Faults themselves are in `pmu_faults.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from setebench.counters.protocol import Count
from setebench.errors import UsageError
from setebench.sim import layout as at
from setebench.sim import spec
from setebench.sim.arrays import Arrays
from setebench.sim.pmu.faults import Reading, Watched
from setebench.sim.pmu.roles import COUNT_WORDS, Sums, counts_so_far, forget_rest
from setebench.sim.spec.pmu import SIMULATED_ROLES

ABSENT = "this machine has no performance monitoring unit"
NO_REGISTER = "no counter was free for it: the read returned 0 bytes"


class SimulatedPmu:
    """The PMU of one open machine, or the lack of one. Never handed out."""

    def __init__(self, machine: spec.Machine, arrays: Arrays, seed: int) -> None:
        self._machine = machine
        self._arrays = arrays
        self._rng = np.random.default_rng((seed, 0x9A17))
        self._open: dict[int, SimulatedCounting] = {}
        self._numbers = itertools.count(1)

    def event_roles(self) -> dict[str, str]:
        """See `CountsEvents.event_roles`."""
        pmu = self._machine.pmu
        return dict.fromkeys(SIMULATED_ROLES, ABSENT) if pmu is None else dict.fromkeys(pmu.events, "")

    def event_groups(self, roles: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """See `CountsEvents.event_groups`."""
        wanted = self.checked(roles)
        size = self._machine.pmu.registers if self._machine.pmu else max(len(wanted), 1)
        return tuple(wanted[first : first + size] for first in range(0, len(wanted), size))

    def open(self, roles: Sequence[str]) -> int:
        """Count these roles from now on; returns the number of this counting."""
        number = next(self._numbers)
        self._open[number] = SimulatedCounting(self._machine, self.checked(roles), self._rng)
        self._switch_ledger()
        return number

    def read(self, number: int) -> dict[str, Count]:
        """What was counted so far."""
        return self._open[number].read()

    def close(self, number: int) -> None:
        """Count no more."""
        del self._open[number]
        self._switch_ledger()

    @contextmanager
    def watching(self, cpus: Collection[int]) -> Iterator[None]:
        """Note what happens within, a run on these CPUs, in every counting that is open."""
        if not self._open or self._machine.pmu is None:
            yield
            return
        cores = self._machine.core.cores
        shared = {cpu for cpu in cpus if any(other % cores == cpu % cores and other != cpu for other in cpus)}
        parts = (tuple(set(cpus) - shared), tuple(shared))
        before = [counts_so_far(self._arrays, part) for part in parts]
        began = int(self._arrays.s[at.S_NOW])
        try:
            yield
        finally:
            alone, beside = (counts_so_far(self._arrays, part) - old for part, old in zip(parts, before, strict=True))
            nanoseconds = self._nanoseconds(int(self._arrays.s[at.S_NOW]) - began) * len(cpus)
            for counting in self._open.values():
                counting.note(alone, beside, nanoseconds)

    def _nanoseconds(self, units: int) -> int:
        clock = self._machine.clock
        return round(units / at.UNIT * clock.ticks_per_cycle / clock.ticks_per_second * 1e9)

    def _switch_ledger(self) -> None:
        """Keep the cycle ledger while something open needs it."""
        needed = self._machine.pmu is not None and any(each.needs_ledger for each in self._open.values())
        if needed and not self._arrays.c[at.C_COUNTING]:
            forget_rest(self._arrays)
        self._arrays.c[at.C_COUNTING] = needed

    def checked(self, roles: Iterable[str]) -> tuple[str, ...]:
        """These roles, each once. Raises `UsageError` for one that there is no event for."""
        known = self.event_roles()
        wanted = tuple(dict.fromkeys(roles))
        for role in wanted:
            if role not in known:
                raise UsageError(f"{self._machine.name} has no event for {role!r}; it has {', '.join(known)}")
        return wanted


class SimulatedCounting:
    """Events that are open: `setebench.counters.protocol.Counting`. Events that have more roles than the PMU has
    registers take turns."""

    def __init__(self, machine: spec.Machine, roles: tuple[str, ...], rng: np.random.Generator) -> None:
        self.roles = roles
        self._alone = np.zeros(COUNT_WORDS, dtype=np.int64)
        self._beside = np.zeros(COUNT_WORDS, dtype=np.int64)
        self._nanoseconds = 0
        events = {} if machine.pmu is None else machine.pmu.events
        turns = 1.0 if machine.pmu is None else min(1.0, machine.pmu.registers / max(len(roles), 1))
        self._readings = {role: Reading(role, events[role], turns, rng) if events else None for role in roles}

    @property
    def needs_ledger(self) -> bool:
        """Whether counting these roles takes the cycle ledger."""
        return any(reading is not None and reading.needs_ledger for reading in self._readings.values())

    def note(self, alone: Sums, beside: Sums, nanoseconds: int) -> None:
        """Add a run: what its lone threads counted, what those beside a sibling thread did, and how long it took all
        threads together."""
        self._alone += alone
        self._beside += beside
        self._nanoseconds += nanoseconds

    def read(self) -> dict[str, Count]:
        """See `Counting.read`."""
        watched = Watched(alone=self._alone, beside=self._beside)
        return {role: self._count(role, reading, watched) for role, reading in self._readings.items()}

    def _count(self, role: str, reading: Reading | None, watched: Watched) -> Count:
        if reading is None:
            return Count(role=role, reason=ABSENT)
        value = reading.value(watched)
        if value is None:
            return Count(role=role, reason=NO_REGISTER, enabled=self._nanoseconds)
        running = round(self._nanoseconds * reading.fraction)
        return Count(role=role, value=value, enabled=self._nanoseconds, running=running)
