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
    L_LINES,
    L_READY,
    L_REPLACEMENT,
    L_SET_BITS,
    L_SET_WORDS,
    L_SETS,
    L_TREE,
    L_TREE_WAYS,
    L_WAYS,
    L_WORDS,
    LAST_USE,
    LINE_SHIFT,
    LRU,
    MARK_BITS,
    MOST_WAYS,
    NEVER,
    S_ACTIVE,
    S_USES,
    TREE_PLRU,
)

WAY_BITS = (MOST_WAYS - 1).bit_length()


@inlined
def physical_line(c: Ints, s: Ints, line: int) -> int:
    """Physical number of a virtual line."""
    bits = c[C_PAGE_LINES_BITS]
    frame = s[c[C_PAGE_TABLE] + (line >> bits)] >> FRAME_BITS
    return (frame << bits) | (line & ((1 << bits) - 1))


@inlined
def first_way(c: Ints, s: Ints, level: int, core: int, line: int) -> int:
    """Where in the state the first way of the line's set lies."""
    v = C_LEVEL + level * L_WORDS
    sets = c[v + L_SETS]
    if level == 0:
        return c[v + L_LINES] + (core * sets + (line & (sets - 1))) * c[v + L_SET_WORDS]
    where = physical_line(c, s, line)
    if c[v + L_HASHED]:
        bits = c[v + L_SET_BITS]
        where ^= (where >> bits) ^ (where >> (2 * bits))
    owner = core if level == 1 else 0
    return c[v + L_LINES] + (owner * sets + (where & (sets - 1))) * c[v + L_SET_WORDS]


@inlined
def find(c: Ints, s: Ints, level: int, line: int, first: int) -> int:
    """Where in the state the line's word lies, given its set, or -1.

    Looks at every way: where a line lies is random, and a branch that leaves early costs more than the rest of the set.
    """
    found = -1
    for at in range(first, first + c[C_LEVEL + level * L_WORDS + L_WAYS]):
        found = max(found, at if s[at] >> LINE_SHIFT == line else -1)
    return found


@inlined
def ready_at(c: Ints, level: int, at: int) -> int:
    """Where in the state the time lies at which the data of the line at `at` arrive."""
    return at + c[C_LEVEL + level * L_WORDS + L_READY]


@compiled
def _tree_touch(s: Ints, tree: int, size: int, way: int) -> None:
    """Point every node on the way's path away from it."""
    low = 0
    node = 1
    bits = s[tree]
    while size > 1:
        size >>= 1
        if way >= low + size:
            low += size
            bits &= ~(1 << node)
            node = 2 * node + 1
        else:
            bits |= 1 << node
            node = 2 * node
    s[tree] = bits


@compiled
def _tree_victim(s: Ints, tree: int, size: int, ways: int) -> int:
    """Follow the nodes; a half without ways is never followed."""
    low = 0
    node = 1
    bits = s[tree]
    while size > 1:
        size >>= 1
        if (bits >> node) & 1 and low + size < ways:
            low += size
            node = 2 * node + 1
        else:
            node = 2 * node
    return low


@inlined
def _used(word: int) -> int:
    """When a line was used last."""
    return (word >> MARK_BITS) & LAST_USE


@inlined
def _oldest_way(s: Ints, first: int, ways: int) -> int:
    """The least recently used way, the first of those never used; as a minimum of numbers, for want of branches."""
    oldest = NEVER
    for way in range(ways):
        oldest = min(oldest, (_used(s[first + way]) << WAY_BITS) | way)
    return oldest & ((1 << WAY_BITS) - 1)


@compiled
def _oldest_after(s: Ints, first: int, ways: int, rank: int) -> int:
    """The least recently used line of a set whose use is numbered `rank` or more, -1 if there is none."""
    best = -1
    for at in range(first, first + ways):
        used = _used(s[at])
        if used >= rank and (best < 0 or used < _used(s[best])):
            best = at
    return best


@compiled
def _renumber_uses(c: Ints, s: Ints) -> None:
    """Number the uses of every set's lines from 1 on, in the order they had."""
    for level in range(c[C_LEVELS]):
        v = C_LEVEL + level * L_WORDS
        owners = c[C_CORES] if level < 2 else 1
        ways = c[v + L_WAYS]
        for number in range(owners * c[v + L_SETS]):
            first = c[v + L_LINES] + number * c[v + L_SET_WORDS]
            for rank in range(1, ways + 1):
                at = _oldest_after(s, first, ways, rank)
                if at >= 0:
                    s[at] = (s[at] & ~(LAST_USE << MARK_BITS)) | (rank << MARK_BITS)
    s[S_USES] = MOST_WAYS


@inlined
def touch(c: Ints, s: Ints, level: int, first: int, at: int) -> None:
    """Note that the line at `at`, in the set at `first`, was used."""
    v = C_LEVEL + level * L_WORDS
    if c[v + L_REPLACEMENT] == TREE_PLRU:
        _tree_touch(s, first + c[v + L_TREE], c[v + L_TREE_WAYS], at - first)
    else:
        if s[S_USES] == LAST_USE:
            _renumber_uses(c, s)
        s[S_USES] += 1
        s[at] = (s[at] & ~(LAST_USE << MARK_BITS)) | (s[S_USES] << MARK_BITS)


@compiled
def _victim(c: Ints, s: Ints, level: int, first: int) -> int:
    """The way to replace: an empty one, else as the replacement says."""
    v = C_LEVEL + level * L_WORDS
    ways = c[v + L_WAYS]
    if c[v + L_REPLACEMENT] == LRU:
        return first + _oldest_way(s, first, ways)
    for at in range(first, first + ways):
        if s[at] == EMPTY:
            return at
    if c[v + L_REPLACEMENT] == TREE_PLRU:
        return first + _tree_victim(s, first + c[v + L_TREE], c[v + L_TREE_WAYS], ways)
    return first + random_below(s, ways)


@inlined
def remove(s: Ints, at: int) -> int:
    """Empty the way at `at`; returns what its word was."""
    word = s[at]
    s[at] = EMPTY
    return word


@compiled
def drop(c: Ints, s: Ints, level: int, core: int, line: int) -> int:
    """Take a line out of one cache; returns its DIRTY bit, or -1 if it was not there."""
    at = find(c, s, level, line, first_way(c, s, level, core, line))
    if at < 0:
        return -1
    return remove(s, at) & DIRTY


@compiled
def _place(c: Ints, s: Ints, level: int, first: int, line: int, meta: int, ready: int) -> int:
    """Put a line into its set; returns the victim's word or EMPTY."""
    at = _victim(c, s, level, first)
    word = s[at]
    s[at] = (line << LINE_SHIFT) | meta
    s[ready_at(c, level, at)] = ready
    touch(c, s, level, first, at)
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
    gone = victim >> LINE_SHIFT
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
    first = first_way(c, s, 2, core, line)
    at = find(c, s, 2, line, first)
    if at >= 0:
        s[at] |= meta & DIRTY
        touch(c, s, 2, first, at)
    else:
        put_l3(c, s, core, line, meta & DIRTY, ready)


@compiled
def put_l2(c: Ints, s: Ints, core: int, line: int, meta: int, ready: int) -> None:
    """Put a line into a core's level 2."""
    victim = _place(c, s, 1, first_way(c, s, 1, core, line), line, meta, ready)
    if victim == EMPTY:
        return
    count(c, s, core, E_L2_EVICTIONS, 1)
    gone = victim >> LINE_SHIFT
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
    gone = victim >> LINE_SHIFT
    kept = victim & 3
    first = first_way(c, s, 1, core, gone)
    at = find(c, s, 1, gone, first)
    if at >= 0:
        s[at] |= kept
        touch(c, s, 1, first, at)
    else:
        put_l2(c, s, core, gone, kept, ready)
