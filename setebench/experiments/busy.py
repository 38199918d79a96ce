"""What else a computer did while something was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from setebench.machine import BusyTime, CountsBusyTime, Machine


@dataclass(frozen=True, kw_only=True)
class BusyParams:
    """miscounted: CPUs by which others may seem to have taken less than nothing, as the kernel counts in ticks.
    idle_cpus, idle_fraction: what an idle computer does by itself: this much of one CPU, or this fraction of all where
    there are many."""

    miscounted: float = 0.1
    idle_cpus: float = 0.2
    idle_fraction: float = 0.01


PARAMS = BusyParams()


class Busy:
    """Watches how busy other programs keep a machine's CPUs, from when it is made."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._latest = self._now()

    def cpus(self) -> float | None:
        """How many CPUs others kept busy on average since this was last asked, at first since it was made: a process
        that runs all the time counts as one, an idle computer as 0. None where nobody counts, or counts nonsense."""
        before, self._latest = self._latest, self._now()
        if before is None or self._latest is None:
            return None
        passed, others = self._latest.passed - before.passed, self._latest.others - before.others
        if not (0 < passed < math.inf and -PARAMS.miscounted * passed <= others < math.inf):
            return None
        busy = others / passed
        return busy if busy > max(PARAMS.idle_cpus, PARAMS.idle_fraction * self._latest.cpus) else 0.0

    def _now(self) -> BusyTime | None:
        return self._machine.busy_time() if isinstance(self._machine, CountsBusyTime) else None
