"""Tag arrays: lookup, insertion with its evictions, invalidation.

A line is put into its set when its miss is handled and carries the time at which its data arrive; until then an access
to it waits (a merge with the fill in flight). That keeps hits, misses and victims those of a textbook cache simulator
whatever overlaps in time.

Tags are virtual line numbers (a simulated physical line has one virtual one); level 1 is usually indexed by them, the
lower levels by physical line numbers, optionally hashed.
"""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.basics import count, reserve
from setebench.sim.kernel.compiler import Ints, compiled, equal_words, fetch, first_bit, inlined
from setebench.sim.kernel.memory.replacement import fill, touch, victim_way


@inlined
def physical_line(c: Ints, s: Ints, line: int) -> int:
    """Physical number of a virtual line."""
    bits = c[lay.C_PAGE_LINES_BITS]
    frame = s[c[lay.C_PAGE_TABLE] + (line >> bits)] >> lay.FRAME_BITS
    return (frame << bits) | (line & ((1 << bits) - 1))


@compiled
def _far_set(c: Ints, v: int, line: int) -> int:
    """The set of a physical line where that is more than bits of its number: the remainder, of a hash or of itself."""
    if c[v + lay.L_INDEX] == lay.BY_HASH:
        bits = c[v + lay.L_SET_BITS]
        line ^= (line >> bits) ^ (line >> (2 * bits))
    return line % c[v + lay.L_SETS]


@inlined
def first_way(c: Ints, s: Ints, level: int, core: int, line: int) -> int:
    """Where in the state the first way of the line's set lies."""
    v = lay.C_LEVEL + level * lay.L_WORDS
    sets = c[v + lay.L_SETS]
    if level == 0 and c[v + lay.L_INDEX] == lay.BY_VIRTUAL_BITS:
        return c[v + lay.L_LINES] + (core * sets + (line & (sets - 1))) * c[v + lay.L_SET_WORDS]
    where = physical_line(c, s, line)
    where = _far_set(c, v, where) if c[v + lay.L_INDEX] > lay.BY_BITS else where & (sets - 1)
    owner = core if level <= 1 else 0
    return c[v + lay.L_LINES] + (owner * sets + where) * c[v + lay.L_SET_WORDS]


@compiled
def fetch_sets(c: Ints, s: Ints, core: int, address: int) -> None:
    """Have the host bring near what a coming access to the address will read, where it misses level 1: a simulated
    miss is mostly the host's own misses, and these are then served meanwhile and all at once."""
    page = (address - lay.BASE_ADDRESS) >> lay.PAGE_BITS
    if page < 0 or page >= c[lay.C_PAGES] or not s[c[lay.C_PAGE_TABLE] + page] & lay.MAPPED:
        return
    line = (address - lay.BASE_ADDRESS) >> c[lay.C_LINE_BITS]
    for level in range(c[lay.C_FAR_LEVEL], c[lay.C_LEVELS]):
        first = first_way(c, s, level, core, line)
        for word in range(0, c[lay.C_LEVEL + level * lay.L_WORDS + lay.L_SET_WORDS], lay.HOST_LINE_WORDS):
            fetch(s, first + word)


@inlined
def find(c: Ints, s: Ints, level: int, line: int, first: int) -> int:
    """Where in the state the line's word lies, given its set, or -1.

    Eight words are compared at once: where a line lies is random, and a branch that leaves early costs more than the
    rest of the set. What is compared beyond the ways still lies in the set.
    """
    ways = c[lay.C_LEVEL + level * lay.L_WORDS + lay.L_WAYS]
    found = equal_words(s, first, lay.LINE_SHIFT, line)
    for at in range(lay.HOST_LINE_WORDS, ways, lay.HOST_LINE_WORDS):
        found |= equal_words(s, first + at, lay.LINE_SHIFT, line) << at
    found &= (1 << ways) - 1
    return first + first_bit(found) if found else -1


@inlined
def ready_at(c: Ints, level: int, at: int) -> int:
    """Where in the state the time lies at which the data of the line at `at` arrive."""
    return at + c[lay.C_LEVEL + level * lay.L_WORDS + lay.L_READY]


@inlined
def remove(s: Ints, at: int) -> int:
    """Empty the way at `at`; returns what its word was."""
    word = s[at]
    s[at] = lay.EMPTY
    return word


@compiled
def drop(c: Ints, s: Ints, level: int, core: int, line: int) -> int:
    """Take a line out of one cache; returns its DIRTY bit, or -1 if it was not there."""
    at = find(c, s, level, line, first_way(c, s, level, core, line))
    if at < 0:
        return -1
    return remove(s, at) & lay.DIRTY


@compiled
def purge(c: Ints, s: Ints, line: int) -> int:
    """Take a line out of every cache; returns -1 if it was nowhere, 1 if it was dirty, else 0."""
    found = -1
    for core in range(c[lay.C_CORES]):
        if (s[lay.S_ACTIVE] >> core) & 1:
            found = max(found, drop(c, s, 0, core, line))
            found = max(found, drop(c, s, 1, core, line))
    for level in range(2, c[lay.C_LEVELS]):
        found = max(found, drop(c, s, level, 0, line))
    return found


@compiled
def _place(c: Ints, s: Ints, level: int, first: int, line: int, meta: int, ready: int) -> int:
    """Put a line into its set; returns the victim's word or EMPTY."""
    at = victim_way(c, s, level, first)
    word = s[at]
    s[at] = (line << lay.LINE_SHIFT) | meta
    s[ready_at(c, level, at)] = ready
    fill(c, s, level, first, at)
    return word


@compiled
def _write_memory(c: Ints, s: Ints, core: int, t: int) -> None:
    """A modified line goes to memory."""
    count(c, s, core, lay.E_MEMORY_WRITES, 1)
    reserve(s, c[lay.C_MEMORY_PORT], t)


@compiled
def _drop_private(c: Ints, s: Ints, core: int, line: int) -> int:
    """Take a line that level 3 loses out of a core's caches; returns whether it was modified there."""
    dirty = 1 if drop(c, s, 1, core, line) == lay.DIRTY else 0
    above = drop(c, s, 0, core, line)
    if above == lay.DIRTY:
        count(c, s, core, lay.E_L1_WRITEBACKS, 1)
        dirty = 1
    count(c, s, core, lay.E_L2_WRITEBACKS, dirty)
    return dirty


@compiled
def put_l3(c: Ints, s: Ints, core: int, line: int, meta: int, ready: int) -> None:
    """Put a line into level 3."""
    victim = _place(c, s, 2, first_way(c, s, 2, core, line), line, meta, ready)
    if victim == lay.EMPTY:
        return
    gone = victim >> lay.LINE_SHIFT
    dirty = victim & lay.DIRTY
    if c[lay.C_LEVEL + 2 * lay.L_WORDS + lay.L_INCLUSION] == lay.INCLUSIVE:
        for other in range(c[lay.C_CORES]):
            if (s[lay.S_ACTIVE] >> other) & 1:
                dirty |= _drop_private(c, s, other, gone)
    if dirty:
        _write_memory(c, s, core, ready)


@compiled
def write_back_to_l3(c: Ints, s: Ints, core: int, line: int, meta: int, ready: int) -> None:
    """A level-2 victim goes down: dirty data always, clean data only into a level 3 that is for victims."""
    if c[lay.C_LEVELS] < 3:
        if meta & lay.DIRTY:
            _write_memory(c, s, core, ready)
        return
    if not (meta & lay.DIRTY) and c[lay.C_LEVEL + 2 * lay.L_WORDS + lay.L_INCLUSION] < lay.EXCLUSIVE:
        return
    first = first_way(c, s, 2, core, line)
    at = find(c, s, 2, line, first)
    if at >= 0:
        s[at] |= meta & lay.DIRTY
        touch(c, s, 2, first, at)
    else:
        put_l3(c, s, core, line, meta & lay.DIRTY, ready)


@compiled
def put_l2(c: Ints, s: Ints, core: int, line: int, meta: int, ready: int) -> None:
    """Put a line into a core's level 2."""
    victim = _place(c, s, 1, first_way(c, s, 1, core, line), line, meta, ready)
    if victim == lay.EMPTY:
        return
    gone = victim >> lay.LINE_SHIFT
    kept = victim & lay.DIRTY
    if c[lay.C_LEVEL + lay.L_WORDS + lay.L_INCLUSION] == lay.INCLUSIVE:
        above = drop(c, s, 0, core, gone)
        if above >= 0:
            count(c, s, core, lay.E_L1_WRITEBACKS, above)
            kept |= above
    if kept:
        count(c, s, core, lay.E_L2_WRITEBACKS, 1)
    write_back_to_l3(c, s, core, gone, kept, ready)


@compiled
def put_l1(c: Ints, s: Ints, core: int, line: int, meta: int, ready: int) -> None:
    """Put a line into a core's level 1; a dirty victim is written into level 2, any victim into an exclusive one."""
    victim = _place(c, s, 0, first_way(c, s, 0, core, line), line, meta, ready)
    if victim == lay.EMPTY:
        return
    if victim & lay.DIRTY:
        count(c, s, core, lay.E_L1_WRITEBACKS, 1)
    elif c[lay.C_LEVEL + lay.L_WORDS + lay.L_INCLUSION] != lay.EXCLUSIVE:
        return
    gone = victim >> lay.LINE_SHIFT
    kept = victim & 3
    first = first_way(c, s, 1, core, gone)
    at = find(c, s, 1, gone, first)
    if at >= 0:
        s[at] |= kept
        touch(c, s, 1, first, at)
    else:
        put_l2(c, s, core, gone, kept, ready)
