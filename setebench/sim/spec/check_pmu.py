"""Checks of a machine file's `[pmu]`: faults that the event can't have, and amounts that make no sense of a fault."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.sim import spec
from setebench.sim.files.toml_lines import Path
from setebench.sim.pmu.sense import mistaken_for, possible_faults
from setebench.sim.spec.check_fields import Problem

AMOUNTS = {
    "scaled": (0.001, 1000.0),
    "wraps": (0.01, 1.0),
    "multiplexed": (0.01, 0.99),
    "undercounts_smt": (0.01, 1.0),
    "background": (0.001, 100.0),
    "nonlinear": (0.1, 2.0),
}
"""Faults of a size, and which sizes; the others have none."""


def pmu_problems(machine: spec.Machine) -> Iterator[Problem]:
    """What is wrong with the events of a machine's PMU."""
    events = {} if machine.pmu is None else machine.pmu.events
    for role, faults in events.items():
        path: Path = ("pmu", "events", role)
        kinds = [fault.kind for fault in faults]
        if len(set(kinds)) < len(kinds):
            yield Problem(path, "a kind of fault stands there twice")
        for index, fault in enumerate(faults):
            yield from _fault(machine, role, fault, (*path, index))


def _fault(machine: spec.Machine, role: str, fault: spec.Fault, path: Path) -> Iterator[Problem]:
    possible = possible_faults(role)
    if fault.kind not in possible:
        yield Problem((*path, "kind"), f'an event of {role} can\'t have "{fault.kind}"; allowed: {", ".join(possible)}')
        return
    low, high = AMOUNTS.get(fault.kind, (0.0, 0.0))
    if not low <= fault.amount <= high:
        allowed = f"{low:g} to {high:g}" if high else "0, as this fault has no size"
        yield Problem((*path, "amount"), f'{fault.amount:g} for "{fault.kind}"; allowed: {allowed}')
    others = mistaken_for(role) if fault.kind == "other_level" else ("",)
    if fault.role not in others:
        yield Problem((*path, "role"), f'"{fault.role}" for "{fault.kind}"; allowed: {_quoted(others)}')
    if fault.kind == "undercounts_smt" and machine.core.threads_per_core == 1:
        yield Problem((*path, "kind"), '"undercounts_smt" needs threads_per_core of 2 or more')


def _quoted(words: tuple[str, ...]) -> str:
    return ", ".join(f'"{word}"' for word in words)
