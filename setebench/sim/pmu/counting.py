"""Counted events as a scenario holds them: two numbers, so that no fault of an event can be reached from them."""

from __future__ import annotations

from collections.abc import Sequence

from setebench.counters.protocol import Count
from setebench.sim.opened import simulation


class OpenEvents:
    """Events of a simulated machine, counted within the context: `setebench.counters.protocol.Counting`."""

    __slots__ = ("_last", "_machine", "_number", "_roles")

    def __init__(self, machine: int, roles: Sequence[str]) -> None:
        self._machine = machine
        self._roles = tuple(roles)
        self._number = 0
        self._last: dict[str, Count] | None = None

    def __enter__(self) -> OpenEvents:
        self._number = simulation(self._machine).pmu.open(self._roles)
        self._last = None
        return self

    def read(self) -> dict[str, Count]:
        """See `Counting.read`; behind the context what was counted until its end."""
        if self._last is not None:
            return self._last
        return simulation(self._machine).pmu.read(self._number, self._roles)

    def __exit__(self, *_: object) -> None:
        pmu = simulation(self._machine).pmu
        self._last = pmu.read(self._number, self._roles)
        pmu.close(self._number)
