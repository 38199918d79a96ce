"""Contexts that know where a simulated machine's levels are, as those of a later scenario do.

To sweep a machine takes longer than most questions that tests ask then. So it is done once for all machines of a file
that differ in their prefetches alone; tests of sweeps, and of whole scenarios, do without.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from msgspec.structs import replace

from setebench.calibration import Calibration
from setebench.experiments.levels import find_levels
from setebench.machine import Machine
from setebench.scenario import Context
from setebench.sim import spec
from setebench.sim.inspect import spec_of
from setebench.sim.machine import open_machine_file

_KNOWN: dict[str, Calibration] = {}


def swept(machine: Any, seed: int = 5, **settings: Any) -> Context:
    """A context of a simulated machine, or of one that stands before it; `settings` are fields of `Context`."""
    file = replace(spec_of(machine), name="swept", prefetchers=(), software_prefetch=spec.SoftwarePrefetch())
    if repr(file) not in _KNOWN:
        with closing(open_machine_file(file, 1)) as bare:
            _KNOWN[repr(file)] = _known(bare)
    return Context(machine=machine, seed=seed, calibration=_KNOWN[repr(file)], **settings)


def _known(machine: Machine) -> Calibration:
    context = Context(machine=machine, seed=1, fast=True)
    find_levels(context)
    return context.calibration
