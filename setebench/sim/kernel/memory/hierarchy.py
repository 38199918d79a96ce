"""A core's private levels: how loads, stores and prefetches find their lines, and how hardware prefetchers join in.

Requests differ by their `source` (BY_LOAD to BY_L1_PREFETCHER), of which their cause for miss entries follows.
"""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.basics import count
from setebench.sim.kernel.compiler import Ints, bring_near, compiled, inlined
from setebench.sim.kernel.memory.below import fetch_below_l2, invalidate_others, port
from setebench.sim.kernel.memory.caches import (
    claim_way_tag,
    find,
    first_way,
    locate,
    physical_line,
    put,
    ready_at,
    remove,
)
from setebench.sim.kernel.memory.miss_entries import entry_free, keep_entry, take_entry
from setebench.sim.kernel.memory.replacement import note
from setebench.sim.prefetchers import silence, train

L1, L2 = lay.C_LEVEL, lay.C_LEVEL + lay.L_WORDS


@inlined
def _cause(source: int) -> int:
    """DEMAND, SOFTWARE or HARDWARE."""
    return max(source - 1, 0)


# -- hardware prefetchers --------------------------------------------------------------------------------------------


@inlined
def _wanted_from(c: Ints, level: int) -> int:
    """Where the lines lie that a level's prefetchers want: apart, as those of level 2 come while others are fetched."""
    return c[lay.C_OUT] + (level - 1) * lay.MAX_OUT


@compiled
def _ask(c: Ints, s: Ints, th: int, level: int, address: int, misses: bool, source: int) -> int:
    """Show an access to every prefetcher of a level. Returns the end of the lines that they want, each with its fill
    level; they begin where `_wanted_from` says."""
    core = s[th + lay.T_CORE]
    s[lay.S_WANTED] = _wanted_from(c, level)
    s[lay.S_SEEN_ADDRESS] = address
    s[lay.S_SEEN_LINE] = address >> c[lay.C_LINE_BITS]
    s[lay.S_SEEN_MISSES] = misses
    s[lay.S_SEEN_SOURCE] = source
    for i in range(c[lay.C_PREFETCHERS]):
        p = lay.C_PREFETCHER + i * lay.P_WORDS
        if c[p + lay.P_LEVEL] != level:
            continue
        q = c[p + lay.P_STATE] + core * c[p + lay.P_CORE_WORDS]
        q += s[th + lay.T_CPU] // c[lay.C_CORES] * c[p + lay.P_THREAD_WORDS]
        if source == lay.BY_PREFETCH:
            silence(c, s, p, q)
        if (c[p + lay.P_TRAINED] >> source) & 1:
            s[lay.S_SEEN_FILL] = c[p + lay.P_FILLS] * 2 + c[p + lay.P_WHEN_FULL]
            train(c, s, p, q)
    return s[lay.S_WANTED]


@compiled
def _virtual_line(c: Ints, s: Ints, physical: int, seen: int) -> int:
    """Virtual number of a physical line, -1 for memory that nobody has. Most share the page of the virtual line that
    was `seen`, so that its translation serves: the host has seldom near what a random page's frame is noted in."""
    bits, own = c[lay.C_PAGE_LINES_BITS], physical_line(c, s, seen)
    frame = physical >> bits
    if frame == own >> bits:
        return seen + physical - own
    if frame < 0 or frame >= c[lay.C_PAGES]:
        return -1
    return (s[c[lay.C_FRAME_TABLE] + frame] - 1 << bits) | (physical & ((1 << bits) - 1))


@compiled
def _wanted(c: Ints, s: Ints, th: int, level: int, line: int, word: int, t: int) -> bool:
    """Whether a prefetch at a level is done: its page is there, the level and the one it fills lack the line, and a
    miss entry is free or waited for."""
    core, fills, page = s[th + lay.T_CORE], (word >> 1) & 3, line >> c[lay.C_PAGE_LINES_BITS]
    if page < 0 or page >= c[lay.C_PAGES] or not s[c[lay.C_PAGE_TABLE] + page] & lay.PRESENT:
        return False
    if locate(c, s, level - 1, core, line) >= 0 or (fills == 3 and locate(c, s, 2, core, line) >= 0):
        return False
    return word & 1 == 0 or entry_free(c, s, fills - 1, th, lay.HARDWARE, t)


@compiled
def _miss_l2(c: Ints, s: Ints, th: int, line: int, cause: int, t: int, writes: bool) -> int:
    """When a line that level 2 lacks arrives there; sets what `fetch_l2` sets."""
    core = s[th + lay.T_CORE]
    if c[lay.C_FAR_L3]:  # a simulated miss is mostly the host's own misses: these are served meanwhile, at once
        first = first_way(c, s, 2, 0, line)
        for word in range(0, c[lay.C_LEVEL + 2 * lay.L_WORDS + lay.L_SET_WORDS], lay.HOST_LINE_WORDS):
            bring_near(s, first + word)
    count(c, s, core, lay.E_L2_FILL, 1)
    count(c, s, core, lay.E_L2_FILL_PREFETCHED, 1 if cause == lay.HARDWARE else 0)
    count(c, s, core, lay.E_L2_RFO_MISS, 1 if cause == lay.DEMAND and writes else 0)
    start = take_entry(c, s, 1, th, cause, t)
    done = port(c, s, 1, core, lay.L_FILLS, fetch_below_l2(c, s, th, line, cause, start, writes, False))
    keep_entry(c, s, 1, th, cause, done)
    s[lay.S_ENTRY] = start
    return done


@compiled
def _train_l2(c: Ints, s: Ints, th: int, line: int, misses: bool, source: int, t: int) -> None:
    """Level-2 prefetchers see the access by its physical address; what they want is fetched after it."""
    core, served, entry, found = s[th + lay.T_CORE], s[lay.S_SERVED], s[lay.S_ENTRY], s[lay.S_FOUND_META]
    end = _ask(c, s, th, 2, physical_line(c, s, line) << c[lay.C_LINE_BITS], misses, source)
    for k in range(_wanted_from(c, 2), end):
        word = s[k]
        wanted = _virtual_line(c, s, word >> 3, line)
        if not _wanted(c, s, th, 2, wanted, word, t):
            continue
        if (word >> 1) & 3 == 3:
            fetch_below_l2(c, s, th, wanted, lay.HARDWARE, t, False, True)
        elif c[L2 + lay.L_INCLUSION] != lay.EXCLUSIVE or locate(c, s, 0, core, wanted) < 0:
            done = _miss_l2(c, s, th, wanted, lay.HARDWARE, t, False)
            put(c, s, 1, core, wanted, s[lay.S_FOUND_META], done)
    s[lay.S_SERVED] = served
    s[lay.S_ENTRY] = entry
    s[lay.S_FOUND_META] = found


# -- demand, and what prefetches share with it -----------------------------------------------------------------------


@compiled
def fetch_l2(c: Ints, s: Ints, th: int, line: int, source: int, t: int, writes: bool, keep: bool) -> int:
    """When a line that level 1 lacks (or that is wanted in level 2 only) is there.

    `keep`: level 2 keeps a copy even if it is exclusive.
    Sets S_ENTRY to when a miss got its entry, S_FOUND_META to the line's DIRTY and OWNED bits, S_SERVED to the level.
    """
    core = s[th + lay.T_CORE]
    start = port(c, s, 1, core, lay.L_PORTS, t)
    first = first_way(c, s, 1, core, line)
    at = find(c, s, 1, line, first)
    exclusive = c[L2 + lay.L_INCLUSION] == lay.EXCLUSIVE
    if at >= 0:
        done = max(start + c[L2 + lay.L_LATENCY_CYCLES], s[ready_at(c, 1, at)])
        if exclusive and not keep:
            found = remove(s, at) & (lay.DIRTY | lay.OWNED)
        else:
            found = s[at] & lay.OWNED
            note(c, s, 1, first, at, False)
        s[lay.S_ENTRY] = start
        s[lay.S_SERVED] = 2
    else:
        done = _miss_l2(c, s, th, line, _cause(source), start, writes)
        found = s[lay.S_FOUND_META]
        if keep or not exclusive:
            put(c, s, 1, core, line, found, done)
            found &= lay.OWNED
        start = s[lay.S_ENTRY]
    s[lay.S_FOUND_META] = found
    if c[lay.C_L2_PREFETCHERS]:
        _train_l2(c, s, th, line, at < 0, source, start)
    return done


@compiled
def _own_l2(c: Ints, s: Ints, core: int, line: int) -> int:
    """Make a line of level 2 this core's own; returns what taking it from other cores costs."""
    cost = invalidate_others(c, s, core, line)
    at = locate(c, s, 1, core, line)
    if at >= 0:
        s[at] |= lay.OWNED
    return cost


@compiled
def own_line(c: Ints, s: Ints, core: int, at: int, line: int) -> int:
    """Make a line of level 1 this core's own; returns what taking it from others costs."""
    if s[at] & lay.OWNED:
        return 0
    s[at] |= lay.OWNED
    return _own_l2(c, s, core, line)


@compiled
def fetch_l1(c: Ints, s: Ints, th: int, line: int, source: int, t: int, writes: bool) -> int:
    """When a line that level 1 lacks is there, for whatever `source`; see `fetch_l2` for the rest."""
    core, cause = s[th + lay.T_CORE], _cause(source)
    count(c, s, core, lay.E_L1D_FILL, 1)
    count(c, s, core, lay.E_L1D_FILL_PREFETCHED, 1 if cause == lay.HARDWARE else 0)
    start = take_entry(c, s, 0, th, cause, t)
    done = port(c, s, 0, core, lay.L_FILLS, fetch_l2(c, s, th, line, source, start, writes, False))
    found = s[lay.S_FOUND_META]
    if writes and not found & lay.OWNED:
        done += _own_l2(c, s, core, line)
        found |= lay.OWNED
    keep_entry(c, s, 0, th, cause, done)
    s[lay.S_ENTRY] = start
    put(c, s, 0, core, line, found | (lay.DIRTY if source == lay.BY_STORE else 0), done)
    return done


@compiled
def train_l1(c: Ints, s: Ints, th: int, address: int, misses: bool, source: int, t: int) -> None:
    """Level-1 prefetchers see the access; the lines that they want are fetched after it."""
    served, entry = s[lay.S_SERVED], s[lay.S_ENTRY]
    for k in range(_wanted_from(c, 1), _ask(c, s, th, 1, address - lay.BASE_ADDRESS, misses, source)):
        word = s[k]
        line, fills = word >> 3, (word >> 1) & 3
        if not _wanted(c, s, th, 1, line, word, t):
            continue
        if fills == 3:
            fetch_below_l2(c, s, th, line, lay.HARDWARE, t, False, True)
        elif fills == 2:
            fetch_l2(c, s, th, line, lay.BY_L1_PREFETCHER, t, False, True)
        else:
            fetch_l1(c, s, th, line, lay.BY_L1_PREFETCHER, t, False)
    s[lay.S_SERVED] = served
    s[lay.S_ENTRY] = entry


@inlined
def access(c: Ints, s: Ints, th: int, address: int, parts: int, writes: bool, t: int) -> int:
    """When the value of a load is there, or the line of a store may be written; the translation is done at t. So many
    `parts` of an access take a port each, those of a store where stores have none of their own.

    Sets S_SERVED to the level that served it and S_ENTRY to when a miss got its entry.
    """
    core, line = s[th + lay.T_CORE], (address - lay.BASE_ADDRESS) >> c[lay.C_LINE_BITS]
    start = t
    for _ in range(0 if writes and c[lay.C_STORE_CYCLES] else parts):
        start = port(c, s, 0, core, lay.L_PORTS, t)
    first = first_way(c, s, 0, core, line)
    at = find(c, s, 0, line, first)
    source = lay.BY_STORE if writes else lay.BY_LOAD
    if at >= 0:
        note(c, s, 0, first, at, False)
        ready = s[ready_at(c, 0, at)]
        if ready > start:
            count(c, s, core, lay.E_LOAD_FB_HIT, 0 if writes else 1)
        done = max(start + c[L1 + lay.L_LATENCY_CYCLES], ready)
        if s[at] & lay.WAY_TAG_LOST:
            claim_way_tag(c, s, first, line)
            done += 0 if writes else c[L1 + lay.L_MISPREDICTED_WAY_CYCLES]
        if writes:
            count(c, s, core, lay.E_L2_RFO, 0 if s[at] & lay.OWNED else 1)
            done += own_line(c, s, core, at, line)
            s[at] |= lay.DIRTY
        s[lay.S_SERVED] = 1
        s[lay.S_ENTRY] = start
    else:
        count(c, s, core, lay.E_L2_RFO if writes else lay.E_LOAD_L1_MISS, 1)
        done = fetch_l1(c, s, th, line, source, start, writes)
    if c[lay.C_L1_PREFETCHERS]:
        train_l1(c, s, th, address, at < 0, source, s[lay.S_ENTRY])
    return done
