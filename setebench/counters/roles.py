"""Roles of counted events: what one count stands for, at which level, in which unit.

Lines are those of Facts.line_size bytes. A role names an ideal event; whether the event that a machine offers for it
counts just that is what `setebench counters validate` finds out. Sources: Molka et al. 2017 (Tables 2 and 3, section
4.3), Helm and Taura 2019 (6.2), Röhl et al. 2015 (Table 1.1).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

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


FLITS_PER_LINE = 8
"""Data flits that a line takes on the link between two sockets: 64 bits each (Molka et al. 2017, section 4.2)."""

_INSTRUCTIONS = {"quantity": Quantity.INSTRUCTIONS, "unit": "instructions"}
_LINES = {"quantity": Quantity.LINES, "unit": "lines", "prefetch": True}
_DEMAND = {**_LINES, "prefetch": False}
_WRITTEN = {**_DEMAND, "writes": True}
_CYCLES = {"quantity": Quantity.CYCLES, "unit": "cycles"}
_OCCUPANCY = {"quantity": Quantity.OCCUPANCY, "unit": "misses x cycles"}
_SYSTEM = {"quantity": Quantity.SYSTEM}
_SOCKET = {"scope": Scope.SOCKET}

_TABLE: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("cycles", "core cycles in which the thread was not halted", _CYCLES, ""),
    ("instructions", "retired instructions", _INSTRUCTIONS, ""),
    ("load", "retired loads", _INSTRUCTIONS, "l1"),
    ("store", "retired stores", _INSTRUCTIONS, "l1"),
    (
        *("fp_op", "retired floating-point operations: elements times operations, a fused one counts as two"),
        *(_INSTRUCTIONS, ""),
    ),
    ("load_l1_miss", "retired loads whose line was neither in L1 nor on its way there", _INSTRUCTIONS, "l2"),
    ("load_fb_hit", "retired loads whose line was on its way to L1 already", _INSTRUCTIONS, "l1"),
    (
        *("load_l1_miss_any", "loads that missed L1, retired or not, those whose line was on its way included"),
        *(_INSTRUCTIONS, "l2"),
    ),
    ("l1d_fill", "lines brought into L1, from wherever", _LINES, "l2"),
    ("l1d_writeback", "modified lines that L1 gives to L2", _WRITTEN, "l2"),
    ("l2_rfo", "lines asked of L2 to be written", _DEMAND, "l2"),
    ("l2_rfo_miss", "lines asked of L2 to be written that it lacked", _DEMAND, "l3"),
    ("l2_fill", "lines that the core's caches get from beyond L2", _LINES, "l3"),
    ("l2_writeback", "modified lines that L2 gives to what lies beyond it", _WRITTEN, "l3"),
    ("offcore_mem_read", "lines that the core gets from memory", _LINES, "memory"),
    ("mem_read", "lines read from memory, at its controllers", _LINES | _SOCKET, "memory"),
    ("mem_write", "lines written to memory, at its controllers", _WRITTEN | _SOCKET, "memory"),
    ("home_read", "lines read from memory, at the agents that keep it coherent", _LINES | _SOCKET, "memory"),
    ("home_write", "lines written to memory, at the agents that keep it coherent", _WRITTEN | _SOCKET, "memory"),
    ("remote_read", "lines that the core gets from another memory node", _LINES, "memory"),
    (
        *("link_flit", "data flits received on the links between sockets, eight a line"),
        *(_LINES | _SOCKET | {"unit": "flits"}, "memory"),
    ),
    ("hitm_local", "loads of a line that another core of the socket holds modified", _DEMAND, "l3"),
    ("hitm_remote", "loads of a line that a core of another socket holds modified", _DEMAND, "memory"),
    ("l1d_inflight_sum", "sum over cycles of the L1 misses of loads in flight (alpha)", _OCCUPANCY, "l2"),
    ("l1d_inflight_cycles", "cycles with an L1 miss of a load in flight", _CYCLES, ""),
    ("no_execute", "cycles in which no instruction began to execute", _CYCLES, ""),
    ("stall_l1d_miss", "cycles without execution while an L1 miss of a load is in flight", _CYCLES, ""),
    ("stall_load_any", "cycles without execution while a load waits", _CYCLES, ""),
    ("stall_store_buffer", "cycles in which no store could enter, as the store buffer was full", _CYCLES, ""),
    ("fb_full", "cycles in which an L1 miss waited for a miss entry", _CYCLES, ""),
    ("sq_full", "cycles in which an L2 miss waited for a miss entry", _CYCLES, ""),
    ("task_clock", "time on a CPU", _SYSTEM | {"unit": "ns"}, ""),
    ("page_fault", "page faults", _SYSTEM, ""),
    ("context_switch", "times that the thread was taken off its CPU", _SYSTEM, ""),
    ("cpu_migration", "times that the thread went on on another CPU", _SYSTEM, ""),
)
"""Name, meaning, what it is a number of, and level."""

ROLES = {name: Role(name=name, meaning=meaning, level=level, **known) for name, meaning, known, level in _TABLE}
"""Every role by name."""
