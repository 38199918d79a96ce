"""The simulations behind open machines. What a scenario holds is the machine, from which nothing leads to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

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


OPEN: WeakKeyDictionary[object, Simulation] = WeakKeyDictionary()
"""By machine, until it is closed or nobody holds it any more."""


def simulation(machine: object) -> Simulation:
    """The simulation behind a machine. Raises `SetebenchError` once the machine is closed."""
    try:
        return OPEN[machine]
    except KeyError:
        raise SetebenchError("this simulated machine is closed") from None
