"""Replacement policies of the kernel against those that inference has of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from quiet_machines import HUGE, L1, LINE, LINE_BASE, cycles, quiet, timed

from setebench.probe import Probe
from setebench.sim.inspect import cached_lines
from setebench.stats.cache_model import POLICIES, missed

SETS = 4


@pytest.mark.parametrize(
    ("name", "ways", "fields"),
    [
        ("lru", 8, {}),
        ("tree_plru", 8, {}),
        ("bit_plru", 3, {}),
        ("bit_plru", 8, {}),
        ("srrip", 3, {}),
        ("srrip", 8, {"replacement": "qlru", "qlru": "H00_M2_R0_U0_UMO"}),  # the same by another name
    ],
)
def test_hits_are_those_of_the_policy(name: str, ways: int, fields: dict[str, Any]) -> None:
    machine = quiet(l1={"sets": SETS, "ways": ways, "replacement": name, **fields})
    region = machine.allocate(HUGE, HUGE)
    rng = np.random.default_rng(ways)
    # the last two of a window that moves on: reuse as well as lines never seen before
    lines = (np.arange(400) // 5 + rng.integers(0, ways + 2, 400)) * SETS + rng.integers(0, SETS, 400)
    hit = np.array(cycles(machine, timed(LINE_BASE), {LINE_BASE: region.address + lines * LINE})) == L1
    policy = next(each for each in POLICIES if each.name == name)
    for number in range(SETS):
        own = lines % SETS == number
        assert (hit[own] == 1 - missed(policy, ways, lines[own][None, :])[0]).all()
    assert 50 < hit.sum() < 350


@pytest.mark.parametrize("third", [{}, {"hashed_index": True}, {"sets": 160}, {"sets": 96, "hashed_index": True}])
def test_every_set_of_a_third_cache_is_used_alike(third: dict[str, Any]) -> None:
    """Lines of one page of 2 MiB, which is twenty times the cache: each set holds as many as it has ways."""
    machine = quiet(l1={"sets": 1, "ways": 1}, l2={"sets": 1, "ways": 2}, l3={"sets": 256, "ways": 6, **third})
    region = machine.allocate(HUGE, HUGE)
    machine.run(Probe().load(LINE_BASE), {LINE_BASE: region.address + np.arange(HUGE // LINE) * LINE})
    assert len(cached_lines(machine, 3)) == third.get("sets", 256) * 6
