"""A core's private levels: how loads, stores and prefetches find their lines, and how hardware prefetchers join in."""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.basics import core_of, count
from setebench.sim.kernel.compiler import Ints, compiled, inlined
from setebench.sim.kernel.memory.below import arrive, fetch_below_l2, invalidate_others, port
from setebench.sim.kernel.memory.caches import claim_way_tag, find, first_way, put_l1, put_l2, ready_at, remove
from setebench.sim.kernel.memory.level_two_prefetch import L1, L2, ask, prefetch_l3, train_l2
from setebench.sim.kernel.memory.miss_entries import entry_free, keep_entry, take_entry
from setebench.sim.kernel.memory.replacement import touch


@compiled
def fetch_l2(
    c: Ints, s: Ints, cpu: int, line: int, ip: int, cause: int, source: int, t: int, writes: bool, keep: int
) -> int:
    """When a line that level 1 lacks (or that is wanted in level 2 only) is there.

    `keep`: level 2 keeps a copy even if it is exclusive or the hint bypasses it (1), as usual (0), or not (-1).
    Sets S_ENTRY to when a miss got its entry, S_FOUND_META to the line's DIRTY and OWNED bits, S_SERVED to the level.
    """
    core = core_of(c, cpu)
    start = port(c, s, 1, core, t)
    first = first_way(c, s, 1, core, line)
    at = find(c, s, 1, line, first)
    own = keep == 1 or (keep == 0 and c[L2 + lay.L_INCLUSION] != lay.EXCLUSIVE)
    s[lay.S_ENTRY] = start
    if at >= 0:
        ready = s[ready_at(c, 1, at)]
        done = max(start + c[L2 + lay.L_LATENCY_CYCLES], ready)
        word = s[at]
        if c[L2 + lay.L_INCLUSION] == lay.EXCLUSIVE and keep != 1:
            remove(s, at)
            found = word & (lay.DIRTY | lay.OWNED)
        else:
            touch(c, s, 1, first, at)
            found = word & lay.OWNED
        s[lay.S_SERVED] = 2
    else:
        count(c, s, core, lay.E_L2_FILLS, 1)
        if cause == lay.HARDWARE:
            count(c, s, core, lay.E_L2_FILLS_HARDWARE, 1)
        elif cause == lay.DEMAND:
            count(c, s, core, lay.E_L2_MISSES, 1)
            count(c, s, core, lay.E_L2_STORE_MISSES, writes)
        start, entry_at, limited = take_entry(c, s, 1, cpu, cause, start)
        done = arrive(c, s, 1, core, fetch_below_l2(c, s, core, cpu, line, cause, start, writes, False))
        keep_entry(c, s, 1, cpu, cause, entry_at, limited, done)
        s[lay.S_ENTRY] = start
        found = s[lay.S_FOUND_META]
        if own:
            put_l2(c, s, core, line, found, done)
            found &= lay.OWNED
    if c[lay.C_L2_PREFETCHERS]:
        served, entry = s[lay.S_SERVED], s[lay.S_ENTRY]
        train_l2(c, s, cpu, line, ip, at < 0, source, start)
        s[lay.S_SERVED] = served
        s[lay.S_ENTRY] = entry
    s[lay.S_FOUND_META] = found
    return done


@compiled
def _prefetch_l1(c: Ints, s: Ints, cpu: int, word: int, ip: int, t: int) -> None:
    """Carry out what a level-1 prefetcher asked for."""
    core = core_of(c, cpu)
    line = word >> 3
    page = line >> c[lay.C_PAGE_LINES_BITS]
    if page < 0 or page >= c[lay.C_PAGES] or not s[c[lay.C_PAGE_TABLE] + page] & lay.PRESENT:
        return
    first = first_way(c, s, 0, core, line)
    if find(c, s, 0, line, first) >= 0:
        return
    fills = (word >> 1) & 3
    if fills == 3:
        prefetch_l3(c, s, cpu, line, (word & 1) != 0, t)
        return
    if fills == 2:
        if word & 1 and not entry_free(c, s, 1, cpu, lay.HARDWARE, t):
            return
        fetch_l2(c, s, cpu, line, ip, lay.HARDWARE, lay.BY_L1_PREFETCHER, t, False, 1)
        return
    if word & 1 and not entry_free(c, s, 0, cpu, lay.HARDWARE, t):
        return
    count(c, s, core, lay.E_L1_HARDWARE, 1)
    start, entry_at, limited = take_entry(c, s, 0, cpu, lay.HARDWARE, t)
    done = arrive(c, s, 0, core, fetch_l2(c, s, cpu, line, ip, lay.HARDWARE, lay.BY_L1_PREFETCHER, start, False, 0))
    keep_entry(c, s, 0, cpu, lay.HARDWARE, entry_at, limited, done)
    put_l1(c, s, core, line, s[lay.S_FOUND_META], done)


@compiled
def train_l1(c: Ints, s: Ints, cpu: int, address: int, ip: int, misses: bool, source: int, t: int) -> None:
    """Level-1 prefetchers see the access; the lines they ask for are fetched after it."""
    n = ask(c, s, cpu, 1, address, ip, misses, source, 0)
    if n == 0:
        return
    served, entry = s[lay.S_SERVED], s[lay.S_ENTRY]
    # level-2 prefetchers reuse the list while these are fetched, so it is kept beside
    first = c[lay.C_OUT]
    kept = first + lay.MAX_OUT
    for k in range(n):
        s[kept + k] = s[first + k]
    for k in range(n):
        _prefetch_l1(c, s, cpu, s[kept + k], ip, t)
    s[lay.S_SERVED] = served
    s[lay.S_ENTRY] = entry


@compiled
def own_line(c: Ints, s: Ints, core: int, at: int, line: int) -> int:
    """Make a line of level 1 this core's own; returns what taking it from others costs."""
    word = s[at]
    if word & lay.OWNED:
        return 0
    cost = 0
    if s[lay.S_ACTIVE] & ~(1 << core):
        cost = invalidate_others(c, s, core, line)
    s[at] = word | lay.OWNED
    own_l2(c, s, core, line)
    return cost


@compiled
def own_l2(c: Ints, s: Ints, core: int, line: int) -> None:
    at = find(c, s, 1, line, first_way(c, s, 1, core, line))
    if at >= 0:
        s[at] |= lay.OWNED


@compiled
def _miss_l1(c: Ints, s: Ints, cpu: int, line: int, ip: int, writes: bool, start: int) -> int:
    """An access that level 1 lacks the line for: see `access`."""
    core = core_of(c, cpu)
    count(c, s, core, lay.E_L1_MISSES, 1)
    count(c, s, core, lay.E_L1_STORE_MISSES if writes else lay.E_LOAD_L1_MISSES, 1)
    start, entry_at, limited = take_entry(c, s, 0, cpu, lay.DEMAND, start)
    source = lay.BY_STORE if writes else lay.BY_LOAD
    done = arrive(c, s, 0, core, fetch_l2(c, s, cpu, line, ip, lay.DEMAND, source, start, writes, 0))
    found = s[lay.S_FOUND_META]
    if writes and not found & lay.OWNED:
        if s[lay.S_ACTIVE] & ~(1 << core):
            done += invalidate_others(c, s, core, line)
        own_l2(c, s, core, line)
    keep_entry(c, s, 0, cpu, lay.DEMAND, entry_at, limited, done)
    s[lay.S_ENTRY] = start
    put_l1(c, s, core, line, found | (lay.DIRTY | lay.OWNED if writes else 0), done)
    return done


@inlined
def access(c: Ints, s: Ints, cpu: int, core: int, address: int, ip: int, writes: bool, t: int) -> int:
    """When the value of a load is there, or the line of a store may be written; the translation is done at t.

    Sets S_SERVED to the level that served it and S_ENTRY to when a miss got its entry.
    """
    line = (address - lay.BASE_ADDRESS) >> c[lay.C_LINE_BITS]
    start = port(c, s, 0, core, t)
    first = first_way(c, s, 0, core, line)
    at = find(c, s, 0, line, first)
    if at >= 0:
        touch(c, s, 0, first, at)
        ready = s[ready_at(c, 0, at)]
        if ready <= start:
            count(c, s, core, lay.E_L1_HITS, 1)
        else:
            count(c, s, core, lay.E_L1_IN_FLIGHT_HITS, 1)
            count(c, s, core, lay.E_LOAD_IN_FLIGHT_HITS, 0 if writes else 1)
        done = max(start + c[L1 + lay.L_LATENCY_CYCLES], ready)
        word = s[at]
        if word & lay.WAY_TAG_LOST:
            claim_way_tag(c, s, first, line)
            done += 0 if writes else c[lay.C_MISPREDICTED_WAY_CYCLES]
        if writes:
            if not word & lay.OWNED:
                count(c, s, core, lay.E_STORE_UPGRADES, 1)
            done += own_line(c, s, core, at, line)
            s[at] |= lay.DIRTY
        s[lay.S_SERVED] = 1
        s[lay.S_ENTRY] = start
    else:
        done = _miss_l1(c, s, cpu, line, ip, writes, start)
    if c[lay.C_L1_PREFETCHERS]:
        source = lay.BY_STORE if writes else lay.BY_LOAD
        train_l1(c, s, cpu, address - lay.BASE_ADDRESS, ip, at < 0, source, s[lay.S_ENTRY])
    return done
