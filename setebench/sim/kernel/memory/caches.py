"""Tag arrays: lookup, insertion with its evictions, invalidation.

A line is put into its set when its miss is handled and carries the time at which its data arrive; until then an access
to it waits (a merge with the fill in flight). That keeps hits, misses and victims those of a textbook cache simulator
whatever overlaps in time.

Tags are virtual line numbers (a simulated physical line has one virtual one); level 1 is usually indexed by them, the
lower levels by physical line numbers, optionally hashed.
"""

from __future__ import annotations

from setebench.sim.events import (
    E_BACK_INVALIDATIONS,
    E_L1_EVICTIONS,
    E_L1_WRITEBACKS,
    E_L2_EVICTIONS,
    E_L2_WRITEBACKS,
    E_L3_EVICTIONS,
    E_MEMORY_WRITES,
)
from setebench.sim.kernel.basics import count, reserve
from setebench.sim.kernel.compiler import Ints, compiled, equal_words, fetch, first_bit, inlined
from setebench.sim.kernel.memory.index import hashed_set
from setebench.sim.kernel.memory.replacement import fill, touch, victim_way
from setebench.sim.layout import (
    BASE_ADDRESS,
    BY_HASH,
    BY_VIRTUAL_BITS,
    C_CORES,
    C_FAR_LEVEL,
    C_LEVEL,
    C_LEVELS,
    C_LINE_BITS,
    C_MEMORY_INTERVAL,
    C_MEMORY_PORT,
    C_PAGE_LINES_BITS,
    C_PAGE_TABLE,
    C_PAGES,
    C_WAY_TAG_BITS,
    DIRTY,
    EMPTY,
    EXCLUSIVE,
    FRAME_BITS,
    HOST_LINE_WORDS,
    INCLUSIVE,
    L_INCLUSION,
    L_INDEX,
    L_LINES,
    L_READY,
    L_SET_BITS,
    L_SET_WORDS,
    L_SETS,
    L_WAYS,
    L_WORDS,
    LINE_SHIFT,
    MAPPED,
    PAGE_BITS,
    S_ACTIVE,
    WAY_TAG_LOST,
)


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
    if level == 0 and c[v + L_INDEX] == BY_VIRTUAL_BITS:
        return c[v + L_LINES] + (core * sets + (line & (sets - 1))) * c[v + L_SET_WORDS]
    where = physical_line(c, s, line)
    where = hashed_set(c, v, where) if c[v + L_INDEX] >= BY_HASH else where & (sets - 1)
    owner = core if level <= 1 else 0
    return c[v + L_LINES] + (owner * sets + where) * c[v + L_SET_WORDS]


@compiled
def fetch_sets(c: Ints, s: Ints, core: int, address: int) -> None:
    """Have the host bring near what a coming access to the address will look at, where it misses level 1: a simulated
    miss is mostly the host's own misses, and these are then served meanwhile and all at once."""
    page = (address - BASE_ADDRESS) >> PAGE_BITS
    if page < 0 or page >= c[C_PAGES] or not s[c[C_PAGE_TABLE] + page] & MAPPED:
        return
    line = (address - BASE_ADDRESS) >> c[C_LINE_BITS]
    for level in range(c[C_FAR_LEVEL], c[C_LEVELS]):
        first = first_way(c, s, level, core, line)
        for word in range(0, c[C_LEVEL + level * L_WORDS + L_SET_WORDS], HOST_LINE_WORDS):
            fetch(s, first + word)


@inlined
def find(c: Ints, s: Ints, level: int, line: int, first: int) -> int:
    """Where in the state the line's word lies, given its set, or -1.

    Eight words are compared at once: where a line lies is random, and a branch that leaves early costs more than the
    rest of the set. What is compared beyond the ways still lies in the set.
    """
    ways = c[C_LEVEL + level * L_WORDS + L_WAYS]
    found = equal_words(s, first, LINE_SHIFT, line)
    for at in range(HOST_LINE_WORDS, ways, HOST_LINE_WORDS):
        found |= equal_words(s, first + at, LINE_SHIFT, line) << at
    found &= (1 << ways) - 1
    return first + first_bit(found) if found else -1


@inlined
def ready_at(c: Ints, level: int, at: int) -> int:
    """Where in the state the time lies at which the data of the line at `at` arrive."""
    return at + c[C_LEVEL + level * L_WORDS + L_READY]


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
def purge(c: Ints, s: Ints, line: int) -> int:
    """Take a line out of every cache; returns -1 if it was nowhere, 1 if it was dirty, else 0."""
    found = -1
    for core in range(c[C_CORES]):
        if (s[S_ACTIVE] >> core) & 1:
            found = max(found, drop(c, s, 0, core, line))
            found = max(found, drop(c, s, 1, core, line))
    for level in range(2, c[C_LEVELS]):
        found = max(found, drop(c, s, level, 0, line))
    return found


@compiled
def _place(c: Ints, s: Ints, level: int, first: int, line: int, meta: int, ready: int) -> int:
    """Put a line into its set; returns the victim's word or EMPTY."""
    at = victim_way(c, s, level, first)
    word = s[at]
    s[at] = (line << LINE_SHIFT) | meta
    s[ready_at(c, level, at)] = ready
    fill(c, s, level, first, at)
    return word


@compiled
def _write_past_caches(c: Ints, s: Ints, core: int, t: int) -> None:
    count(c, s, core, E_MEMORY_WRITES, 1)
    reserve(s, c[C_MEMORY_PORT], t, c[C_MEMORY_INTERVAL])


@compiled
def put_l4(c: Ints, s: Ints, core: int, line: int, meta: int, ready: int) -> None:
    """Put a line into level 4, the cache of memory."""
    victim = _place(c, s, 3, first_way(c, s, 3, core, line), line, meta, ready)
    if victim != EMPTY and victim & DIRTY:
        _write_past_caches(c, s, core, ready)


@compiled
def _write_memory(c: Ints, s: Ints, core: int, line: int, t: int) -> None:
    """Modified data go to memory, or into the cache that it has."""
    if c[C_LEVELS] < 4:
        _write_past_caches(c, s, core, t)
        return
    first = first_way(c, s, 3, core, line)
    at = find(c, s, 3, line, first)
    if at >= 0:
        s[at] |= DIRTY
        touch(c, s, 3, first, at)
    else:
        put_l4(c, s, core, line, DIRTY, t)


@compiled
def drop_private(c: Ints, s: Ints, core: int, line: int) -> int:
    """Take a line that level 3 or its directory loses out of a core's caches; returns whether it was modified there."""
    dirty = 1 if drop(c, s, 1, core, line) == DIRTY else 0
    above = drop(c, s, 0, core, line)
    if above >= 0:
        count(c, s, core, E_BACK_INVALIDATIONS, 1)
    if above == DIRTY:
        count(c, s, core, E_L1_WRITEBACKS, 1)
        dirty = 1
    count(c, s, core, E_L2_WRITEBACKS, dirty)
    return dirty


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
                dirty |= drop_private(c, s, other, gone)
    if dirty:
        _write_memory(c, s, core, gone, ready)


@compiled
def write_back_to_l3(c: Ints, s: Ints, core: int, line: int, meta: int, ready: int) -> None:
    """A level-2 victim goes down: dirty data always, clean data only into a level 3 that is for victims."""
    if c[C_LEVELS] < 3:
        if meta & DIRTY:
            _write_memory(c, s, core, line, ready)
        return
    if not (meta & DIRTY) and c[C_LEVEL + 2 * L_WORDS + L_INCLUSION] < EXCLUSIVE:
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
            count(c, s, core, E_L1_WRITEBACKS, above)
            kept |= above
    if kept:
        count(c, s, core, E_L2_WRITEBACKS, 1)
    write_back_to_l3(c, s, core, gone, kept, ready)


@inlined
def _way_tag(c: Ints, line: int) -> int:
    """The tag that level 1 chooses a way by: bits of the address above those of its set, folded."""
    bits = c[C_WAY_TAG_BITS]
    above = line >> c[C_LEVEL + L_SET_BITS]
    return (above ^ (above >> bits)) & ((1 << bits) - 1)


@compiled
def claim_way_tag(c: Ints, s: Ints, first: int, line: int) -> None:
    """The line is the one of its level-1 set that is found by its way tag; others with the same tag no longer are.

    After Lipp et al., "Take A Way" (AsiaCCS 2020): first levels of AMD's cores from Bulldozer on know the way by a hash
    of the virtual address, and of two lines with one hash each access finds the other's."""
    tag = _way_tag(c, line)
    for at in range(first, first + c[C_LEVEL + L_WAYS]):
        other = s[at] >> LINE_SHIFT
        if other == line:
            s[at] &= ~WAY_TAG_LOST
        elif other >= 0 and _way_tag(c, other) == tag:
            s[at] |= WAY_TAG_LOST


@compiled
def put_l1(c: Ints, s: Ints, core: int, line: int, meta: int, ready: int) -> None:
    """Put a line into a core's level 1; a dirty victim is written into level 2, any victim into an exclusive one."""
    own_set = first_way(c, s, 0, core, line)
    victim = _place(c, s, 0, own_set, line, meta, ready)
    if c[C_WAY_TAG_BITS]:
        claim_way_tag(c, s, own_set, line)
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
