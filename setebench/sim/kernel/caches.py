"""Tag arrays: lookup, replacement, insertion with its evictions, invalidation.

A line is put into its set when its miss is handled and carries the time at which its data arrive; until then an access
to it waits (a merge with the fill in flight). That keeps hits, misses and victims those of a textbook cache simulator
whatever overlaps in time.

Tags are virtual line numbers (a simulated physical line has one virtual one); level 1 is indexed by them, the lower
levels by physical line numbers, optionally hashed.
"""

from __future__ import annotations

from setebench.sim.kernel.basics import count, random_below, reserve
from setebench.sim.kernel.compiler import Ints, compiled, inlined
from setebench.sim.layout import (
    C_CORES,
    C_LEVEL,
    C_LEVELS,
    C_MEMORY_INTERVAL,
    C_MEMORY_PORT,
    C_PAGE_LINES_BITS,
    C_PAGE_TABLE,
    DIRTY,
    E_BACK_INVALIDATIONS,
    E_L1_EVICTIONS,
    E_L1_WRITEBACKS,
    E_L2_EVICTIONS,
    E_L2_WRITEBACKS,
    E_L3_EVICTIONS,
    E_MEMORY_WRITES,
    EMPTY,
    EXCLUSIVE,
    FRAME_BITS,
    INCLUSIVE,
    L_HASHED,
    L_INCLUSION,
    L_READY,
    L_REPLACEMENT,
    L_SET_BITS,
    L_SETS,
    L_STAMPS,
    L_TAGS,
    L_TREE,
    L_WAYS,
    L_WORDS,
    LRU,
    S_ACTIVE,
    S_STAMP,
    TAG_BITS,
    TREE_PLRU,
)


@inlined
def physical_line(c: Ints, s: Ints, line: int) -> int:
    """Physical number of a virtual line."""
    bits = c[C_PAGE_LINES_BITS]
    frame = s[c[C_PAGE_TABLE] + (line >> bits)] >> FRAME_BITS
    return (frame << bits) | (line & ((1 << bits) - 1))


@inlined
def first_way(c: Ints, s: Ints, level: int, core: int, line: int) -> int:
    """Index, relative to a level's arrays, of the first way of the line's set."""
    v = C_LEVEL + level * L_WORDS
    mask = c[v + L_SETS] - 1
    if level == 0:
        return (core * (mask + 1) + (line & mask)) * c[v + L_WAYS]
    where = physical_line(c, s, line)
    if c[v + L_HASHED]:
        bits = c[v + L_SET_BITS]
        where ^= (where >> bits) ^ (where >> (2 * bits))
    owner = core if level == 1 else 0
    return (owner * (mask + 1) + (where & mask)) * c[v + L_WAYS]


@inlined
def find(c: Ints, s: Ints, level: int, line: int, first: int) -> int:
    """Index of the line in its set, relative to the level's arrays, or -1."""
    v = C_LEVEL + level * L_WORDS
    tags = c[v + L_TAGS] + first
    for way in range(c[v + L_WAYS]):
        if s[tags + way] >> TAG_BITS == line:
            return first + way
    return -1


@compiled
def _tree_touch(s: Ints, tree: int, ways: int, way: int) -> None:
    """Point every node on the way's path away from it."""
    low = 0
    size = 1
    while size < ways:
        size *= 2
    node = 1
    bits = s[tree]
    while size > 1:
        size //= 2
        if way >= low + size:
            low += size
            bits &= ~(1 << node)
            node = 2 * node + 1
        else:
            bits |= 1 << node
            node = 2 * node
    s[tree] = bits


@compiled
def _tree_victim(s: Ints, tree: int, ways: int) -> int:
    """Follow the nodes; a half without ways is never followed."""
    low = 0
    size = 1
    while size < ways:
        size *= 2
    node = 1
    bits = s[tree]
    while size > 1:
        size //= 2
        if (bits >> node) & 1 and low + size < ways:
            low += size
            node = 2 * node + 1
        else:
            node = 2 * node
    return low


@inlined
def touch(c: Ints, s: Ints, level: int, at: int) -> None:
    """Note that the line at index `at` was used."""
    v = C_LEVEL + level * L_WORDS
    if c[v + L_REPLACEMENT] == TREE_PLRU:
        ways = c[v + L_WAYS]
        _tree_touch(s, c[v + L_TREE] + at // ways, ways, at % ways)
    else:
        s[S_STAMP] += 1
        s[c[v + L_STAMPS] + at] = s[S_STAMP]


@compiled
def _victim(c: Ints, s: Ints, level: int, first: int) -> int:
    """Index of the way to replace: an empty one, else as the replacement says."""
    v = C_LEVEL + level * L_WORDS
    ways = c[v + L_WAYS]
    if c[v + L_REPLACEMENT] == LRU:
        stamps = c[v + L_STAMPS] + first
        best = 0
        oldest = s[stamps]
        for way in range(1, ways):
            if s[stamps + way] < oldest:
                oldest = s[stamps + way]
                best = way
        return first + best
    tags = c[v + L_TAGS] + first
    for way in range(ways):
        if s[tags + way] == EMPTY:
            return first + way
    if c[v + L_REPLACEMENT] == TREE_PLRU:
        return first + _tree_victim(s, c[v + L_TREE] + first // ways, ways)
    return first + random_below(s, ways)


@compiled
def remove(c: Ints, s: Ints, level: int, at: int) -> int:
    """Empty the way at index `at`; returns what its tag word was."""
    v = C_LEVEL + level * L_WORDS
    word = s[c[v + L_TAGS] + at]
    s[c[v + L_TAGS] + at] = EMPTY
    s[c[v + L_STAMPS] + at] = 0
    return word


@compiled
def drop(c: Ints, s: Ints, level: int, core: int, line: int) -> int:
    """Take a line out of one cache; returns its DIRTY bit, or -1 if it was not there."""
    at = find(c, s, level, line, first_way(c, s, level, core, line))
    if at < 0:
        return -1
    return remove(c, s, level, at) & DIRTY


@compiled
def _place(c: Ints, s: Ints, level: int, first: int, line: int, meta: int, ready: int) -> int:
    """Put a line into its set; returns the victim's tag word or EMPTY."""
    v = C_LEVEL + level * L_WORDS
    at = _victim(c, s, level, first)
    word = s[c[v + L_TAGS] + at]
    s[c[v + L_TAGS] + at] = (line << TAG_BITS) | meta
    s[c[v + L_READY] + at] = ready
    touch(c, s, level, at)
    return word


@compiled
def _write_memory(c: Ints, s: Ints, core: int, t: int) -> None:
    count(c, s, core, E_MEMORY_WRITES, 1)
    reserve(s, c[C_MEMORY_PORT], t, c[C_MEMORY_INTERVAL])


@compiled
def put_l3(c: Ints, s: Ints, core: int, line: int, meta: int, ready: int) -> None:
    """Put a line into level 3."""
    victim = _place(c, s, 2, first_way(c, s, 2, core, line), line, meta, ready)
    if victim == EMPTY:
        return
    count(c, s, core, E_L3_EVICTIONS, 1)
    gone = victim >> TAG_BITS
    dirty = victim & DIRTY
    if c[C_LEVEL + 2 * L_WORDS + L_INCLUSION] == INCLUSIVE:
        for other in range(c[C_CORES]):
            if (s[S_ACTIVE] >> other) & 1:
                dirty |= drop(c, s, 1, other, gone) == 1
                below = drop(c, s, 0, other, gone)
                dirty |= below == 1
                if below >= 0:
                    count(c, s, other, E_BACK_INVALIDATIONS, 1)
    if dirty:
        _write_memory(c, s, core, ready)


@compiled
def write_back_to_l3(c: Ints, s: Ints, core: int, line: int, meta: int, ready: int) -> None:
    """A level-2 victim goes down: dirty data always, clean data only into an exclusive level 3."""
    if c[C_LEVELS] < 3:
        if meta & DIRTY:
            _write_memory(c, s, core, ready)
        return
    exclusive = c[C_LEVEL + 2 * L_WORDS + L_INCLUSION] == EXCLUSIVE
    if not (meta & DIRTY) and not exclusive:
        return
    at = find(c, s, 2, line, first_way(c, s, 2, core, line))
    if at >= 0:
        s[c[C_LEVEL + 2 * L_WORDS + L_TAGS] + at] |= meta & DIRTY
        touch(c, s, 2, at)
    else:
        put_l3(c, s, core, line, meta & DIRTY, ready)


@compiled
def put_l2(c: Ints, s: Ints, core: int, line: int, meta: int, ready: int) -> None:
    """Put a line into a core's level 2."""
    victim = _place(c, s, 1, first_way(c, s, 1, core, line), line, meta, ready)
    if victim == EMPTY:
        return
    count(c, s, core, E_L2_EVICTIONS, 1)
    gone = victim >> TAG_BITS
    kept = victim & DIRTY
    if c[C_LEVEL + L_WORDS + L_INCLUSION] == INCLUSIVE:
        above = drop(c, s, 0, core, gone)
        if above >= 0:
            count(c, s, core, E_BACK_INVALIDATIONS, 1)
            kept |= above
    if kept:
        count(c, s, core, E_L2_WRITEBACKS, 1)
    write_back_to_l3(c, s, core, gone, kept, ready)


@compiled
def put_l1(c: Ints, s: Ints, core: int, line: int, meta: int, ready: int) -> None:
    """Put a line into a core's level 1; a dirty victim is written into level 2, any victim into an exclusive one."""
    victim = _place(c, s, 0, first_way(c, s, 0, core, line), line, meta, ready)
    if victim == EMPTY:
        return
    count(c, s, core, E_L1_EVICTIONS, 1)
    if victim & DIRTY:
        count(c, s, core, E_L1_WRITEBACKS, 1)
    elif c[C_LEVEL + L_WORDS + L_INCLUSION] != EXCLUSIVE:
        return
    gone = victim >> TAG_BITS
    kept = victim & 3
    at = find(c, s, 1, gone, first_way(c, s, 1, core, gone))
    if at >= 0:
        s[c[C_LEVEL + L_WORDS + L_TAGS] + at] |= kept
        touch(c, s, 1, at)
    else:
        put_l2(c, s, core, gone, kept, ready)
