"""What else a computer did while something was measured."""

from __future__ import annotations

from setebench.errors import UnsupportedError
from setebench.machine import BusyTime, CountsBusyTime, Machine


class Others:
    """Watches how busy other programs keep a machine's CPUs, from when it is made."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._latest = self._now()

    def busy_cpus(self) -> float | None:
        """How many CPUs others kept busy on average since this was last asked, at first since it was made; None where
        nobody counts. A process that runs all the time counts as one."""
        before, self._latest = self._latest, self._now()
        if before is None or self._latest is None or self._latest.passed <= before.passed:
            return None
        return max((self._latest.others - before.others) / (self._latest.passed - before.passed), 0.0)

    def _now(self) -> BusyTime | None:
        if not isinstance(self._machine, CountsBusyTime):
            return None
        try:
            return self._machine.busy_time()
        except UnsupportedError:
            return None
