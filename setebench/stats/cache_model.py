"""What a cache of given ways and replacement does with sequences of lines of one set: the candidates' predictions.

A model of its own, of the tags of one set: it is what inference compares measurements with, whatever machine they come
from. The policies are the textbook ones; those by ages of two bits are written as Abel and Reineke do
(nanoBench, ISPASS 2020): H = age after a hit by the age before, M = age of a new line, R = which of the oldest leaves,
U = how ages are raised where none is oldest, UMO = only when a line has to leave.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Lines = NDArray[np.int64]
Numbers = NDArray[np.float64]

OLDEST = 3
"""The highest of two-bit ages."""

DRAWS = 8
"""Runs of a policy by chance, whose mean is how probable a miss is."""


class Policy(NamedTuple):
    """A replacement policy: its `name` as findings give it, what `kind` of state it keeps, and of ages the rules: age
    after a hit on age 3 and on age 2, age of a new line (of one in so many, which comes next; others have age 3), which
    victim rule, which update rule, and whether ages are raised only when a line has to leave."""

    name: str
    kind: str
    rules: tuple[int, int, int, int, int, int, int] = (0, 0, 0, 1, 0, 0, 0)


POLICIES = (
    Policy("lru", "lru"),
    Policy("other", "fifo"),
    Policy("random", "random"),
    Policy("tree_plru", "trees"),
    Policy("bit_plru", "ages", (0, 0, 0, 1, 0, 1, 0)),  # H00_M0_R0_U1: an age of 0 is a bit that is set
    Policy("srrip", "ages", (0, 0, 2, 1, 0, 0, 1)),  # Jaleel et al., ISCA 2010: H00_M2_R0_U0_UMO
    Policy("other", "ages", (0, 0, 2, 32, 0, 0, 1)),  # the same paper's bimodal one: H00_MR322_R0_U0_UMO
    Policy("qlru", "ages", (0, 0, 1, 1, 2, 1, 0)),  # H00_M1_R2_U1: Skylake's second level (uops.info)
    Policy("qlru", "ages", (0, 0, 1, 1, 0, 1, 0)),  # H00_M1_R0_U1: Cannon Lake's and Ice Lake's
    Policy("qlru", "ages", (1, 1, 1, 1, 1, 2, 0)),  # H11_M1_R1_U2: Ivy Bridge's third level
    Policy("qlru", "ages", (1, 1, 1, 1, 0, 0, 0)),  # H11_M1_R0_U0: Haswell to Coffee Lake
    Policy("qlru", "ages", (1, 1, 1, 16, 0, 0, 0)),  # H11_MR161_R0_U0: the other kind of their sets
)
"""All candidates: what is published of CPUs, as `cache.lN.replacement` names it."""


class _Set:
    """A set, empty at first: the line that each way holds (None: none) and what its policy remembers."""

    def __init__(self, policy: Policy, ways: int, rng: np.random.Generator) -> None:
        self.kind, self.rules, self.ways, self.rng = policy.kind, policy.rules, ways, rng
        self.held: list[int | None] = [None] * ways
        # of each way its age, or when it was used (by FIFO: filled; by trees: when its tree was)
        self.state, self.clock = [OLDEST if policy.kind == "ages" else 0] * ways, 0
        # trees of equal size, of which the one used longest ago gives up a line: 12 ways are three of four (Ice Lake's
        # first cache, uops.info), a power of two is one; each node points to the side that was not used last
        self.leaves = ways & -ways
        self.points = [[0] * self.leaves for _ in range(ways // self.leaves)]

    def load(self, line: int, moved: bool) -> bool:
        """Whether a load of the line misses; one that hits is `moved` away before it comes back, where the cache is
        filled by what the one before evicts."""
        hit = line in self.held
        if hit and moved:
            self.held[self.held.index(line)] = None
        new = moved or not hit
        way = self._victim() if new else self.held.index(line)
        self.held[way] = line
        self._use(way, new)
        return not hit

    def _victim(self) -> int:
        """The way that gives room to a new line: an empty one if there is any."""
        empty = [way for way, line in enumerate(self.held) if line is None]
        if empty:
            return empty[-1 if self.rules[4] == 2 else 0]
        if self.kind == "random":
            return int(self.rng.integers(self.ways))
        if self.kind == "ages":
            if self.rules[6]:
                self._raise()
            return self.state.index(OLDEST) if OLDEST in self.state else 0
        oldest, node = self.state.index(min(self.state)), 1
        while self.kind == "trees" and node < self.leaves:
            node = 2 * node + self.points[oldest // self.leaves][node]
        return oldest + node - self.leaves if self.kind == "trees" else oldest

    def _use(self, way: int, new: bool) -> None:
        self.clock += 1
        if self.kind == "trees":
            tree, node = way // self.leaves, self.leaves + way % self.leaves
            self.state[tree * self.leaves : (tree + 1) * self.leaves] = [self.clock] * self.leaves
            while node > 1:
                self.points[tree][node // 2] = 1 - node % 2
                node //= 2
        elif self.kind == "ages":
            oldest, old, insert, one_in, *_, on_miss = self.rules
            age = {OLDEST: oldest, OLDEST - 1: old}.get(self.state[way], 0)
            if new:
                age = insert if one_in == 1 or self.rng.integers(one_in) == 0 else OLDEST
            self.state[way] = age
            if not on_miss:
                self._raise(way)
        elif new or self.kind == "lru":
            self.state[way] = self.clock

    def _raise(self, used: int | None = None) -> None:
        """Raise ages where none is the oldest, but by some rules not that of the way just used."""
        update, step = self.rules[5], OLDEST - max(self.state)
        step = step if update < 2 else min(step, 1)
        spared = used if update % 2 else None
        self.state = [min(age + step * (way != spared), OLDEST) for way, age in enumerate(self.state)]


def missed(policy: Policy, ways: int, lines: Lines, moved: bool = False) -> Numbers:
    """How probable it is by a policy that each load of each sequence (line numbers, shape (n, loads)) misses a set that
    begins empty, shape (n, loads). Between two loads the caches before lose the line; a cache that is filled by what
    they evict (`moved`) gives a line that hits away."""
    rng, chance = np.random.default_rng(1), policy.kind == "random" or policy.rules[3] > 1
    found = []
    for sequence in lines.tolist():
        sets = [_Set(policy, ways, rng) for _ in range(DRAWS if chance else 1)]
        found.append([[own.load(line, moved) for line in sequence] for own in sets])
    return np.asarray(np.array(found, dtype=np.float64).mean(axis=1))
