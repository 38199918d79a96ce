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
def take_entry(c: Ints, s: Ints, level: int, th: int, cause: int, t: int) -> tuple[int, int, int]:
    """Wait for a miss entry: (when it is had, and what `keep_entry` must get once the release time is known)."""
    base, entries, own, limit = slots_of(c, s, level, th, cause)
    if entries == 0:
        return t, 0, 0
    start = t
    limited = 0
    if limit > 0:
        limited = free_entry(s, own, limit, start)
        start = max(start, s[limited])
    entry = free_entry(s, base, entries, start)
    start = max(start, s[entry])
    if start > t and c[lay.C_COUNTING] and level < 2:
        span(c, s, th, lay.E_FB_FULL + level, lay.T_L1_FULL_UNTIL + level, t, start)
    return start, entry, limited


@inlined
def keep_entry(c: Ints, s: Ints, level: int, th: int, cause: int, entry: int, limited: int, done: int) -> None:
    """Keep a miss entry until its line is there."""
    base, entries, own, limit = slots_of(c, s, level, th, cause)
    if entries > 0:
        hold_entry(s, base, entries, entry, done)
        if limit > 0:
            hold_entry(s, own, limit, limited, done)


@compiled
def entry_free(c: Ints, s: Ints, level: int, th: int, cause: int, t: int) -> bool:
    """Whether a miss entry is free at t."""
    base, entries, own, limit = slots_of(c, s, level, th, cause)
    if entries == 0:
        return True
    return s[base] <= t and (limit == 0 or s[own] <= t)
