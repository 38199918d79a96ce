"""Limits of the core clock that can be set, and energy that can be read: the kernel's cpufreq and powercap files.

The limits from before are restored at the end of a context, also by an exception; a process that is killed within
leaves them lowered.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from setebench.errors import UnsupportedError
from setebench.host.tree import Tree, parse_number

LIMITS = "sys/devices/system/cpu"
POWER = "sys/class/powercap"

CLOCK_PERCENT = 60.0
"""Of the limit from before: about what Molka et al. 2017 chose (1.3 of 2.5 GHz), where the CPU has that clock."""


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """One CPU's limit: its file, its value now, and the lowest that the CPU has, kHz."""

    path: str
    limit: int
    lowest: int


class Controls:
    """What of a machine's clock can be set and of its energy be read, by the system's files below `root`."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root, self._tree = root, Tree(root)

    def clocks(self) -> list[Clock]:
        """The limits of all CPUs. Raises `UnsupportedError` where there are none."""
        found = []
        for name in self._tree.names(LIMITS, r"cpu\d+") or []:
            path = f"{LIMITS}/{name}/cpufreq"
            limit = self._tree.value(f"{path}/scaling_max_freq", parse_number)
            lowest = self._tree.value(f"{path}/cpuinfo_min_freq", parse_number)
            if limit and lowest:
                found.append(Clock(path=f"{path}/scaling_max_freq", limit=limit, lowest=lowest))
        if not found:
            raise UnsupportedError("the clock can't be limited here: the kernel has no cpufreq (usual in guests)")
        return found

    def joules(self) -> dict[str, tuple[float, float]]:
        """Energy by package so far and where it begins anew, J. Raises `UnsupportedError` where it can't be read."""
        found = {}
        for name in self._tree.names(POWER, r"[a-z-]+:\d+") or []:
            used = self._tree.value(f"{POWER}/{name}/energy_uj", parse_number)
            most = self._tree.value(f"{POWER}/{name}/max_energy_range_uj", parse_number)
            if used is not None:
                found[name] = (used / 1e6, (most or 0) / 1e6)
        if not found:
            raise UnsupportedError("energy can't be read here: no powercap, or its files are for root alone")
        return found

    @contextmanager
    def lowered(self, percent: float = CLOCK_PERCENT) -> Iterator[None]:
        """Within, no CPU goes above so many percent of its limit from before, which is restored.

        Raises `UnsupportedError` where a limit can't be set, or doesn't stay so."""
        clocks = self.clocks()
        try:
            for clock in clocks:
                self._set(clock, max(clock.lowest, int(clock.limit * percent / 100)))
            yield
        finally:
            for clock in clocks:
                self._set(clock, clock.limit)

    def _set(self, clock: Clock, limit: int) -> None:
        try:
            (self._root / clock.path).write_text(str(limit))
        except OSError as error:
            raise UnsupportedError(f"the clock can't be limited here: {error.strerror or error}") from error
        if self._tree.value(clock.path, parse_number) != limit:
            raise UnsupportedError(f"the clock can't be limited here: {clock.path} does not keep what is written")
