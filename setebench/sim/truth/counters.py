"""The truth about the events of a simulated PMU, in the parameter names of findings."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.counters.roles import ROLES, Quantity
from setebench.counters.verdicts import Kind
from setebench.results import Finding
from setebench.sim import spec
from setebench.sim.pmu.sense import (
    can_be_seen,
    counted_role,
    level_of,
    prefetches_come,
    prefetches_may_come,
    roles_that_count,
)
from setebench.sim.truth.finding import exact

UNTRUSTED = ("no_stores", "background", "nonlinear")
"""Faults for which there is no word but that the event isn't to be trusted."""

SPECIAL = {"no_counter": Kind.UNAVAILABLE, **dict.fromkeys(UNTRUSTED, Kind.UNTRUSTED)}

HIDING: tuple[tuple[Kind, frozenset[Kind]], ...] = (
    (Kind.UNAVAILABLE, frozenset()),
    (Kind.ZERO, frozenset()),
    (Kind.MULTIPLEXED, frozenset()),
    (Kind.UNTRUSTED, frozenset({Kind.WRAPS})),
)
"""Verdicts beside which no other can be found, but those named: the first of these that holds counts."""


def counters(machine: spec.Machine) -> Iterator[Finding]:
    """Every event of the machine's PMU, if it has one."""
    events = {} if machine.pmu is None else machine.pmu.events
    for role in roles_that_count(machine):
        if role not in events:
            continue
        faults = events[role]
        verdict = verdict_of(machine, role, faults)
        yield exact(f"counter.{role}.verdict", [str(kind) for kind in verdict], "list")
        if not {kind for kind, _ in HIDING} & set(verdict):
            yield from _details(machine, role, faults, verdict)


def events_left_open(machine: spec.Machine) -> frozenset[str]:
    """Parameters of events of which no file says the truth: whether prefetched lines are counted, where prefetches may
    come or not."""
    events = {} if machine.pmu is None else machine.pmu.events
    counted = {role: counted_role(role, events[role]) for role in roles_that_count(machine) if role in events}
    return frozenset(
        f"counter.{role}.includes_prefetch"
        for role, of in counted.items()
        if prefetches_may_come(machine, of) and not prefetches_come(machine, of)
    )


def verdict_of(machine: spec.Machine, role: str, faults: tuple[spec.Fault, ...]) -> tuple[Kind, ...]:
    """What can be found of the event: its faults that can be seen, less those that others hide, in the order in which
    verdicts are listed."""
    counted = counted_role(role, faults)
    kinds = {
        SPECIAL.get(fault.kind) or Kind(fault.kind)
        for fault in faults
        if can_be_seen(machine, role, fault.kind, counted)
    }
    for hiding, beside in HIDING:
        if hiding in kinds:
            kinds &= {hiding} | beside
            break
    return tuple(kind for kind in Kind if kind in kinds) or (Kind.TRUSTED,)


def _details(
    machine: spec.Machine, role: str, faults: tuple[spec.Fault, ...], verdict: tuple[Kind, ...]
) -> Iterator[Finding]:
    counted = counted_role(role, faults)
    if Kind.FLOOR_PER_CYCLE not in verdict:  # what it counts is in no fixed ratio to what it should
        factor = next((fault.amount for fault in faults if fault.kind == "scaled"), 1.0)
        yield exact(f"counter.{role}.scale", 1.0 / factor, "ratio")
    if ROLES[role].quantity is not Quantity.LINES or role == "hitm_local":
        return
    yield exact(f"counter.{role}.level", level_of(machine, counted), "string")
    if prefetches_come(machine, counted) and ROLES[role].prefetch and not ROLES[role].writes:
        yield exact(f"counter.{role}.includes_prefetch", Kind.MISSES_PREFETCHES not in verdict, "bool")
