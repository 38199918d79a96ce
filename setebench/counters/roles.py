"""Roles of counted events: what one count stands for, at which level, in which unit.

Lines are those of Facts.line_size bytes. A role names an ideal event; whether the event that a machine offers for it
counts just that is what `setebench counters validate` finds out. Sources: Molka et al. 2017 (Tables 2 and 3, section
4.3), Helm and Taura 2019 (6.2), Röhl et al. 2015 (Table 1.1).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Scope(StrEnum):
    """Whose events one counter sees: those of a thread wherever it runs, of a core, or of a socket and all its users.
    What is counted for a socket also holds what others did meanwhile."""

    THREAD = "thread"
    CORE = "core"
    SOCKET = "socket"


class Quantity(StrEnum):
    """What a count is a number of, which says how it can be checked: retired instructions, lines that moved between
    two levels, cycles in which something held, a sum over cycles of how much of something there was, or what the
    kernel counts (exact)."""

    INSTRUCTIONS = "instructions"
    LINES = "lines"
    CYCLES = "cycles"
    OCCUPANCY = "occupancy"
    SYSTEM = "system"


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """One role. `level` is where the counted traffic comes from or goes to ("" for none): a line that level 2 gives to
    level 1 is traffic of l2, whichever side counts it. `writes`: lines that move outwards. `prefetch`: lines that
    prefetchers ask for belong to it. `unit` is that of one count."""

    name: str
    meaning: str
    quantity: Quantity
    unit: str = "events"
    level: str = ""
    writes: bool = False
    prefetch: bool = False
    scope: Scope = Scope.THREAD


def _instructions(name: str, meaning: str, level: str = "") -> Role:
    return Role(name=name, meaning=meaning, quantity=Quantity.INSTRUCTIONS, unit="instructions", level=level)


def _lines(name: str, meaning: str, level: str, *, prefetch: bool = True, scope: Scope = Scope.THREAD) -> Role:
    """Lines that move inwards."""
    return Role(
        name=name,
        meaning=meaning,
        quantity=Quantity.LINES,
        unit="lines",
        level=level,
        prefetch=prefetch,
        scope=scope,
    )


def _written(name: str, meaning: str, level: str, scope: Scope = Scope.THREAD) -> Role:
    """Lines that move outwards: no prefetcher asks for one."""
    return Role(
        name=name, meaning=meaning, quantity=Quantity.LINES, unit="lines", level=level, writes=True, scope=scope
    )


def _cycles(name: str, meaning: str) -> Role:
    return Role(name=name, meaning=meaning, quantity=Quantity.CYCLES, unit="cycles")


def _system(name: str, meaning: str, unit: str = "events") -> Role:
    return Role(name=name, meaning=meaning, quantity=Quantity.SYSTEM, unit=unit)


FLITS_PER_LINE = 8
"""Data flits that a line takes on the link between two sockets: 64 bits each (Molka et al. 2017, section 4.2)."""

_TABLE = (
    _cycles("cycles", "core cycles in which the thread was not halted"),
    _instructions("instructions", "retired instructions"),
    _instructions("load", "retired loads", "l1"),
    _instructions("store", "retired stores", "l1"),
    _instructions("fp_op", "retired floating-point operations: elements times operations, a fused one counts as two"),
    _instructions("load_l1_miss", "retired loads whose line was neither in L1 nor on its way there", "l2"),
    _instructions("load_fb_hit", "retired loads whose line was on its way to L1 already", "l1"),
    _instructions(
        "load_l1_miss_any", "loads that missed L1, retired or not, those whose line was on its way included", "l2"
    ),
    _lines("l1d_fill", "lines brought into L1, from wherever", "l2"),
    _written("l1d_writeback", "modified lines that L1 gives to L2", "l2"),
    _lines("l2_rfo", "lines asked of L2 to be written", "l2", prefetch=False),
    _lines("l2_rfo_miss", "lines asked of L2 to be written that it lacked", "l3", prefetch=False),
    _lines("l2_fill", "lines that the core's caches get from beyond L2", "l3"),
    _written("l2_writeback", "modified lines that L2 gives to what lies beyond it", "l3"),
    _lines("offcore_mem_read", "lines that the core gets from memory", "memory"),
    _lines("mem_read", "lines read from memory, at its controllers", "memory", scope=Scope.SOCKET),
    _written("mem_write", "lines written to memory, at its controllers", "memory", Scope.SOCKET),
    _lines("home_read", "lines read from memory, at the agents that keep it coherent", "memory", scope=Scope.SOCKET),
    _written("home_write", "lines written to memory, at the agents that keep it coherent", "memory", Scope.SOCKET),
    _lines("remote_read", "lines that the core gets from another memory node", "memory"),
    Role(
        name="link_flit",
        meaning="data flits received on the links between sockets, eight a line",
        quantity=Quantity.LINES,
        unit="flits",
        level="memory",
        prefetch=True,
        scope=Scope.SOCKET,
    ),
    _lines("hitm_local", "loads of a line that another core of the socket holds modified", "l3", prefetch=False),
    _lines("hitm_remote", "loads of a line that a core of another socket holds modified", "memory", prefetch=False),
    Role(
        name="l1d_inflight_sum",
        meaning="sum over cycles of the L1 misses of loads in flight (alpha)",
        quantity=Quantity.OCCUPANCY,
        unit="misses x cycles",
        level="l2",
    ),
    _cycles("l1d_inflight_cycles", "cycles with an L1 miss of a load in flight"),
    _cycles("no_execute", "cycles in which no instruction began to execute"),
    _cycles("stall_l1d_miss", "cycles without execution while an L1 miss of a load is in flight"),
    _cycles("stall_load_any", "cycles without execution while a load waits"),
    _cycles("stall_store_buffer", "cycles in which no store could enter, as the store buffer was full"),
    _cycles("fb_full", "cycles in which an L1 miss waited for a miss entry"),
    _cycles("sq_full", "cycles in which an L2 miss waited for a miss entry"),
    _system("task_clock", "time on a CPU", "ns"),
    _system("page_fault", "page faults"),
    _system("context_switch", "times that the thread was taken off its CPU"),
    _system("cpu_migration", "times that the thread went on on another CPU"),
)

ROLES = {role.name: role for role in _TABLE}
"""Every role by name."""
