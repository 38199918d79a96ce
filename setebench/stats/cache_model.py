"""What a cache of given ways and replacement does with sequences of lines of one set: the candidates' predictions.

A model of its own, of the tags of one set: it is what inference compares measurements with, whatever machine they come
from. The policies are the textbook ones; those by ages of two bits are written as Abel and Reineke do
(nanoBench, ISPASS 2020): H = age after a hit by the age before, M = age of a new line, R = which of the oldest leaves,
U = how ages are raised where none is oldest, UMO = only when a line has to leave.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Lines = NDArray[np.int64]
Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]

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

    @property
    def draws(self) -> int:
        """How often it is run."""
        return DRAWS if self.kind == "random" or self.rules[3] > 1 else 1


PUBLISHED = (
    Policy("lru", "lru"),
    Policy("other", "fifo"),
    Policy("random", "random"),
    Policy("tree_plru", "trees"),
    Policy("bit_plru", "bits"),
    Policy("srrip", "ages", (0, 0, 2, 1, 0, 0, 1)),  # Jaleel et al., ISCA 2010: H00_M2_R0_U0_UMO
    Policy("other", "ages", (0, 0, 2, 32, 0, 0, 1)),  # the same paper's bimodal one: H00_MR322_R0_U0_UMO
    Policy("qlru", "ages", (0, 0, 1, 1, 2, 1, 0)),  # H00_M1_R2_U1: Skylake's second level (uops.info)
    Policy("qlru", "ages", (0, 0, 1, 1, 0, 1, 0)),  # H00_M1_R0_U1: Cannon Lake's and Ice Lake's
    Policy("qlru", "ages", (1, 1, 1, 1, 1, 2, 0)),  # H11_M1_R1_U2: Ivy Bridge's third level
    Policy("qlru", "ages", (1, 1, 1, 1, 0, 0, 0)),  # H11_M1_R0_U0: Haswell to Coffee Lake
    Policy("qlru", "ages", (1, 1, 1, 16, 0, 0, 0)),  # H11_MR161_R0_U0: the other kind of their sets
)
"""What is known of CPUs, as `cache.lN.replacement` names it."""


def _variants() -> Iterator[Policy]:
    """All rules of two-bit ages that nobody has published of a CPU; R1 is here what R0 is."""
    known = {each.rules for each in PUBLISHED}
    ranges = (range(3), range(2), range(4), (1,), (0, 2), range(4), range(2))
    yield from (Policy("qlru", "ages", rules) for rules in itertools.product(*ranges) if rules not in known)


POLICIES = (*PUBLISHED, *_variants())
"""All candidates."""


class _Sets:
    """One set for each row of `rules`, empty at first: the lines that it holds and what its policy remembers of each
    way, shape (sets, ways)."""

    def __init__(self, kind: str, rules: Lines, ways: int) -> None:
        self.kind, self.ways, self.rng, self.clock = kind, ways, np.random.default_rng(1), 0
        *self.rules, on_miss = rules.T
        self.on_miss, self.each = on_miss > 0, np.arange(len(rules))
        self.tags = np.full((len(rules), ways), -1)
        self.state = np.full_like(self.tags, OLDEST if kind == "ages" else 0)
        # trees of equal size, of which the one used longest ago gives up a line: 12 ways are three of four (Ice Lake's
        # first cache, uops.info), a power of two is one; by depth the node of each way, and its side of that
        leaves, way = ways & -ways, np.arange(ways)
        depths = range(leaves.bit_length() - 1, 0, -1)
        self.tree, self.points = way // leaves, np.zeros_like(self.tags)
        self.path = [(way - way % leaves + (leaves + way % leaves >> deep), way >> deep - 1 & 1) for deep in depths]

    def load(self, lines: Lines, moved: bool) -> Flags:
        """Which sets miss when each loads one line, shape (sets,); a line that hits is `moved` away before it comes
        back, where the cache is filled by what the one before evicts."""
        hits = self.tags == lines[:, None]
        missed: Flags = ~hits.any(axis=1)
        self.tags[hits & moved] = -1
        new = missed | moved
        way = np.where(new, self._victims(new), hits.argmax(axis=1))
        self.tags[self.each, way] = lines
        self._touch(way, new)
        return missed

    def _victims(self, new: Flags) -> Lines:
        """The way that gives room in each set that gets a new line: an empty one if there is any."""
        empty = self.tags < 0
        first, last = empty.argmax(axis=1), self.ways - 1 - empty[:, ::-1].argmax(axis=1)
        full, free = ~empty.any(axis=1), first
        goes = self.state == self.state.min(axis=1, keepdims=True)
        if self.kind == "random":
            return np.where(full, self.rng.integers(self.ways, size=len(new)), free)
        if self.kind == "ages":
            self._raise(new & full & self.on_miss)
            free, goes = np.where(self.rules[4] == 2, last, first), self.state == OLDEST
        for node, side in self.path if self.kind == "trees" else ():
            goes = goes & (self.points[:, node] == side)
        return np.asarray(np.where(full, goes.argmax(axis=1), free))

    def _touch(self, way: Lines, new: Flags) -> None:
        """Remember the use of a way in each set."""
        self.clock += 1
        if self.kind == "lru":
            self.state[self.each, way] = self.clock
        elif self.kind == "fifo":
            self.state[self.each[new], way[new]] = self.clock
        elif self.kind == "trees":
            self.state[self.tree == self.tree[way][:, None]] = self.clock
            for node, side in self.path:
                self.points[self.each, node[way]] = 1 - side[way]
        elif self.kind == "bits":
            self.state[self.each, way] = 1
            self.state[self.state.all(axis=1)] = 0
            self.state[self.each, way] = 1
        elif self.kind == "ages":
            oldest, old, insert, one_in, *_ = self.rules
            age, drawn = self.state[self.each, way], self.rng.integers(one_in) == 0
            hit = np.select([age == OLDEST, age == OLDEST - 1], [oldest, old], 0)
            self.state[self.each, way] = np.where(new, np.where(drawn, insert, OLDEST), hit)
            self._raise(~self.on_miss, way)

    def _raise(self, sets: Flags, way: Lines | None = None) -> None:
        """Raise ages in these sets where none is the oldest, but by some rules not that of the `way` just used."""
        update, step = self.rules[5], np.where(sets, OLDEST - self.state.max(axis=1), 0)
        step = np.where(update < 2, step, np.minimum(step, 1))
        raised = np.minimum(self.state + step[:, None], OLDEST)
        if way is not None:
            spared = update % 2 == 1
            raised[self.each[spared], way[spared]] = self.state[self.each[spared], way[spared]]
        self.state = raised


def missed(policies: Sequence[Policy], ways: int, lines: Lines, moved: bool = False) -> Numbers:
    """How probable it is by each policy that each load of each sequence (line numbers, shape (n, loads)) misses a set
    that begins empty, shape (policies, n, loads). Between two loads the caches before lose the line; a cache that is
    filled by what they evict (`moved`) gives a line that hits away."""
    found = []
    for (kind, draws), group in itertools.groupby(policies, lambda each: (each.kind, each.draws)):
        rules = np.array([each.rules for each in group])
        sets = _Sets(kind, rules.repeat(draws * len(lines), axis=0), ways)
        late = np.array([sets.load(np.tile(each, draws * len(rules)), moved) for each in lines.T])
        found.append(late.T.reshape(len(rules), draws, *lines.shape).mean(axis=1))
    return np.concatenate(found)
