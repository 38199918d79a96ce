"""A core's private levels: how loads, stores and prefetches find their lines, and how hardware prefetchers join in."""

from __future__ import annotations

from setebench.sim.events import (
    E_HARDWARE_FULL,
    E_HARDWARE_L1,
    E_HARDWARE_L2,
    E_HARDWARE_USED,
    E_L1_HITS,
    E_L1_IN_FLIGHT,
    E_L1_MISSES,
    E_L1_STORE_MISSES,
    E_L2_FILLS,
    E_L2_FILLS_HARDWARE,
    E_L2_HITS,
    E_L2_IN_FLIGHT,
    E_L2_MISSES,
    E_L2_PF_HITS,
    E_L2_PF_MISSES,
    E_L2_STORE_MISSES,
    E_LOAD_IN_FLIGHT,
    E_LOAD_MISSES,
    E_STORE_UPGRADES,
)
from setebench.sim.kernel.basics import core_of, count
from setebench.sim.kernel.compiler import Ints, compiled, inlined
from setebench.sim.kernel.memory.below import arrive, fetch_below_l2, invalidate_others, port
from setebench.sim.kernel.memory.caches import claim_way_tag, find, first_way, put_l1, put_l2, ready_at, remove
from setebench.sim.kernel.memory.level_two_prefetch import L1, L2, ask, prefetch_l3, train_l2
from setebench.sim.kernel.memory.miss_entries import entry_free, keep_entry, take_entry
from setebench.sim.kernel.memory.replacement import touch
from setebench.sim.layout import (
    BASE_ADDRESS,
    BY_HARDWARE,
    BY_L1_PREFETCHER,
    BY_LOAD,
    BY_SOFTWARE,
    BY_STORE,
    C_L1_PREFETCHERS,
    C_L2_PREFETCHERS,
    C_LINE_BITS,
    C_MISPREDICTED_WAY,
    C_OUT,
    C_PAGE_LINES_BITS,
    C_PAGE_TABLE,
    C_PAGES,
    DEMAND,
    DIRTY,
    EXCLUSIVE,
    HARDWARE,
    L_INCLUSION,
    L_LATENCY,
    MAX_OUT,
    OWNED,
    PRESENT,
    S_ACTIVE,
    S_ENTRY,
    S_FOUND_META,
    S_SERVED,
    WAY_TAG_LOST,
)


@compiled
def _count_use(c: Ints, s: Ints, core: int, word: int) -> int:
    """Count the first demand access to a line that a hardware prefetcher brought; returns the word without the mark."""
    if word & BY_HARDWARE:
        count(c, s, core, E_HARDWARE_USED, 1)
    return word & ~(BY_HARDWARE | BY_SOFTWARE)


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
    own = keep == 1 or (keep == 0 and c[L2 + L_INCLUSION] != EXCLUSIVE)
    s[S_ENTRY] = start
    if at >= 0:
        ready = s[ready_at(c, 1, at)]
        count(c, s, core, E_L2_PF_HITS if cause != DEMAND else (E_L2_HITS if ready <= start else E_L2_IN_FLIGHT), 1)
        done = max(start + c[L2 + L_LATENCY], ready)
        word = s[at]
        if cause == DEMAND:
            word = _count_use(c, s, core, word)
            s[at] = word
        if c[L2 + L_INCLUSION] == EXCLUSIVE and keep != 1:
            remove(s, at)
            found = word & (DIRTY | OWNED)
        else:
            touch(c, s, 1, first, at)
            found = word & OWNED
        s[S_SERVED] = 2
    else:
        count(c, s, core, E_L2_MISSES if cause == DEMAND else E_L2_PF_MISSES, 1)
        count(c, s, core, E_L2_FILLS, 1)
        if cause == HARDWARE:
            count(c, s, core, E_L2_FILLS_HARDWARE, 1)
        elif cause == DEMAND and writes:
            count(c, s, core, E_L2_STORE_MISSES, 1)
        start, entry_at, limited = take_entry(c, s, 1, cpu, cause, start)
        done = arrive(c, s, 1, core, fetch_below_l2(c, s, core, cpu, line, cause, start, writes, False))
        keep_entry(c, s, 1, cpu, cause, entry_at, limited, done)
        s[S_ENTRY] = start
        found = s[S_FOUND_META]
        if own:
            mark = BY_HARDWARE if cause == HARDWARE and keep == 1 else 0
            put_l2(c, s, core, line, found | mark, done)
            found &= OWNED
    if c[C_L2_PREFETCHERS]:
        served, entry = s[S_SERVED], s[S_ENTRY]
        train_l2(c, s, cpu, line, ip, at < 0, source, start)
        s[S_SERVED] = served
        s[S_ENTRY] = entry
    s[S_FOUND_META] = found
    return done


@compiled
def _prefetch_l1(c: Ints, s: Ints, cpu: int, word: int, ip: int, t: int) -> None:
    """Carry out what a level-1 prefetcher asked for."""
    core = core_of(c, cpu)
    line = word >> 3
    page = line >> c[C_PAGE_LINES_BITS]
    if page < 0 or page >= c[C_PAGES] or not s[c[C_PAGE_TABLE] + page] & PRESENT:
        return
    first = first_way(c, s, 0, core, line)
    if find(c, s, 0, line, first) >= 0:
        return
    fills = (word >> 1) & 3
    if fills == 3:
        prefetch_l3(c, s, cpu, line, (word & 1) != 0, t)
        return
    if fills == 2:
        if word & 1 and not entry_free(c, s, 1, cpu, HARDWARE, t):
            count(c, s, core, E_HARDWARE_FULL, 1)
            return
        count(c, s, core, E_HARDWARE_L2, 1)
        fetch_l2(c, s, cpu, line, ip, HARDWARE, BY_L1_PREFETCHER, t, False, 1)
        return
    if word & 1 and not entry_free(c, s, 0, cpu, HARDWARE, t):
        count(c, s, core, E_HARDWARE_FULL, 1)
        return
    count(c, s, core, E_HARDWARE_L1, 1)
    start, entry_at, limited = take_entry(c, s, 0, cpu, HARDWARE, t)
    done = arrive(c, s, 0, core, fetch_l2(c, s, cpu, line, ip, HARDWARE, BY_L1_PREFETCHER, start, False, 0))
    keep_entry(c, s, 0, cpu, HARDWARE, entry_at, limited, done)
    put_l1(c, s, core, line, s[S_FOUND_META] | BY_HARDWARE, done)


@compiled
def train_l1(c: Ints, s: Ints, cpu: int, address: int, ip: int, misses: bool, source: int, t: int) -> None:
    """Level-1 prefetchers see the access; the lines they ask for are fetched after it."""
    n = ask(c, s, cpu, 1, address, ip, misses, source, 0)
    if n == 0:
        return
    served, entry = s[S_SERVED], s[S_ENTRY]
    # level-2 prefetchers reuse the list while these are fetched, so it is kept beside
    first = c[C_OUT]
    kept = first + MAX_OUT
    for k in range(n):
        s[kept + k] = s[first + k]
    for k in range(n):
        _prefetch_l1(c, s, cpu, s[kept + k], ip, t)
    s[S_SERVED] = served
    s[S_ENTRY] = entry


@compiled
def own_line(c: Ints, s: Ints, core: int, at: int, line: int) -> int:
    """Make a line of level 1 this core's own; returns what taking it from others costs."""
    word = s[at]
    if word & OWNED:
        return 0
    cost = 0
    if s[S_ACTIVE] & ~(1 << core):
        cost = invalidate_others(c, s, core, line)
    s[at] = word | OWNED
    own_l2(c, s, core, line)
    return cost


@compiled
def own_l2(c: Ints, s: Ints, core: int, line: int) -> None:
    at = find(c, s, 1, line, first_way(c, s, 1, core, line))
    if at >= 0:
        s[at] |= OWNED


@compiled
def _miss_l1(c: Ints, s: Ints, cpu: int, line: int, ip: int, writes: bool, start: int) -> int:
    """An access that level 1 lacks the line for: see `access`."""
    core = core_of(c, cpu)
    count(c, s, core, E_L1_MISSES, 1)
    count(c, s, core, E_L1_STORE_MISSES if writes else E_LOAD_MISSES, 1)
    start, entry_at, limited = take_entry(c, s, 0, cpu, DEMAND, start)
    source = BY_STORE if writes else BY_LOAD
    done = arrive(c, s, 0, core, fetch_l2(c, s, cpu, line, ip, DEMAND, source, start, writes, 0))
    found = s[S_FOUND_META]
    if writes and not found & OWNED:
        if s[S_ACTIVE] & ~(1 << core):
            done += invalidate_others(c, s, core, line)
        own_l2(c, s, core, line)
    keep_entry(c, s, 0, cpu, DEMAND, entry_at, limited, done)
    s[S_ENTRY] = start
    put_l1(c, s, core, line, found | (DIRTY | OWNED if writes else 0), done)
    return done


@inlined
def access(c: Ints, s: Ints, cpu: int, core: int, address: int, ip: int, writes: bool, t: int) -> int:
    """When the value of a load is there, or the line of a store may be written; the translation is done at t.

    Sets S_SERVED to the level that served it and S_ENTRY to when a miss got its entry.
    """
    line = (address - BASE_ADDRESS) >> c[C_LINE_BITS]
    start = port(c, s, 0, core, t)
    first = first_way(c, s, 0, core, line)
    at = find(c, s, 0, line, first)
    if at >= 0:
        touch(c, s, 0, first, at)
        ready = s[ready_at(c, 0, at)]
        if ready <= start:
            count(c, s, core, E_L1_HITS, 1)
        else:
            count(c, s, core, E_L1_IN_FLIGHT, 1)
            count(c, s, core, E_LOAD_IN_FLIGHT, 0 if writes else 1)
        done = max(start + c[L1 + L_LATENCY], ready)
        word = s[at]
        if word & (BY_HARDWARE | BY_SOFTWARE):
            s[at] = _count_use(c, s, core, word)
        if word & WAY_TAG_LOST:
            claim_way_tag(c, s, first, line)
            done += 0 if writes else c[C_MISPREDICTED_WAY]
        if writes:
            if not word & OWNED:
                count(c, s, core, E_STORE_UPGRADES, 1)
            done += own_line(c, s, core, at, line)
            s[at] |= DIRTY
        s[S_SERVED] = 1
        s[S_ENTRY] = start
    else:
        done = _miss_l1(c, s, cpu, line, ip, writes, start)
    if c[C_L1_PREFETCHERS]:
        source = BY_STORE if writes else BY_LOAD
        train_l1(c, s, cpu, address - BASE_ADDRESS, ip, at < 0, source, s[S_ENTRY])
    return done
