"""Which faults of an event some probe can show on a machine: what random PMUs are drawn from, and what truth may say.

A fault that no probe shows on a machine is no part of its truth: prefetches that a counter misses where no prefetcher
brings any, say.
"""

from __future__ import annotations

from setebench.counters.roles import ROLES, Quantity, Scope
from setebench.sim import spec
from setebench.sim.spec.in_flight import demand_in_flight
from setebench.sim.spec.pmu import SIMULATED_ROLES, Fault

READS = ("l1d_fill", "l2_fill", "offcore_mem_read", "mem_read", "home_read")
"""Lines inwards, of which prefetchers bring some."""

MISTAKEN_FOR = (
    (READS, ("l1d_fill", "l2_fill", "mem_read")),
    (("l2_rfo", "l2_rfo_miss"), ("l2_rfo", "l2_rfo_miss")),
    (("l1d_writeback", "l2_writeback", "mem_write", "home_write"), ("l1d_writeback", "l2_writeback", "mem_write")),
)
"""Roles of one direction, and those of it that an event may count instead."""

EVERYWHERE = ("zero", "scaled", "multiplexed", "no_counter")
FLOOR = 4


def shown_faults(machine: spec.Machine, role: str) -> tuple[str, ...]:
    """Kinds of fault of an event of this role that a probe can show. Events of what a thread does with memory may lose
    some beside a sibling thread (Haswell's errata HSD29 and HSM30)."""
    known = ROLES[role]
    of_memory = known.quantity in (Quantity.INSTRUCTIONS, Quantity.LINES) and known.level != ""
    several = machine.core.threads_per_core > 1
    rules = {
        "background": role not in ("cycles", "instructions"),  # there is no time without these
        "floor_per_cycle": role == "l1d_inflight_sum" and demand_in_flight(machine, 1)[0] >= FLOOR,
        "other_level": bool(other_levels(machine, role)),
        "misses_prefetches": role in READS and prefetches_come(machine, role),
        "includes_other_stalls": role in ("stall_l1d_miss", "stall_load_any"),
        "undercounts_smt": several and of_memory and known.scope is Scope.THREAD and role != "hitm_local",
    }
    return (*EVERYWHERE, *(kind for kind, holds in rules.items() if holds))


def level_of(machine: spec.Machine, role: str) -> str:
    """The level whose traffic the role is on this machine: behind level 2 of two levels lies memory."""
    level = ROLES[role].level
    return "memory" if level == f"l{len(machine.levels) + 1}" else level


def other_levels(machine: spec.Machine, role: str) -> tuple[str, ...]:
    """What an event of this role may count instead so that it shows: lines of another level of the machine. What
    leaves the last level is what memory takes, line for line; only of a flush do cores say different things."""
    alike = {f"l{len(machine.levels)}_writeback", "mem_write", "home_write"}
    mistaken = next((others for roles, others in MISTAKEN_FOR if role in roles), ())
    others = [other for other in mistaken if level_of(machine, other) != level_of(machine, role)]
    return tuple(other for other in others if not {role, other} <= alike)


def roles_that_count(machine: spec.Machine) -> tuple[str, ...]:
    """Roles that something on this machine can make count at all."""
    core = machine.core
    several = not core.blocking_load
    entries = [level.mshr_demand_limit or level.mshr_entries for level in machine.levels[:2]]
    limits = {
        "load_fb_hit": several,
        "fb_full": several and 0 < entries[0] < min(core.load_queue, core.reorder_window),
        "sq_full": several and 0 < entries[1] < demand_in_flight(machine, 1)[0],
        "stall_store_buffer": not core.blocking_store,
        "hitm_local": core.cores > 1,
    }
    return tuple(role for role in SIMULATED_ROLES if limits.get(role, True))


def prefetches_come(machine: spec.Machine, role: str) -> bool:
    """Whether a prefetcher that loads train follows ascending accesses, a line apart each, with lines that this role
    counts."""
    deepest = {"l1d_fill": 1, "l2_fill": 2}.get(role, 3)
    bringing = [each for each in machine.prefetchers if int(each.fills[1]) <= deepest and "load" in each.trained_by]
    return any(_follows_lines(machine, each) for each in bringing)


def _follows_lines(machine: spec.Machine, prefetcher: spec.AnyPrefetcher) -> bool:
    if isinstance(prefetcher, spec.NextLine):
        return prefetcher.trigger == 1
    if isinstance(prefetcher, spec.Stride):
        return prefetcher.min_stride_bytes <= machine.line_size_bytes <= prefetcher.max_stride_bytes
    return not isinstance(prefetcher, spec.Region | spec.BestOffset)


def counted_role(role: str, faults: tuple[Fault, ...]) -> str:
    """The role whose lines the event really counts."""
    return next((fault.role for fault in faults if fault.kind == "other_level" and fault.role), role)
