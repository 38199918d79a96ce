"""What a cache of given sets, ways and replacement does with a sequence of lines: the candidates' predictions.

A model of its own, of tags alone, for small caches: it is what inference compares measurements with, whatever machine
they come from. The policies are the textbook ones; those by ages of two bits are written as Abel and Reineke do
(nanoBench, ISPASS 2020): H = age after a hit by the age before, M = age of a new line, R = which of the oldest leaves,
U = how ages are raised where none is oldest, UMO = only when a line has to leave.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

_Function = TypeVar("_Function", bound=Callable[..., Any])
Lines = NDArray[np.int64]
try:
    from numba import njit

    compiled = cast(Callable[[_Function], _Function], njit(cache=True))
except OSError:  # no memory may be made executable here: the model runs as Python, and slower
    compiled = cast(Callable[[_Function], _Function], lambda function: function)

LRU, FIFO, RANDOM, TREE, BITS, AGES = range(6)
KIND, HIT_OLDEST, HIT_OLD, INSERT, ONE_IN, VICTIM, UPDATE, ON_MISS, CLOCK, SEED = range(10)
"""Places of a policy's rules in the words that the compiled model reads, of its clock and of its random number."""

OLDEST, MOST_WAYS = 3, 32
"""The highest of two-bit ages, and the largest number of ways that is modelled."""


@dataclass(frozen=True)
class Policy:
    """A replacement policy: its `name` as findings give it, what kind of state it keeps, and of ages the rules: age
    after a hit on age 3 and on age 2, age of a new line (of one in `one_in` of them, others have age 3), which victim
    rule, which update rule, and whether ages are raised only when a line has to leave."""

    name: str
    kind: int
    rules: tuple[int, int, int, int, int, int, int] = (0, 0, 0, 1, 0, 0, 0)

    @property
    def by_chance(self) -> bool:
        """Whether chance has a part in it."""
        return self.kind == RANDOM or self.rules[ONE_IN - HIT_OLDEST] > 1

    def words(self, seed: int) -> Lines:
        """As the compiled model reads it."""
        return np.array((self.kind, *self.rules, 0, seed), dtype=np.int64)


POLICIES = (
    Policy("lru", LRU),
    Policy("other", FIFO),
    Policy("random", RANDOM),
    Policy("tree_plru", TREE),
    Policy("bit_plru", BITS),
    Policy("srrip", AGES, (0, 0, 2, 1, 0, 0, 1)),  # Jaleel et al., ISCA 2010: H00_M2_R0_U0_UMO
    Policy("other", AGES, (0, 0, 2, 32, 0, 0, 1)),  # the same paper's bimodal one: H00_MR322_R0_U0_UMO
    Policy("qlru", AGES, (0, 0, 1, 1, 2, 1, 0)),  # H00_M1_R2_U1: Skylake's second level (uops.info)
    Policy("qlru", AGES, (0, 0, 1, 1, 0, 1, 0)),  # H00_M1_R0_U1: Cannon Lake's and Ice Lake's
    Policy("qlru", AGES, (1, 1, 1, 1, 1, 2, 0)),  # H11_M1_R1_U2: Ivy Bridge's third level
    Policy("qlru", AGES, (1, 1, 1, 1, 0, 0, 0)),  # H11_M1_R0_U0: Haswell to Coffee Lake
    Policy("qlru", AGES, (1, 1, 1, 16, 0, 0, 0)),  # H11_MR161_R0_U0: the other kind of their sets
)
"""Candidates: what is known of CPUs, as `cache.lN.replacement` names it."""


@compiled
def _random(c: Lines, below: int) -> int:
    """A number below that many, by a linear congruence whose state is the last word of c (Knuth's MMIX)."""
    c[SEED] = c[SEED] * 6364136223846793005 + 1442695040888963407
    return int(((c[SEED] >> 33) & 0x3FFFFFFF) % below)


@compiled
def _raise(state: Lines, ways: int, way: int, rule: int) -> None:
    """Raise ages where none is the oldest; `way` was just used, -1 for none."""
    oldest = state[:ways].max()
    if oldest == OLDEST:
        return
    step = OLDEST - oldest if rule < 2 else 1
    for each in range(ways):
        if each != way or rule % 2 == 0:
            state[each] = min(OLDEST, state[each] + step)


@compiled
def _tree(state: Lines, ways: int, way: int) -> int:
    """Point a tree's nodes away from a way; with way -1, the way that they point to."""
    size, low, node = 1, 0, 1
    while size < ways:
        size *= 2
    while size > 1:
        size //= 2
        right = state[node] == 1 and low + size < ways
        if way >= 0:
            right = way >= low + size
            state[node] = 0 if right else 1
        if right:
            low += size
        node = 2 * node + right
    return low


@compiled
def _touch(state: Lines, ways: int, way: int, c: Lines, new: bool) -> None:
    kind = c[KIND]
    if kind == LRU or (kind == FIFO and new):
        c[CLOCK] += 1
        state[way] = c[CLOCK]
    elif kind == TREE:
        _tree(state, ways, way)
    elif kind == BITS:
        state[way] = 1
        if state[:ways].all():
            state[:ways] = 0
            state[way] = 1
    elif kind == AGES:
        age = state[way]
        if new:
            age = c[INSERT] if c[ONE_IN] <= 1 or _random(c, c[ONE_IN]) == 0 else OLDEST
        elif age == OLDEST:
            age = c[HIT_OLDEST]
        else:
            age = c[HIT_OLD] if age == OLDEST - 1 else 0
        state[way] = age
        if not c[ON_MISS]:
            _raise(state, ways, way, c[UPDATE])


@compiled
def _victim(tags: Lines, state: Lines, ways: int, c: Lines) -> int:
    kind = c[KIND]
    found = -1
    for way in range(ways):
        if tags[way] < 0 and (found < 0 or (kind == AGES and c[VICTIM] == 2)):
            found = way
    if found >= 0:
        return found
    if kind == RANDOM:
        return _random(c, ways)
    if kind == TREE:
        return _tree(state, ways, -1)
    if kind <= FIFO:
        return int(state[:ways].argmin())
    if kind == AGES and c[ON_MISS]:
        _raise(state, ways, -1, c[UPDATE])
    for way in range(ways):
        if state[way] == (OLDEST if kind == AGES else 0):
            return way
    return 0


@compiled
def _place_of(tags: Lines, line: int) -> int:
    for way in range(len(tags)):
        if tags[way] == line:
            return way
    return -1


@compiled
def _access(tags: Lines, state: Lines, ways: int, c: Lines, line: int) -> int:
    """Look a line up in a set and put it there: the line that leaves, -1 for none, -2 for a hit."""
    way = _place_of(tags, line)
    if way >= 0:
        _touch(state, ways, way, c, False)
        return -2
    way = _victim(tags, state, ways, c)
    gone = int(tags[way])
    tags[way] = line
    _touch(state, ways, way, c, True)
    return gone


@compiled
def _hits(tags: Lines, state: Lines, c: Lines, lines: Lines) -> Lines:
    found = np.zeros(len(lines), dtype=np.int64)
    for at in range(len(lines)):
        found[at] = _access(tags, state, len(tags), c, lines[at]) == -2
    return found


def hits(policy: Policy, ways: int, lines: Lines, seed: int = 1) -> Lines:
    """1 for each access of a sequence (line numbers, shape (n,)) to a set that begins empty which hits, else 0."""
    return _hits(np.full(ways, -1, dtype=np.int64), _untouched(policy), policy.words(seed), lines.astype(np.int64))


def _untouched(policy: Policy) -> Lines:
    return np.full(2 * MOST_WAYS, OLDEST if policy.kind == AGES else 0, dtype=np.int64)


KEPT, INCLUSIVE, EXCLUSIVE, OF_VICTIMS = range(4)
"""What an outer cache does with lines of the one before it: nothing, it takes them along when they leave, it holds only
what the one before gave up, or is filled by that and keeps what is used again."""


@compiled
def _both(tags: Lines, state: Lines, rules: Lines, shape: Lines, lines: Lines) -> tuple[int, int]:
    """How many of the last loads the inner cache serves, and how many neither. Of two levels, shapes (2, ...)."""
    inner_ways, outer_ways, kind, own, timed = shape
    near = beyond = 0
    for at in range(len(lines)):
        line, counts = lines[at], at >= len(lines) - timed
        hit = _place_of(tags[0], line) >= 0
        near += counts and hit
        if not hit and line < own:
            if kind >= EXCLUSIVE:
                way = _place_of(tags[1], line)
                there = way >= 0
                if there and kind == EXCLUSIVE:
                    tags[1][way] = -1
                elif there:
                    _touch(state[1], outer_ways, way, rules[1], False)
            else:
                gone = _access(tags[1], state[1], outer_ways, rules[1], line)
                there = gone == -2
                above = _place_of(tags[0], gone) if kind == INCLUSIVE and gone >= 0 else -1
                if above >= 0:
                    tags[0][above] = -1
            beyond += counts and not there
        gone = _access(tags[0], state[0], inner_ways, rules[0], line)
        if kind >= EXCLUSIVE and 0 <= gone < own:
            _access(tags[1], state[1], outer_ways, rules[1], gone)
    return near, beyond


class Cache(NamedTuple):
    """A set of a cache: its policy and ways, and what it does with lines of the cache before it."""

    policy: Policy
    ways: int
    kind: int = KEPT


def served(inner: Cache, outer: Cache, lines: Lines, counted: tuple[int, int], seed: int = 1) -> tuple[int, int]:
    """How many of the last loads of a sequence the inner cache serves, and how many neither of the two. All lines share
    a set of the inner one; of the outer one, which holds all others, those with numbers below the first of `counted`
    do. The second is how many loads count. Both sets begin empty."""
    own, timed = counted
    state = np.array([_untouched(each.policy) for each in (inner, outer)])
    rules = np.array([each.policy.words(seed) for each in (inner, outer)])
    # beyond the ways of either lies what is no line
    tags = np.array([np.where(np.arange(MOST_WAYS) < each.ways, -1, -3) for each in (inner, outer)])
    shape = np.array([inner.ways, outer.ways, outer.kind, own, timed])
    return _both(tags, state, rules, shape, lines.astype(np.int64))
