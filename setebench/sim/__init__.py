"""Simulated memory systems: every parameter known, the same probes as on silicon, cycle-approximate timing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from setebench.sim.machine import SimulatedMachine


def open_simulated(name: str, seed: int = 1) -> SimulatedMachine:
    """Open the simulated machine NAME (a shipped machine file), random:SEED, or path/to/FILE.toml.

    Same name, same seed, same calls: same ticks. Raises `UsageError` for a name or file that leads nowhere.
    """
    from setebench.sim.files.loader import load
    from setebench.sim.machine import open_machine_file

    return open_machine_file(load(name), seed)
