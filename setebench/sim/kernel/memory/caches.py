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
from setebench.sim.kernel.compiler import Ints, compiled, equal_words, first_bit, inlined
from setebench.sim.kernel.memory.replacement import note, victim_way
from setebench.sim.kernel.memory.translation import sharers


@inlined
def physical_line(c: Ints, s: Ints, line: int) -> int:
    """Physical number of a virtual line."""
    bits = c[lay.C_PAGE_LINES_BITS]
    frame = s[c[lay.C_PAGE_TABLE] + (line >> bits)] >> lay.FRAME_BITS
    return (frame << bits) | (line & ((1 << bits) - 1))


@compiled
def _far_set(c: Ints, v: int, line: int) -> int:
    """The set of a physical line where that is more than bits of its number: the remainder, of a hash or of itself."""
    sets = c[v + lay.L_SETS]
    if c[v + lay.L_INDEX] == lay.BY_HASH:
        bits = c[v + lay.L_SET_BITS]
        line ^= (line >> bits) ^ (line >> (2 * bits))
    return line % sets if sets & (sets - 1) else line & (sets - 1)


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


@inlined
def find(c: Ints, s: Ints, level: int, line: int, first: int) -> int:
    """Where in the state the line's word lies, given its set, or -1.

    Eight words are compared at once: where a line lies is random, and a branch that leaves early costs more than the
    rest of the set. What is compared beyond the ways still lies in the set.
    """
    ways = c[lay.C_LEVEL + level * lay.L_WORDS + lay.L_WAYS]
    found: int = equal_words(s, first, lay.LINE_SHIFT, line)
    for at in range(lay.HOST_LINE_WORDS, ways, lay.HOST_LINE_WORDS):
        found |= equal_words(s, first + at, lay.LINE_SHIFT, line) << at
    found &= (1 << ways) - 1
    return first + first_bit(found) if found else -1


@inlined
def locate(c: Ints, s: Ints, level: int, core: int, line: int) -> int:
    """Where in the state a cache has the word of a line, its data on the way included, or -1."""
    return find(c, s, level, line, first_way(c, s, level, core, line))


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
    at = locate(c, s, level, core, line)
    return remove(s, at) & lay.DIRTY if at >= 0 else -1


@compiled
def drop_private(c: Ints, s: Ints, core: int, line: int) -> int:
    """Take a line out of a core's own caches; returns as `drop` does."""
    return max(drop(c, s, 0, core, line), drop(c, s, 1, core, line))


@compiled
def purge(c: Ints, s: Ints, line: int) -> int:
    """Take a line out of every cache; returns -1 if it was nowhere, 1 if it was dirty, else 0."""
    found, several = -1, sharers(c, s, line)
    for core in range(c[lay.C_CORES]):
        if (several >> core) & 1:
            found = max(found, drop_private(c, s, core, line))
    for level in range(2, c[lay.C_LEVELS]):
        found = max(found, drop(c, s, level, 0, line))
    return found


@inlined
def _way_tag(c: Ints, line: int) -> int:
    """The tag that level 1 chooses a way by: bits of the address above those of its set, folded."""
    bits = c[lay.C_LEVEL + lay.L_WAY_TAG_BITS]
    above = line >> c[lay.C_LEVEL + lay.L_SET_BITS]
    return (above ^ (above >> bits)) & ((1 << bits) - 1)


@compiled
def claim_way_tag(c: Ints, s: Ints, first: int, line: int) -> None:
    """The line is the one of its level-1 set that is found by its way tag; others with the same tag no longer are.

    After Lipp et al., "Take A Way" (AsiaCCS 2020): first levels of AMD's cores from Bulldozer on know the way by a hash
    of the virtual address, and of two lines with one hash each access finds the other's."""
    tag = _way_tag(c, line)
    for at in range(first, first + c[lay.C_LEVEL + lay.L_WAYS]):
        other = s[at] >> lay.LINE_SHIFT
        if other == line:
            s[at] &= ~lay.WAY_TAG_LOST
        elif other >= 0 and _way_tag(c, other) == tag:
            s[at] |= lay.WAY_TAG_LOST


@compiled
def _drop_above(c: Ints, s: Ints, level: int, core: int, line: int) -> int:
    """Take a line that an inclusive level loses out of the levels above; returns DIRTY where it was modified there."""
    dirty, several = 0, sharers(c, s, line)
    for other in range(core if level == 1 else 0, core + 1 if level == 1 else c[lay.C_CORES]):
        if (several >> other) & 1:
            own = max(drop(c, s, 0, other, line), 0)
            count(c, s, other, lay.E_L1D_WRITEBACK, own)
            if level == 2:
                own |= max(drop(c, s, 1, other, line), 0)
                count(c, s, other, lay.E_L2_WRITEBACK, own)
            dirty |= own
    return dirty


@compiled
def _wants(c: Ints, s: Ints, level: int, core: int, line: int, meta: int, ready: int) -> bool:
    """Whether a level lets a victim of the one above be put there: modified data always, unless it has the line or is
    memory, which both take them; others only where it is for victims."""
    if level >= c[lay.C_LEVELS]:
        if meta & lay.DIRTY:
            count(c, s, core, lay.E_MEM_WRITE, 1)
            reserve(s, c[lay.C_MEMORY_PORT], ready)
        return False
    if not meta & lay.DIRTY and c[lay.C_LEVEL + level * lay.L_WORDS + lay.L_INCLUSION] < lay.EXCLUSIVE:
        return False
    first = first_way(c, s, level, core, line)
    at = find(c, s, level, line, first)
    if at >= 0:
        s[at] |= meta
        note(c, s, level, first, at, False)
    return at < 0


@compiled
def put(c: Ints, s: Ints, level: int, core: int, line: int, meta: int, ready: int) -> None:
    """Put a line into a level; victims go down, level by level, as far as they must."""
    if level < 2:
        s[c[lay.C_SHARERS] + (line >> c[lay.C_PAGE_LINES_BITS])] |= 1 << core
    while True:
        first = first_way(c, s, level, core, line)
        at = victim_way(c, s, level, first)
        victim = s[at]
        s[at] = (line << lay.LINE_SHIFT) | meta
        s[ready_at(c, level, at)] = ready
        note(c, s, level, first, at, True)
        if level == 0 and c[lay.C_LEVEL + lay.L_WAY_TAG_BITS]:
            claim_way_tag(c, s, first, line)
        if victim == lay.EMPTY:
            return
        line = victim >> lay.LINE_SHIFT
        meta = victim & (lay.DIRTY | lay.OWNED if level == 0 else lay.DIRTY)
        if level > 0 and c[lay.C_LEVEL + level * lay.L_WORDS + lay.L_INCLUSION] == lay.INCLUSIVE:
            meta |= _drop_above(c, s, level, core, line)
        if level < 2:
            count(c, s, core, lay.E_L2_WRITEBACK if level else lay.E_L1D_WRITEBACK, meta & lay.DIRTY)
        level += 1
        if not _wants(c, s, level, core, line, meta, ready):
            return


@compiled
def write_back(c: Ints, s: Ints, core: int, line: int, ready: int) -> None:
    """Modified data leave a core's private caches."""
    if _wants(c, s, 2, core, line, lay.DIRTY, ready):
        put(c, s, 2, core, line, lay.DIRTY, ready)
