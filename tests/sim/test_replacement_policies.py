"""Replacement policies of the kernel against plain ones written from their papers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from quiet_machines import HUGE, L1, LINE, LINE_BASE, cycles, quiet, timed

from setebench.probe import Probe
from setebench.sim.inspect import cached_lines

SETS = 4


class Policy:
    """One set: what leaves, given what was used. Subclasses keep a word for each way."""

    def __init__(self, ways: int) -> None:
        self.lines: list[int | None] = [None] * ways
        self.words = [0] * ways
        self.time = 0

    def access(self, line: int) -> bool:
        """Whether the line was there; it is afterwards."""
        self.time += 1
        if line in self.lines:
            self.hit(self.lines.index(line))
            return True
        way = self.empty() if None in self.lines else self.victim()
        self.lines[way] = line
        self.new(way)
        return False

    def empty(self) -> int:
        return self.lines.index(None)

    def hit(self, way: int) -> None:
        raise NotImplementedError

    def new(self, way: int) -> None:
        self.hit(way)

    def victim(self) -> int:
        raise NotImplementedError


class BitPlru(Policy):
    """A bit for each way, set by a use; when all are set, the others' are cleared."""

    def hit(self, way: int) -> None:
        self.words[way] = 1
        if None not in self.lines and all(self.words):
            self.words = [int(other == way) for other in range(len(self.words))]

    def victim(self) -> int:
        return self.words.index(0)


class Srrip(Policy):
    """Jaleel et al. 2010, figure 3: 2-bit re-reference intervals, hit priority."""

    def hit(self, way: int) -> None:
        self.words[way] = 0

    def new(self, way: int) -> None:
        self.words[way] = 2

    def victim(self) -> int:
        while 3 not in self.words:
            self.words = [word + 1 for word in self.words]
        return self.words.index(3)


class TreePlru(Policy):
    """A node's word is 1 where it points to its upper half; uses turn the nodes on the way to them away."""

    def nodes(self, way: int) -> Iterator[tuple[int, int]]:
        """Nodes from the root to a way, and its half of each."""
        node, size = 1, len(self.lines) // 2
        while size:
            yield node, int(bool(way & size))
            node, size = 2 * node + int(bool(way & size)), size // 2

    def hit(self, way: int) -> None:
        for node, upper in self.nodes(way):
            self.words[node] = 1 - upper

    def victim(self) -> int:
        ways = range(len(self.lines))
        return next(way for way in ways if all(self.words[node] == upper for node, upper in self.nodes(way)))


POLICIES: Sequence[tuple[dict[str, str], type[Policy], int]] = (
    ({"replacement": "tree_plru"}, TreePlru, 8),
    ({"replacement": "bit_plru"}, BitPlru, 3),
    ({"replacement": "bit_plru"}, BitPlru, 8),
    ({"replacement": "srrip"}, Srrip, 3),
    ({"replacement": "qlru", "qlru": "H00_M2_R0_U0_UMO"}, Srrip, 8),
)


@pytest.mark.parametrize(("fields", "policy", "ways"), POLICIES)
def test_hits_are_those_of_the_policy(fields: dict[str, str], policy: type[Policy], ways: int) -> None:
    machine = quiet(l1={"sets": SETS, "ways": ways, **fields})
    region = machine.allocate(HUGE, HUGE)
    rng = np.random.default_rng(ways)
    # the last two of a window that moves on: reuse as well as lines never seen before
    lines = (np.arange(400) // 5 + rng.integers(0, ways + 2, 400)) * SETS + rng.integers(0, SETS, 400)
    times = cycles(machine, timed(LINE_BASE), {LINE_BASE: region.address + lines * LINE})
    sets = [policy(ways) for _ in range(SETS)]
    expected = [sets[line % SETS].access(int(line)) for line in lines]
    assert [time == L1 for time in times] == expected
    assert 50 < sum(expected) < 350


@pytest.mark.parametrize("third", [{}, {"hashed_index": True}, {"sets": 160}, {"sets": 96, "hashed_index": True}])
def test_every_set_of_a_third_cache_is_used_alike(third: dict[str, Any]) -> None:
    """Lines of one page of 2 MiB, which is twenty times the cache: each set holds as many as it has ways."""
    machine = quiet(l1={"sets": 1, "ways": 1}, l2={"sets": 1, "ways": 2}, l3={"sets": 256, "ways": 6, **third})
    region = machine.allocate(HUGE, HUGE)
    machine.run(Probe().load(LINE_BASE), {LINE_BASE: region.address + np.arange(HUGE // LINE) * LINE})
    assert len(cached_lines(machine, 3)) == third.get("sets", 256) * 6
