"""What answers a miss of a core's level 2: other cores' caches, level 3, memory."""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.basics import count, random_below, reserve
from setebench.sim.kernel.compiler import Ints, compiled, inlined
from setebench.sim.kernel.memory.caches import drop_private, find, first_way, locate, put, ready_at, remove, write_back
from setebench.sim.kernel.memory.miss_entries import keep_entry, take_entry
from setebench.sim.kernel.memory.replacement import note
from setebench.sim.kernel.memory.translation import sharers

MEMORY, OTHER_CORE = 4, 5
"""S_SERVED of a line that memory or another core delivered."""


@inlined
def port(c: Ints, s: Ints, level: int, core: int, which: int, t: int) -> int:
    """When an access that comes at t may start at a level (`which`: L_PORTS), or a line that could come into it really
    does (L_FILLS), given those before."""
    ports = c[lay.C_LEVEL + level * lay.L_WORDS + which]
    return reserve(s, ports + lay.PORT_WORDS * (core if level < 2 else 0), t)


@compiled
def invalidate_others(c: Ints, s: Ints, core: int, line: int) -> int:
    """Take a line away from every other core; returns what that costs (0 where no other core held it)."""
    found, others = -1, sharers(c, s, line) & ~(1 << core)
    for other in range(c[lay.C_CORES]):
        if (others >> other) & 1:
            found = max(found, drop_private(c, s, other, line))
    return c[lay.C_INVALIDATE_CYCLES] if found >= 0 else 0


@compiled
def _read_other(c: Ints, s: Ints, core: int, line: int, cause: int, t: int, writes: bool) -> tuple[int, int]:
    """(when another core's copy arrives or -1, how many other cores hold the line). Sharing takes ownership away."""
    cores = c[lay.C_CORES]
    others = sharers(c, s, line) & ~(1 << core)
    holders = 0
    latency = -1
    for other in range(cores):
        if not (others >> other) & 1:
            continue
        bits = -1
        for level in range(2):
            at = locate(c, s, level, other, line)
            if at >= 0:
                bits = max(bits, 0) | (s[at] & (lay.DIRTY | lay.OWNED))
                s[at] &= -1 if writes else ~(lay.DIRTY | lay.OWNED)
        if bits < 0:
            continue
        holders += 1
        clean = c[lay.C_EXCLUSIVE_CYCLES] if bits & lay.OWNED else c[lay.C_SHARED_CYCLES]
        own = c[lay.C_MODIFIED_CYCLES] if bits & lay.DIRTY else clean
        if own > 0:
            own += c[c[lay.C_DISTANCE] + core * cores + other]
            latency = own if latency < 0 else min(latency, own)
        if bits & lay.DIRTY:
            write_back(c, s, core, line, t)
            if cause == lay.DEMAND and not writes:
                count(c, s, core, lay.E_HITM_LOCAL, 1)
    return (t + latency if latency >= 0 else -1), holders


@compiled
def memory(c: Ints, s: Ints, core: int, t: int) -> int:
    """When memory delivers a line that was requested at t."""
    count(c, s, core, lay.E_MEM_READ, 1)
    s[lay.S_SERVED] = MEMORY
    start = reserve(s, c[lay.C_MEMORY_PORT], t)
    spread = c[lay.C_MEMORY_SPREAD_CYCLES]
    if spread > 0:
        start += random_below(s, 2 * spread + 1) - spread
    return start + c[lay.C_MEMORY_LATENCY_CYCLES]


@compiled
def _from_l3(c: Ints, s: Ints, th: int, line: int, cause: int, t: int, keep: bool) -> int:
    """When level 3 or memory delivers a line; level 3 keeps a copy if it isn't for victims or `keep` says so."""
    core, v = s[th + lay.T_CORE], lay.C_LEVEL + 2 * lay.L_WORDS
    start = port(c, s, 2, core, lay.L_PORTS, t)
    first = first_way(c, s, 2, core, line)
    at = find(c, s, 2, line, first)
    if at >= 0:
        s[lay.S_SERVED] = 3
        done = max(start + c[v + lay.L_LATENCY_CYCLES], s[ready_at(c, 2, at)])
        if c[v + lay.L_INCLUSION] == lay.EXCLUSIVE and not keep:
            s[lay.S_FOUND_META] |= remove(s, at) & lay.DIRTY
        else:
            note(c, s, 2, first, at, False)
        return done
    start = take_entry(c, s, 2, th, cause, start)
    done = port(c, s, 2, core, lay.L_FILLS, memory(c, s, core, start))
    keep_entry(c, s, 2, th, cause, done)
    if c[v + lay.L_INCLUSION] < lay.EXCLUSIVE or keep:
        put(c, s, 2, core, line, 0, done)
    return done


@compiled
def fetch_below_l2(c: Ints, s: Ints, th: int, line: int, cause: int, t: int, writes: bool, keep: bool) -> int:
    """When a line that a core's level 2 lacks arrives there.

    Sets S_FOUND_META to the line's DIRTY and OWNED bits and S_SERVED to who delivered it. `writes` takes the line away
    from other cores.
    """
    core = s[th + lay.T_CORE]
    s[lay.S_FOUND_META] = 0
    done, holders = _read_other(c, s, core, line, cause, t, writes)
    if done >= 0:
        s[lay.S_SERVED] = OTHER_CORE
    elif c[lay.C_LEVELS] > 2:
        done = _from_l3(c, s, th, line, cause, t, keep)
    else:
        done = memory(c, s, core, t)
    if s[lay.S_SERVED] == MEMORY and cause == lay.HARDWARE:
        count(c, s, core, lay.E_MEM_READ_PREFETCHED, 1)
    if holders and writes:
        extra = invalidate_others(c, s, core, line)
        if s[lay.S_SERVED] != OTHER_CORE or holders > 1:
            done += extra
        holders = 0
    if holders == 0:
        s[lay.S_FOUND_META] |= lay.OWNED
    return done
