"""What a cache of given sets, ways and replacement does with a sequence of lines: the candidates' predictions.

A model of its own, of the tags of one set: it is what inference compares measurements with, whatever machine they come
from. The policies are the textbook ones; those by ages of two bits are written as Abel and Reineke do
(nanoBench, ISPASS 2020): H = age after a hit by the age before, M = age of a new line, R = which of the oldest leaves,
U = how ages are raised where none is oldest, UMO = only when a line has to leave.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

_Function = TypeVar("_Function", bound=Callable[..., Any])
Lines = NDArray[np.int64]
Numbers = NDArray[np.float64]
try:
    from numba import njit

    compiled = cast(Callable[[_Function], _Function], njit(cache=True))
except OSError:  # no memory may be made executable here: the model runs as Python, and slower
    compiled = cast(Callable[[_Function], _Function], lambda function: function)

LRU, FIFO, RANDOM, TREE, BITS, AGES = range(6)
KIND, HIT_OLDEST, HIT_OLD, INSERT, ONE_IN, VICTIM, UPDATE, ON_MISS, MOVES, CLOCK, SEED = range(11)
"""Places of a policy's rules in the words that the compiled model reads, of what the cache does with lines of the one
before it, of its clock and of its random number."""

KEPT, EXCLUSIVE = range(2)
"""A cache is filled by loads, or by what the cache before evicts, and a hit moves the line there."""

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

    def words(self, moves: int, seed: int) -> Lines:
        """As the compiled model reads it."""
        return np.array((self.kind, *self.rules, moves, 0, seed), dtype=np.int64)


PUBLISHED = (
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
"""What is known of CPUs, as `cache.lN.replacement` names it."""


def _variants() -> Iterator[Policy]:
    """All rules of two-bit ages that nobody has published of a CPU."""
    known = {each.rules for each in PUBLISHED}
    ranges = (range(3), range(2), range(4), (1,), range(3), range(4), range(2))
    yield from (Policy("qlru", AGES, rules) for rules in itertools.product(*ranges) if rules not in known)


POLICIES = (*PUBLISHED, *_variants())
"""All candidates."""


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
def _forest(state: Lines, ways: int, way: int, c: Lines) -> int:
    """The same of trees of equal size, of which the one used longest ago gives up a line: 12 ways are three of four
    (Ice Lake's first cache, uops.info), a power of two is one. Times of use stand behind the bits of all trees."""
    leaves = ways & -ways
    used = state[MOST_WAYS : MOST_WAYS + ways // leaves]
    tree = int(used.argmin()) if way < 0 else way // leaves
    if way >= 0:
        c[CLOCK] += 1
        used[tree] = c[CLOCK]
        way -= tree * leaves
    return tree * leaves + _tree(state[tree * leaves : (tree + 1) * leaves], leaves, way)


@compiled
def _touch(state: Lines, ways: int, way: int, c: Lines, new: bool) -> None:
    kind = c[KIND]
    if kind == LRU or (kind == FIFO and new):
        c[CLOCK] += 1
        state[way] = c[CLOCK]
    elif kind == TREE:
        _forest(state, ways, way, c)
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
        return _forest(state, ways, -1, c)
    if kind <= FIFO:
        return int(state[:ways].argmin())
    if kind == AGES and c[ON_MISS]:
        _raise(state, ways, -1, c[UPDATE])
    for way in range(ways):
        if state[way] == (OLDEST if kind == AGES else 0):
            return way
    return 0


@compiled
def _misses(ways: int, c: Lines, lines: Lines, found: Numbers) -> None:
    for row in range(len(lines)):
        tags, state = np.full(ways, -1), np.full(2 * MOST_WAYS, OLDEST if c[KIND] == AGES else 0)
        for at in range(lines.shape[1]):
            way = -1
            for each in range(ways):
                if tags[each] == lines[row, at]:
                    way = each
            found[row, at] += way < 0
            if way >= 0 and c[MOVES] == EXCLUSIVE:
                tags[way] = way = -1
            new = way < 0
            if new:
                way = _victim(tags, state, ways, c)
                tags[way] = lines[row, at]
            _touch(state, ways, way, c, new)


def missed(policy: Policy, ways: int, lines: Lines, moves: int = KEPT, draws: int = 8) -> Numbers:
    """How probable it is that each load of each sequence (line numbers, shape (n, loads)) misses a set that begins
    empty: the mean of several draws where chance has a part in the policy. Between two loads the caches before lose the
    line."""
    found, count = np.zeros(lines.shape), draws if policy.by_chance else 1
    for seed in range(1, count + 1):
        _misses(ways, policy.words(moves, seed), lines, found)
    return found / count
