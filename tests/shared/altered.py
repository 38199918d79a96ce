"""Machines that stand before a simulated one and change something of it; everything else is the simulated machine's."""

from __future__ import annotations

from typing import Any


class Altered:
    """Changes nothing yet."""

    def __init__(self, machine: Any) -> None:
        self._machine = machine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)
