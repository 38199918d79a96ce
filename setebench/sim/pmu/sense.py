"""Which faults an event may have, and which of them can be seen on a machine: what a check refuses, what random PMUs
are drawn from, and what the truth may say.

A fault that no probe shows on a machine is no part of its truth: prefetches that a counter misses where no prefetcher
brings any, say.
"""

from __future__ import annotations

from collections.abc import Iterator

from setebench.counters.roles import ROLES, Quantity, Scope
from setebench.sim import spec
from setebench.sim.spec.in_flight import demand_in_flight
from setebench.sim.spec.pmu import SIMULATED_ROLES, Fault, Role

READS = ("l1d_fill", "l2_fill", "offcore_mem_read", "mem_read", "home_read")
"""Lines inwards, of which prefetchers bring some."""

REMOTE = ("remote_read", "link_flit")
"""Of another socket's memory."""

MISTAKEN_FOR = (
    (READS, ("l1d_fill", "l2_fill", "mem_read")),
    (("l2_rfo", "l2_rfo_miss"), ("l2_rfo", "l2_rfo_miss")),
    (("l1d_writeback", "l2_writeback", "mem_write", "home_write"), ("l1d_writeback", "l2_writeback", "mem_write")),
)
"""Roles of one direction, and those of it that an event may count instead."""

LEARNING = (spec.Region, *spec.SHORT_RUNS_UNSURE)
"""Prefetchers that go by what they learned of earlier accesses, so that lines of a repeated traversal come or don't."""

EVERYWHERE = ("zero", "scaled", "wraps", "multiplexed", "nonlinear", "no_counter")
FLOOR = 4
AMOUNTS = {
    "scaled": (0.001, 1000.0),
    "wraps": (0.01, 1.0),
    "multiplexed": (0.01, 0.99),
    "undercounts_smt": (0.01, 1.0),
    "background": (0.001, 100.0),
    "nonlinear": (0.1, 2.0),
}
"""Faults of a size, and which sizes; the others have none."""


def possible_faults(role: str) -> tuple[str, ...]:
    """Kinds of fault that an event of this role can have on some machine. Events of what a thread does with memory are
    known to lose some beside a sibling thread (Haswell's errata HSD29 and HSM30)."""
    known = ROLES[role]
    of_memory = known.quantity in (Quantity.INSTRUCTIONS, Quantity.LINES) and known.level != ""
    rules = {
        "background": role not in ("cycles", "instructions"),  # there is no time without these
        "floor_per_cycle": role == "l1d_inflight_sum",
        "other_level": bool(mistaken_for(role)),
        "misses_prefetches": role in READS + REMOTE,
        "includes_other_stalls": role in ("stall_l1d_miss", "stall_load_any"),
        "undercounts_smt": of_memory and known.scope is Scope.THREAD and role != "hitm_local",
        "no_stores": role in READS and role != "home_read",
    }
    return (*EVERYWHERE, *(kind for kind, holds in rules.items() if holds))


def mistaken_for(role: str) -> tuple[str, ...]:
    """Other roles of the same direction, at other levels, that an event may count instead."""
    others = next((others for roles, others in MISTAKEN_FOR if role in roles), ())
    return tuple(other for other in others if ROLES[other].level != ROLES[role].level)


def level_of(machine: spec.Machine, role: str) -> str:
    """The level whose traffic the role is on this machine: behind level 2 of two levels lies memory."""
    level = ROLES[role].level
    return "memory" if level == f"l{len(machine.levels) + 1}" else level


def other_levels(machine: spec.Machine, role: str) -> tuple[str, ...]:
    """What an event of this role may count instead so that it can be seen: lines of another level of the machine. What
    leaves the last level is what memory takes, line for line; only of a flush do cores say different things."""
    last = f"l{len(machine.levels)}_writeback"
    alike = {last, "mem_write", "home_write"}
    others = [other for other in mistaken_for(role) if level_of(machine, other) != level_of(machine, role)]
    return tuple(other for other in others if not {role, other} <= alike)


def roles_that_count(machine: spec.Machine) -> tuple[Role, ...]:
    """Roles that something on this machine can make count at all."""
    core = machine.core
    several = not core.blocking_load
    in_flight = demand_in_flight(machine, 1)
    entries = [level.mshr_demand_limit or level.mshr_entries for level in machine.levels[:2]]
    limits = {
        "load_fb_hit": several,
        "fb_full": several and 0 < entries[0] < min(core.load_queue, core.reorder_window),
        "sq_full": several and 0 < entries[1] < in_flight,
        "stall_store_buffer": not core.blocking_store,
        "hitm_local": core.cores > 1,
        **dict.fromkeys(REMOTE, machine.remote_memory is not None),
    }
    return tuple(role for role in SIMULATED_ROLES if limits.get(role, True))


def prefetches_come(machine: spec.Machine, role: str) -> bool:
    """Whether a prefetcher that follows ascending accesses, a line apart each, brings lines that this role counts."""
    return any(_follows_lines(machine, each) for each in _bringing(machine, role))


def prefetches_may_come(machine: spec.Machine, role: str) -> bool:
    """Whether lines that this role counts may come by a prefetcher that goes by what it learned of earlier passes."""
    return any(isinstance(each, LEARNING) for each in _bringing(machine, role))


def _bringing(machine: spec.Machine, role: str) -> Iterator[spec.AnyPrefetcher]:
    """Prefetchers that loads train, and that bring lines which this role counts."""
    deepest = {"l1d_fill": 1, "l2_fill": 2}.get(role, 3)
    return (each for each in machine.prefetchers if int(each.fills[1]) <= deepest and "load" in each.trained_by)


def _follows_lines(machine: spec.Machine, prefetcher: spec.AnyPrefetcher) -> bool:
    line = machine.line_size_bytes
    if isinstance(prefetcher, spec.NextLine):
        return prefetcher.trigger == 1
    if isinstance(prefetcher, spec.Stride):
        return prefetcher.directions != "down" and prefetcher.min_stride_bytes <= line <= prefetcher.max_stride_bytes
    if isinstance(prefetcher, spec.Streamer):
        return prefetcher.directions != "down"
    return not isinstance(prefetcher, LEARNING)


def counted_role(role: str, faults: tuple[Fault, ...]) -> str:
    """The role whose lines the event really counts."""
    return next((fault.role for fault in faults if fault.kind == "other_level" and fault.role), role)


def can_be_seen(machine: spec.Machine, role: str, kind: str, counted: str) -> bool:
    """Whether some probe shows this fault of an event that really counts the role `counted`."""
    rules = {
        "other_level": bool(other_levels(machine, role)),
        "misses_prefetches": prefetches_come(machine, counted),
        "undercounts_smt": machine.core.threads_per_core > 1,
        "floor_per_cycle": demand_in_flight(machine, 1) >= FLOOR,
    }
    return kind in possible_faults(role) and rules.get(kind, True)
