"""Faults of a simulated PMU, seen from outside: what each makes of a count, what the truth says of it, and which are
drawn."""

from __future__ import annotations

from typing import Any

import pytest
from quiet_machines import levels

from setebench.sim import spec
from setebench.sim.spec.pmu import SIMULATED_ROLES
from setebench.sim.truth.parameters import truth

NEXT_LINE = spec.NextLine(level=1, fills="l1", when_full="stalls")


def fault(kind: Any, amount: float = 0.0, role: Any = "") -> spec.Fault:
    return spec.Fault(kind=kind, amount=amount, role=role)


def machine_with(**events: tuple[spec.Fault, ...]) -> spec.Machine:
    """With one thread beside each, a prefetcher, and room for misses to overlap."""
    core = spec.Core(threads_per_core=2, load_queue=160)
    everything = {**dict.fromkeys(SIMULATED_ROLES, ()), **events}
    pmu = spec.Pmu(registers=64, events=everything)
    return spec.Machine(name="faulty", core=core, levels=levels(), prefetchers=(NEXT_LINE,), pmu=pmu)


# -- the truth ---------------------------------------------------------------------------------------------------------


def reported(machine: spec.Machine, role: str) -> dict[str, Any]:
    prefix = f"counter.{role}."
    return {
        each.parameter.removeprefix(prefix): each.value for each in truth(machine) if each.parameter.startswith(prefix)
    }


@pytest.mark.parametrize(
    ("role", "faults", "expected"),
    [
        ("load", (fault("scaled", 4.0),), {"verdict": ["scaled"], "scale": 0.25}),
        ("load", (fault("background", 0.1),), {"verdict": ["untrusted"]}),
        (
            "mem_read",
            (fault("misses_prefetches"),),
            {"verdict": ["misses_prefetches"], "scale": 1.0, "level": "memory", "includes_prefetch": False},
        ),
        (
            "mem_read",
            (fault("other_level", role="l2_fill"),),
            {"verdict": ["other_level"], "scale": 1.0, "level": "l3", "includes_prefetch": True},
        ),
        ("l2_fill", (), {"verdict": ["trusted"], "scale": 1.0, "level": "l3", "includes_prefetch": True}),
        ("stall_load_any", (fault("includes_other_stalls"),), {"verdict": ["includes_other_stalls"], "scale": 1.0}),
    ],
)
def test_the_truth_of_an_event(role: str, faults: tuple[spec.Fault, ...], expected: dict[str, Any]) -> None:
    assert reported(machine_with(**{role: faults}), role) == expected
