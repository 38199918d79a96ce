"""Which line of a set gives way to a new one: least recently used, by a tree of bits (tree-PLRU), or a random one.

The uses of lines are numbered, in all caches together. The number is part of a line's word, so uses are numbered anew
before they outgrow it.
"""

from __future__ import annotations

from setebench.sim.kernel.basics import random_below
from setebench.sim.kernel.compiler import Ints, compiled, inlined
from setebench.sim.layout import (
    C_CORES,
    C_LEVEL,
    C_LEVELS,
    EMPTY,
    L_LINES,
    L_REPLACEMENT,
    L_SET_WORDS,
    L_SETS,
    L_TREE,
    L_TREE_WAYS,
    L_WAYS,
    L_WORDS,
    LAST_USE,
    LRU,
    MARK_BITS,
    MOST_WAYS,
    NEVER,
    S_USES,
    TREE_PLRU,
)

WAY_BITS = (MOST_WAYS - 1).bit_length()


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
def victim_way(c: Ints, s: Ints, level: int, first: int) -> int:
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
