"""Model one set of a cache under a given replacement policy, to predict which loads of a sequence miss.

Inference compares measured misses with these predictions, on any machine. The model holds tags only, no data. Policies
with two-bit ages (QLRU, "quad-age LRU") are named as Abel and Reineke do (nanoBench, ISPASS 2020): H = a line's age
after a hit, by its age before; M = the age of a new line; R = which of the oldest lines is evicted; U = how ages are
raised if no line has the highest age; UMO = only on a miss.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Lines = NDArray[np.int64]
Numbers = NDArray[np.float64]

OLDEST = 3
"""The highest two-bit age; a line of this age is evicted next."""

DRAWS = 8
"""Number of simulations of a randomised policy; the mean of their misses is the probability of a miss."""


class Policy(NamedTuple):
    """A replacement policy: its `name` in findings and the `kind` of state it keeps. Kind "ages" also has `rules`,
    seven numbers (letters as in the module's docstring). H: the ages after a hit on age 3 and on age 2. M: an age n and
    a number m; one new line in m gets age n, the others age 3. R: the number of the rule that chooses a victim. U: the
    number of the rule that raises ages. UMO: 1 if ages are raised on a miss only, else 0."""

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
"""All candidate policies, those published of CPUs; their names are the values of `cache.lN.replacement`."""


class _Set:
    """State of one set, empty at first: the line number that each way holds (None: none) and the policy's state."""

    def __init__(self, policy: Policy, ways: int, rng: np.random.Generator) -> None:
        self.kind, self.rules, self.ways, self.rng = policy.kind, policy.rules, ways, rng
        self.held: list[int | None] = [None] * ways
        # per way: its age (kind "ages"), else the time of its last use (FIFO: of its fill; trees: of its tree's use)
        self.state, self.clock = [OLDEST if policy.kind == "ages" else 0] * ways, 0
        # If the number of ways is no power of two, tree PLRU has several equal trees, and evicts from the one used
        # longest ago: 12 ways are three trees of four (Ice Lake's L1, uops.info). Nodes point to the older side.
        self.leaves = ways & -ways
        self.points = [[0] * self.leaves for _ in range(ways // self.leaves)]

    def load(self, line: int, moved: bool) -> bool:
        """Load a line, and return whether the load misses. `moved` models an exclusive cache, filled by evictions of
        the level before: a line that hits moves to that level, leaves this set, and comes back as a new line."""
        hit = line in self.held
        if hit and moved:
            self.held[self.held.index(line)] = None
        new = moved or not hit
        way = self._victim() if new else self.held.index(line)
        self.held[way] = line
        self._use(way, new)
        return not hit

    def _victim(self) -> int:
        """Return the way whose line is replaced by a new one: an empty way if there is one, else by the policy."""
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
        """Update the policy's state for a use of the line in a way: a hit, or a fill if it is `new`."""
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
        """Raise the ages of all ways, if none has the highest age; some rules U leave out the way just `used`."""
        update, step = self.rules[5], OLDEST - max(self.state)
        step = step if update < 2 else min(step, 1)
        spared = used if update % 2 else None
        self.state = [min(age + step * (way != spared), OLDEST) for way, age in enumerate(self.state)]


def missed(policy: Policy, ways: int, lines: Lines, moved: bool = False) -> Numbers:
    """Return the probability that each load of each sequence in `lines` (line numbers) misses a set of `ways` ways,
    empty at first, by a `policy`; shapes (n, loads). All loads reach this cache, as nearer caches lose the lines in
    between. With `moved` it is exclusive: evictions of the level before fill it, and lines that hit leave it."""
    rng, chance = np.random.default_rng(1), policy.kind == "random" or policy.rules[3] > 1
    found = []
    for sequence in lines.tolist():
        sets = [_Set(policy, ways, rng) for _ in range(DRAWS if chance else 1)]
        found.append([[own.load(line, moved) for line in sequence] for own in sets])
    return np.asarray(np.array(found, dtype=np.float64).mean(axis=1))
