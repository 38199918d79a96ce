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
    prefetchers request belong to it. `unit` is that of one count."""

    name: str
    meaning: str
    quantity: Quantity
    unit: str = "events"
    level: str = ""
    writes: bool = False
    prefetch: bool = False
    scope: Scope = Scope.THREAD


_INSTRUCTIONS = {"quantity": Quantity.INSTRUCTIONS, "unit": "instructions"}
_LINES = {"quantity": Quantity.LINES, "unit": "lines", "prefetch": True}
_DEMAND = {**_LINES, "prefetch": False}
_WRITTEN = {**_DEMAND, "writes": True}
_CYCLES = {"quantity": Quantity.CYCLES, "unit": "cycles"}
_OCCUPANCY = {"quantity": Quantity.OCCUPANCY, "unit": "misses x cycles"}
_SYSTEM = {"quantity": Quantity.SYSTEM}
_SOCKET = {"scope": Scope.SOCKET}

_MEMORY = _LINES | _SOCKET
_TABLE: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    ("cycles", _CYCLES, "", "core cycles in which the thread was not halted"),
    ("instructions", _INSTRUCTIONS, "", "retired instructions"),
    ("load", _INSTRUCTIONS, "l1", "retired loads"),
    ("store", _INSTRUCTIONS, "l1", "retired stores"),
    ("fp_op", _INSTRUCTIONS, "", "retired floating-point operations by element; a fused one counts as two"),
    ("load_l1_miss", _INSTRUCTIONS, "l2", "retired loads whose line was neither in L1 nor on its way there"),
    ("load_fb_hit", _INSTRUCTIONS, "l1", "retired loads whose line was on its way to L1 already"),
    ("load_l1_miss_any", _INSTRUCTIONS, "l2", "loads that missed L1, retired or not, their line on its way or not"),
    ("l1d_fill", _LINES, "l2", "lines brought into L1, from wherever"),
    ("l1d_writeback", _WRITTEN, "l2", "modified lines that L1 gives to L2"),
    ("l2_rfo", _DEMAND, "l2", "lines requested from L2 to be written"),
    ("l2_rfo_miss", _DEMAND, "l3", "lines requested from L2 to be written that it lacked"),
    ("l2_fill", _LINES, "l3", "lines that the core's caches get from beyond L2"),
    ("l2_writeback", _WRITTEN, "l3", "modified lines that L2 gives to what lies beyond it"),
    ("offcore_mem_read", _LINES, "memory", "lines that the core gets from memory"),
    ("mem_read", _MEMORY, "memory", "lines read from memory, at its controllers"),
    ("mem_write", _WRITTEN | _SOCKET, "memory", "lines written to memory, at its controllers"),
    ("home_read", _MEMORY, "memory", "lines read from memory, at its coherence agents"),
    ("home_write", _WRITTEN | _SOCKET, "memory", "lines written to memory, at its coherence agents"),
    ("remote_read", _LINES, "memory", "lines that the core gets from another memory node"),
    ("link_flit", _MEMORY | {"unit": "flits"}, "memory", "data flits received between sockets, eight a line"),
    ("hitm_local", _DEMAND, "l3", "loads of a line that another core of the socket holds modified"),
    ("hitm_remote", _DEMAND, "memory", "loads of a line that a core of another socket holds modified"),
    ("l1d_inflight_sum", _OCCUPANCY, "l2", "sum over cycles of the L1 misses of loads in flight (alpha)"),
    ("l1d_inflight_cycles", _CYCLES, "", "cycles with an L1 miss of a load in flight"),
    ("no_execute", _CYCLES, "", "cycles in which no instruction began to execute"),
    ("stall_l1d_miss", _CYCLES, "", "cycles without execution while an L1 miss of a load is in flight"),
    ("stall_load_any", _CYCLES, "", "cycles without execution while a load waits"),
    ("stall_store_buffer", _CYCLES, "", "cycles in which no store could enter, as the store buffer was full"),
    ("fb_full", _CYCLES, "", "cycles in which an L1 miss waited for a miss entry"),
    ("sq_full", _CYCLES, "", "cycles in which an L2 miss waited for a miss entry"),
    ("task_clock", _SYSTEM | {"unit": "ns"}, "", "time on a CPU"),
    ("page_fault", _SYSTEM, "", "page faults"),
    ("context_switch", _SYSTEM, "", "times that the thread was taken off its CPU"),
    ("cpu_migration", _SYSTEM, "", "times that the thread went on on another CPU"),
)
"""Name, what it is a number of, level, and meaning."""

ROLES = {name: Role(name=name, meaning=meaning, level=level, **known) for name, known, level, meaning in _TABLE}
"""Every role by name."""
