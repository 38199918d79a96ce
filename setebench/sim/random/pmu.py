"""PMUs of random machines, to score the validation of events against: faults that show, alone and in pairs."""

from __future__ import annotations

from typing import Any

from setebench.sim import spec
from setebench.sim.pmu.faults import other_levels, roles_that_count, shown_faults
from setebench.sim.random.ranges import RANGES, Draw

UNIT = {"scaled", "floor_per_cycle"}
"""The unit of what counts in whole fours is no scale that could be found beside another."""


def random_pmu(draw: Draw, machine: spec.Machine) -> spec.Pmu:
    """The PMU of a random machine."""
    events: dict[Any, Any] = {role: _faults(draw, machine, role) for role in roles_that_count(machine)}
    return spec.Pmu(registers=draw("pmu_registers"), events=events)


def _faults(draw: Draw, machine: spec.Machine, role: str) -> tuple[spec.Fault, ...]:
    if not draw("pmu_faulty"):
        return ()
    first = _fault(draw, machine, role, shown_faults(machine, role))
    if not draw("pmu_second"):
        return (first,)
    rest = [kind for kind in shown_faults(machine, role, first.role) if kind not in (first.kind, "other_level")]
    return (first, _fault(draw, machine, role, [kind for kind in rest if {kind, first.kind} != UNIT]))


def _fault(draw: Draw, machine: spec.Machine, role: str, kinds: Any) -> spec.Fault:
    kind: Any = draw.value(tuple(kinds))
    instead: Any = draw.value(other_levels(machine, role)) if kind == "other_level" else ""
    return spec.Fault(kind=kind, amount=draw(f"pmu.{kind}") if f"pmu.{kind}" in RANGES else 0.0, role=instead)
