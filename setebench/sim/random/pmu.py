"""PMUs of random machines, to score the validation of events against: each event with a fault that shows, or none."""

from __future__ import annotations

from typing import Any

from setebench.sim import spec
from setebench.sim.pmu.faults import other_levels, roles_that_count, shown_faults
from setebench.sim.random.ranges import RANGES, Draw


def random_pmu(draw: Draw, machine: spec.Machine) -> spec.Pmu:
    """The PMU of a random machine."""
    events: dict[Any, Any] = {
        role: (_fault(draw, machine, role),) if draw("pmu_faulty") else () for role in roles_that_count(machine)
    }
    return spec.Pmu(registers=draw("pmu_registers"), events=events)


def _fault(draw: Draw, machine: spec.Machine, role: str) -> spec.Fault:
    kind: Any = draw.value(shown_faults(machine, role))
    instead: Any = draw.value(other_levels(machine, role)) if kind == "other_level" else ""
    return spec.Fault(kind=kind, amount=draw(f"pmu.{kind}") if f"pmu.{kind}" in RANGES else 0.0, role=instead)
