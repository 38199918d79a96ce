"""How fast the core's clock may go, against the counter that time is read from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from setebench.sim import layout as at
from setebench.sim import spec
from setebench.sim.arrays import units
from setebench.sim.machine import SimulatedMachine, simulation
from setebench.sim.recordings import recording

PARTS = 1000
"""Parts of a run whose pace is sampled."""

FIRST_CYCLES = 1e6
"""On the clock when a machine is opened, at least."""

CENTRAL = (5, 95)
"""Percentiles that bound a run's pace: nine tenths of it."""


class Pace(NamedTuple):
    """Bounds of the core's cycles in a tick, relative to what the machine file gives."""

    slowest: float
    fastest: float


def machine_pace(machine: spec.Machine) -> Pace:
    """Of any time that the machine runs."""
    change = machine.clock.drift
    replayed = recording(machine.noise.recorded)
    slowest, fastest = (replayed.slowest, replayed.fastest) if replayed else (1.0, 1.0)
    return Pace(slowest / (1 + change), fastest / (1 - change))


def seen_pace(machine: SimulatedMachine) -> Pace:
    """Of what the machine has run since it was opened."""
    from setebench.sim.kernel.clock import clock_ticks
    from setebench.sim.kernel.compiler import plain

    sim = simulation(machine)
    whole = machine_pace(sim.machine)
    if whole.slowest == whole.fastest:
        return whole
    settings = sim.arrays.f.copy()
    settings[at.F_STEP_TICKS] = 1.0
    if settings[at.F_BLOCKS]:  # gaps are no pace
        settings[-int(settings[at.F_GAPS]) - 1 :] = 0.0
    times = np.linspace(units(FIRST_CYCLES), int(sim.arrays.s[at.S_NOW]), PARTS + 1).astype(np.int64)
    ticks = np.diff([plain(clock_ticks)(settings.tolist(), int(time)) for time in times])
    paces = np.diff(times) / at.UNIT * sim.machine.clock.ticks_per_cycle / ticks
    slowest, fastest = np.percentile(paces, CENTRAL)
    return Pace(float(slowest), float(fastest))
