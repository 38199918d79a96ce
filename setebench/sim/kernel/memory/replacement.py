"""Which line of a set gives way to a new one: the least recently used or least recently filled one, a random one, or as
a tree of bits (tree-PLRU) or ages of two bits (bit-PLRU, SRRIP, BRRIP, QLRU) say.

Where it matters when lines were used, uses are numbered, in all caches together. The number is part of a line's word,
so the oldest are forgotten before they outgrow it. Ages of lines take the same place in the word.
"""

from __future__ import annotations

from setebench.sim import layout as lay
from setebench.sim.kernel.basics import random_below
from setebench.sim.kernel.compiler import Ints, compiled, inlined

WAY_BITS = (lay.MOST_WAYS - 1).bit_length()
OLDEST = 3  # the highest age
FILLS_FROM_LAST = 2  # of `Ages.victim`: R2


@compiled
def _tree_victim(s: Ints, tree: int, size: int, ways: int) -> int:
    """Follow the nodes; a half without ways is never followed."""
    way, node = 0, 1
    while size > 1:
        size >>= 1
        upper = 1 if (s[tree] >> node) & 1 and way + size < ways else 0
        way += upper * size
        node = 2 * node + upper
    return way


@inlined
def _used(word: int) -> int:
    """When a line was used last."""
    return (word >> lay.MARK_BITS) & lay.LAST_USE


@inlined
def _set_used(s: Ints, at: int, use: int) -> None:
    s[at] = (s[at] & ~(lay.LAST_USE << lay.MARK_BITS)) | (use << lay.MARK_BITS)


@compiled
def _forget_uses(c: Ints, s: Ints) -> None:
    """Count uses from the middle on again: lines that were not used in the latest half are all as old."""
    half = lay.LAST_USE >> 1
    for level in range(c[lay.C_LEVELS]):
        v = lay.C_LEVEL + level * lay.L_WORDS
        sets = c[v + lay.L_SETS] * (c[lay.C_CORES] if level < 2 else 1)
        for number in range(sets if c[v + lay.L_REPLACEMENT] <= lay.FIFO else 0):
            first = c[v + lay.L_LINES] + number * c[v + lay.L_SET_WORDS]
            for at in range(first, first + c[v + lay.L_WAYS]):
                _set_used(s, at, max(_used(s[at]) - half, 0))
    s[lay.S_USES] -= half


@compiled
def _raise_ages(c: Ints, s: Ints, v: int, first: int, at: int) -> None:
    """Raise the ages of a full set without a line of the oldest; `at` is the line just used, -1 for none."""
    ways = c[v + lay.L_WAYS]
    oldest = 0
    for way in range(first, first + ways):
        oldest = max(oldest, OLDEST if s[way] == lay.EMPTY else _used(s[way]))
    if oldest == OLDEST:
        return
    rule = c[v + lay.L_UPDATE]
    step = OLDEST - oldest if rule < 2 else 1
    for way in range(first, first + ways):
        if way != at or not rule & 1:
            _set_used(s, way, min(OLDEST, _used(s[way]) + step))


@compiled
def _note_other(c: Ints, s: Ints, v: int, first: int, at: int, new: bool) -> None:
    """As `note`, for policies that keep no numbers of uses."""
    if c[v + lay.L_REPLACEMENT] == lay.TREE_PLRU:
        tree, size, node = first + c[v + lay.L_TREE], c[v + lay.L_TREE_WAYS], 1
        while size > 1:  # every node on the way's path points away from it, its bit is 1 where to its upper half
            size >>= 1
            upper = 1 if (at - first) & size else 0
            s[tree] = s[tree] & ~(1 << node) | (1 - upper) << node
            node = 2 * node + upper
        return
    age = _used(s[at])
    if new:
        usual = c[v + lay.L_INSERT_ONE_IN] <= 1 or random_below(s, c[v + lay.L_INSERT_ONE_IN]) == 0
        age = c[v + lay.L_INSERT_AGE] if usual else OLDEST
    else:
        age = c[v + lay.L_HIT_AGE_3] if age == OLDEST else (c[v + lay.L_HIT_AGE_2] if age == OLDEST - 1 else 0)
    _set_used(s, at, age)
    if not c[v + lay.L_UPDATE_ON_MISS]:
        _raise_ages(c, s, v, first, at)


@inlined
def note(c: Ints, s: Ints, level: int, first: int, at: int, new: bool) -> None:
    """Note that the line at `at`, in the set at `first`, was used, or is a new one."""
    v = lay.C_LEVEL + level * lay.L_WORDS
    kind = c[v + lay.L_REPLACEMENT]
    if kind == lay.LRU or (kind == lay.FIFO and new):
        if s[lay.S_USES] == lay.LAST_USE:
            _forget_uses(c, s)
        s[lay.S_USES] += 1
        _set_used(s, at, s[lay.S_USES])
    elif kind >= lay.TREE_PLRU:
        _note_other(c, s, v, first, at, new)


@compiled
def _victim_of_others(c: Ints, s: Ints, level: int, first: int) -> int:
    """As `victim_way`, for policies that keep no numbers of uses."""
    v = lay.C_LEVEL + level * lay.L_WORDS
    ways, kind, empty = c[v + lay.L_WAYS], c[v + lay.L_REPLACEMENT], -1
    for at in range(first, first + ways):
        if s[at] == lay.EMPTY and (empty < 0 or (kind >= lay.AGES and c[v + lay.L_VICTIM] == FILLS_FROM_LAST)):
            empty = at
    if empty >= 0:
        return empty
    if kind == lay.TREE_PLRU:
        return first + _tree_victim(s, first + c[v + lay.L_TREE], c[v + lay.L_TREE_WAYS], ways)
    if kind < lay.AGES:
        return first + random_below(s, ways)
    if c[v + lay.L_UPDATE_ON_MISS]:
        _raise_ages(c, s, v, first, -1)
    for at in range(first, first + ways):
        if _used(s[at]) == OLDEST:
            return at
    return first


@inlined
def victim_way(c: Ints, s: Ints, level: int, first: int) -> int:
    """The way to replace: an empty one, else as the replacement says."""
    if c[lay.C_LEVEL + level * lay.L_WORDS + lay.L_REPLACEMENT] not in (lay.LRU, lay.FIFO):
        return _victim_of_others(c, s, level, first)
    oldest = lay.NEVER  # use, or the first of no use at all; as a minimum of numbers, for want of branches
    for way in range(c[lay.C_LEVEL + level * lay.L_WORDS + lay.L_WAYS]):
        oldest = min(oldest, (s[first + way] << WAY_BITS - lay.MARK_BITS) & (lay.LAST_USE << WAY_BITS) | way)
    return first + (oldest & ((1 << WAY_BITS) - 1))
