"""For tests, and for what is true of prefetchers: what a scenario must never see of a simulated machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setebench.sim import layout as at
from setebench.sim.arrays import events_of, lines_of
from setebench.sim.machine import SimulatedMachine, simulation


def counters(machine: SimulatedMachine) -> dict[str, int]:
    """Event counts of all cores since the machine was opened; `layout.EVENTS` names them."""
    arrays = simulation(machine).arrays
    totals = events_of(arrays.c, arrays.s).sum(axis=0)
    return {name: int(totals[word]) for name, word in at.EVENTS.items()}


def cached_lines(machine: SimulatedMachine, level: int, core: int = 0) -> NDArray[np.int64]:
    """Numbers of the lines (addresses over the line size) that a core's cache of this level (1, 2, 3) holds."""
    arrays = simulation(machine).arrays
    c, s = arrays.c, arrays.s
    sets = int(c[at.C_LEVEL + (level - 1) * at.L_WORDS + at.L_SETS])
    begin = core * sets if level < 3 else 0
    held = lines_of(c, s, level - 1)[begin : begin + sets] >> at.LINE_SHIFT
    return held[held >= 0] + (at.BASE_ADDRESS >> int(c[at.C_LINE_BITS]))
