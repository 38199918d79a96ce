"""The truth about the events of a simulated PMU, in the parameter names of findings."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.counters.roles import ROLES, Quantity
from setebench.counters.verdicts import Kind
from setebench.results import Finding
from setebench.sim import spec
from setebench.sim.pmu.faults import counted_role, level_of, prefetches_come, roles_that_count, shown_faults
from setebench.sim.truth.finding import exact

SPECIAL = {"no_counter": Kind.UNAVAILABLE, "background": Kind.UNTRUSTED}
"""Faults whose verdict has another name."""

HIDING = (Kind.UNAVAILABLE, Kind.ZERO, Kind.MULTIPLEXED, Kind.UNTRUSTED)
"""Verdicts beside which no other can be found: the first of these that holds counts."""


def counters(machine: spec.Machine) -> Iterator[Finding]:
    """Every event of the machine's PMU, if it has one."""
    events = {} if machine.pmu is None else machine.pmu.events
    for role in roles_that_count(machine):
        if role in events:
            kinds = verdict_of(machine, role, events[role])
            yield exact(f"counter.{role}.verdict", [str(kind) for kind in kinds])
            if not {*HIDING} & {*kinds}:
                yield from _details(machine, role, events[role], kinds)


def events_left_open(machine: spec.Machine) -> frozenset[str]:
    """Parameters of events of which no file says the truth: whether prefetched lines are counted, where they may come
    or not by what was learned."""
    events = {} if machine.pmu is None else machine.pmu.events
    unsure = [role for role, faults in events.items() if not prefetches_come(machine, counted_role(role, faults))]
    return frozenset(f"counter.{role}.includes_prefetch" for role in unsure if machine.prefetchers)


def verdict_of(machine: spec.Machine, role: str, faults: tuple[spec.Fault, ...]) -> tuple[Kind, ...]:
    """What can be found of the event: its faults that show, less those that others hide, in the order in which
    verdicts are listed."""
    shown = shown_faults(machine, role, counted_role(role, faults))
    kinds = {SPECIAL.get(fault.kind) or Kind(fault.kind) for fault in faults if fault.kind in shown}
    hiding = next((kind for kind in HIDING if kind in kinds), None)
    return (hiding,) if hiding else tuple(kind for kind in Kind if kind in kinds) or (Kind.TRUSTED,)


def _details(
    machine: spec.Machine, role: str, faults: tuple[spec.Fault, ...], kinds: tuple[Kind, ...]
) -> Iterator[Finding]:
    counted = counted_role(role, faults)
    if Kind.FLOOR_PER_CYCLE not in kinds:  # what it counts is in no fixed ratio to what it should
        factor = next((fault.amount for fault in faults if fault.kind == "scaled"), 1.0)
        yield exact(f"counter.{role}.scale", 1.0 / factor, "ratio")
    if ROLES[role].quantity is Quantity.LINES and role != "hitm_local":
        yield exact(f"counter.{role}.level", level_of(machine, counted))
        if prefetches_come(machine, counted) and ROLES[role].prefetch and not ROLES[role].writes:
            yield exact(f"counter.{role}.includes_prefetch", Kind.MISSES_PREFETCHES not in kinds)
