"""For tests, and for what is true of prefetchers: what a scenario must never see of a simulated machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setebench.sim import layout as at
from setebench.sim import spec
from setebench.sim.arrays import lines_of
from setebench.sim.machine import SimulatedMachine
from setebench.sim.opened import simulation


def spec_of(machine: SimulatedMachine) -> spec.Machine:
    """The machine file behind a machine."""
    return simulation(machine).machine


def counters(machine: SimulatedMachine, core: int | None = None) -> dict[str, int]:
    """Event counts since the machine was opened, of one core or of all; `layout.EVENTS` names them."""
    arrays = simulation(machine).arrays
    first = int(arrays.c[at.C_EVENTS])
    cores = int(arrays.c[at.C_CORES])
    counts = arrays.s[first : first + cores * at.EVENT_WORDS].reshape(cores, at.EVENT_WORDS)
    totals = counts.sum(axis=0) if core is None else counts[core]
    return {name: int(totals[word]) for name, word in at.EVENTS.items()}


def cached_in(machine: SimulatedMachine, address: int, core: int = 0) -> set[int]:
    """Levels (1, 2, 3) whose caches hold the line at an address, its data on the way included."""
    described = spec_of(machine)
    line = address // described.line_size_bytes
    return {level for level in range(1, len(described.levels) + 1) if line in cached_lines(machine, level, core)}


def cached_lines(machine: SimulatedMachine, level: int, core: int = 0) -> NDArray[np.int64]:
    """Numbers of the lines (addresses over the line size) that a core's cache of this level (1, 2, 3) holds."""
    arrays = simulation(machine).arrays
    c, s = arrays.c, arrays.s
    sets = int(c[at.C_LEVEL + (level - 1) * at.L_WORDS + at.L_SETS])
    begin = core * sets if level < 3 else 0
    held = lines_of(c, s, level - 1)[begin : begin + sets] >> at.LINE_SHIFT
    return held[held >= 0] + (at.BASE_ADDRESS >> int(c[at.C_LINE_BITS]))
