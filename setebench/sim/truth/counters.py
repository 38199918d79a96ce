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
"""Verdicts beside which nothing else can be found."""


def counters(machine: spec.Machine) -> Iterator[Finding]:
    """Every event of the machine's PMU, if it has one."""
    events = {} if machine.pmu is None else machine.pmu.events
    for role in (each for each in roles_that_count(machine) if each in events):
        counted = counted_role(role, events[role])
        shown = [each for each in events[role] if each.kind in shown_faults(machine, role)]
        kind = next((SPECIAL.get(each.kind) or Kind(each.kind) for each in shown), Kind.TRUSTED)
        yield exact(f"counter.{role}.verdict", [str(kind)])
        if kind in HIDING:
            continue
        if kind is not Kind.FLOOR_PER_CYCLE:  # what it counts is in no fixed ratio to what it should
            yield exact(f"counter.{role}.scale", 1 / shown[0].amount if kind is Kind.SCALED else 1.0, "ratio")
        if ROLES[role].quantity is Quantity.LINES and role != "hitm_local":
            yield exact(f"counter.{role}.level", level_of(machine, counted))
            if prefetches_come(machine, counted) and ROLES[role].prefetch and not ROLES[role].writes:
                yield exact(f"counter.{role}.includes_prefetch", kind is not Kind.MISSES_PREFETCHES)


def events_left_open(machine: spec.Machine) -> frozenset[str]:
    """Parameters of events of which no file says the truth: whether prefetched lines are counted, where they may come
    or not by what was learned."""
    events = {} if machine.pmu is None else machine.pmu.events
    unsure = [role for role, faults in events.items() if not prefetches_come(machine, counted_role(role, faults))]
    return frozenset(f"counter.{role}.includes_prefetch" for role in unsure if machine.prefetchers)
