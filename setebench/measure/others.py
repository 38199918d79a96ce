"""What else a computer did while something was measured."""

from __future__ import annotations

import math

from setebench.errors import UnsupportedError
from setebench.machine import BusyTime, CountsBusyTime, Machine

MISCOUNTED_CPUS = 0.1
"""The kernel counts in ticks, so others may seem to have taken less than nothing, but not by more than this."""

IDLE_CPUS, IDLE_SHARE = 0.2, 0.01
"""What an idle computer does by itself: this much of one CPU, or this share of all where there are many."""


class Others:
    """Watches how busy other programs keep a machine's CPUs, from when it is made."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._latest = self._now()

    def busy_cpus(self) -> float | None:
        """How many CPUs others kept busy on average since this was last asked, at first since it was made: a process
        that runs all the time counts as one, an idle computer as 0. None where nobody counts, or counts nonsense."""
        before, self._latest = self._latest, self._now()
        if before is None or self._latest is None:
            return None
        passed, others = self._latest.passed - before.passed, self._latest.others - before.others
        if not (0 < passed < math.inf and -MISCOUNTED_CPUS * passed <= others < math.inf):
            return None
        busy = others / passed
        return busy if busy > max(IDLE_CPUS, IDLE_SHARE * self._latest.cpus) else 0.0

    def _now(self) -> BusyTime | None:
        if not isinstance(self._machine, CountsBusyTime):
            return None
        try:
            return self._machine.busy_time()
        except UnsupportedError:
            return None
