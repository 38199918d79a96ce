"""The simulations behind open machines, by number. What a scenario holds has the number only."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from setebench.errors import SetebenchError

if TYPE_CHECKING:
    from setebench.sim import spec
    from setebench.sim.arrays import Arrays
    from setebench.sim.memory_map import MemoryMap
    from setebench.sim.pmu.unit import SimulatedPmu


@dataclass(frozen=True)
class Simulation:
    """Everything of one open machine; never handed out."""

    machine: spec.Machine
    arrays: Arrays
    memory: MemoryMap
    pmu: SimulatedPmu


_open: dict[int, Simulation] = {}
_numbers = itertools.count(1)


def opened(sim: Simulation) -> int:
    """Keep a simulation under a number of its own."""
    number = next(_numbers)
    _open[number] = sim
    return number


def forget(number: int) -> None:
    """Let a simulation go; does nothing where that was done before."""
    _open.pop(number, None)


def simulation(number: int) -> Simulation:
    """The simulation behind a machine's number. Raises `SetebenchError` once the machine is closed."""
    try:
        return _open[number]
    except KeyError:
        raise SetebenchError("this simulated machine is closed") from None
