"""Miss entries: what limits how many misses of a level are in flight."""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.basics import free_entry, hold_entry
from setebench.sim.kernel.compiler import Ints, compiled, inlined
from setebench.sim.kernel.waits import span


@inlined
def slots_of(c: Ints, s: Ints, level: int, th: int, cause: int) -> tuple[int, int, int, int]:
    """Base and number of a level's miss entries, and of those of them that the cause may use (0: all)."""
    v = lay.C_LEVEL + level * lay.L_WORDS
    owner = 0
    if level < 2:
        owner = s[th + lay.T_CORE] if c[v + lay.L_MSHR_SHARED_BY_SMT] else s[th + lay.T_CPU]
    base = c[v + lay.L_SLOTS] + owner * c[v + lay.L_SLOT_WORDS]
    entries = c[v + lay.L_MSHR_ENTRIES]
    own = base + entries
    if cause == lay.DEMAND:
        return base, entries, own, c[v + lay.L_MSHR_DEMAND_LIMIT]
    own += c[v + lay.L_MSHR_DEMAND_LIMIT]
    if cause == lay.SOFTWARE:
        return base, entries, own, c[v + lay.L_MSHR_PREFETCH_LIMIT]
    return base, entries, own + c[v + lay.L_MSHR_PREFETCH_LIMIT], c[v + lay.L_MSHR_HARDWARE_LIMIT]


@inlined
def take_entry(c: Ints, s: Ints, level: int, th: int, cause: int, t: int) -> int:
    """When a miss that comes at t has a miss entry; which one is noted for `keep_entry`, which must follow."""
    base, entries, own, limit = slots_of(c, s, level, th, cause)
    if entries == 0:
        return t
    start = t
    if limit > 0:
        limited = free_entry(s, own, limit, start)
        s[th + lay.T_LIMITED + level] = limited
        start = max(start, s[limited])
    entry = free_entry(s, base, entries, start)
    s[th + lay.T_ENTRY + level] = entry
    start = max(start, s[entry])
    if start > t and c[lay.C_COUNTING] and level < 2:
        span(c, s, th, lay.E_FB_FULL + level, lay.T_L1_FULL_UNTIL + level, t, start)
    return start


@inlined
def keep_entry(c: Ints, s: Ints, level: int, th: int, cause: int, done: int) -> None:
    """Keep the miss entry taken last until its line is there."""
    base, entries, own, limit = slots_of(c, s, level, th, cause)
    if entries > 0:
        hold_entry(s, base, entries, s[th + lay.T_ENTRY + level], done)
        if limit > 0:
            hold_entry(s, own, limit, s[th + lay.T_LIMITED + level], done)


@compiled
def entry_free(c: Ints, s: Ints, level: int, th: int, cause: int, t: int) -> bool:
    """Whether a miss entry is free at t."""
    base, entries, own, limit = slots_of(c, s, level, th, cause)
    if entries == 0:
        return True
    return s[base] <= t and (limit == 0 or s[own] <= t)
