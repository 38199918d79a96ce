"""Caches, TLBs and pages of simulated machines, held against what a textbook says."""

from __future__ import annotations

import numpy as np
import pytest
from quiet_machines import (
    HUGE,
    L1,
    LINE,
    LINE_BASE,
    MEMORY,
    PAGE,
    cycles,
    pages_of,
    quiet,
    timed,
)

from setebench.probe import Probe
from setebench.sim import spec


def test_random_replacement() -> None:
    """Eight lines fill a set, a ninth pushes out one at random: of full sets 1 - (7/8)**8 = 0.66 lose the oldest."""
    machine = quiet(l1={"replacement": "random"})
    lost = []
    region = machine.allocate(64 * HUGE, HUGE)
    for trial in range(64):
        where = region.address + trial * HUGE + np.arange(9) * 64 * LINE
        machine.run(Probe().load(LINE_BASE).fence(), {LINE_BASE: where})
        lost.append(cycles(machine, timed(LINE_BASE), {LINE_BASE: where[:1]})[0] > L1)
    assert 0.4 < sum(lost) / len(lost) < 0.9


BITS, MORE = 8, 7
SAME_TAG = (1 << BITS) | 1
"""Distance, in sets' spans, of lines of one set and way tag: both halves of what lies above the set's bits differ."""


@pytest.mark.parametrize(
    ("distance", "level", "more"),
    [
        (64 * SAME_TAG, {}, MORE),
        (64, {}, 0),  # another tag
        (64 * SAME_TAG + 1, {}, 0),  # another set
        (32, {"sets": 32}, 0),  # tags begin above the bits of the set
        (32 * SAME_TAG, {"sets": 32}, MORE),
        (64 * SAME_TAG, {"way_tag_bits": 0}, 0),
    ],
)
def test_lines_of_one_set_and_way_tag_mispredict_each_other(distance: int, level: dict[str, int], more: int) -> None:
    """Of two lines the one used last is found at once, the other one takes longer."""
    machine = quiet(l1={"way_tag_bits": BITS, "mispredicted_way_cycles": MORE, **level})
    region = machine.allocate(2 * HUGE, HUGE)
    turns = region.address + np.array([0, 1, 1, 0, 0, 1, 0]) * distance * LINE
    expected = [L1, L1 + more, L1, L1 + more, L1 + more]
    assert cycles(machine, timed(LINE_BASE), {LINE_BASE: turns})[2:] == expected


def test_inclusive_l2_eviction_removes_the_l1_line() -> None:
    for inclusion, expected in (("inclusive", MEMORY), ("neither", L1)):
        machine = quiet(l2={"sets": 1024, "ways": 4, "inclusion": inclusion}, l3=None)
        region = machine.allocate(2 * HUGE, HUGE)
        kept = region.address
        others = Probe()
        for k in range(1, 7):  # more lines of the L2 set than it has ways, but fewer than L1's
            others = others.load(LINE_BASE + k * 1024 * LINE).fence()
        probe = Probe().load(LINE_BASE).fence() + others + timed(LINE_BASE)
        assert cycles(machine, probe, {LINE_BASE: [kept]}) == [expected]


def test_tlb_penalties() -> None:
    """One line in each of n pages, again and again: free up to the entries, then each level's penalty."""
    tlb = spec.Tlb(
        l1_4k=spec.TlbTable(entries=16, ways=0, miss_penalty_cycles=7),
        l2_4k=spec.TlbTable(entries=64, ways=4, miss_penalty_cycles=40),
    )
    for count, expected in ((16, 0), (17, 7), (64, 7), (65, 40), (300, 40)):
        machine = quiet(tlb=tlb)
        region = machine.allocate(count * PAGE, PAGE)
        where = pages_of(region, count) + (np.arange(count) % 64) * LINE
        turns = np.tile(where, 3)
        times = cycles(machine, timed(LINE_BASE), {LINE_BASE: turns})[2 * count :]
        # with 65 pages only the overfull set of the second level misses
        assert max(times) == L1 + expected
        if expected != 40:
            assert min(times) == L1 + expected


@pytest.mark.parametrize(("splintered", "expected"), [(False, 0), (True, 7)])
def test_huge_pages_may_be_fiction(splintered: bool, expected: int) -> None:
    machine = quiet(tlb=spec.Tlb(l1_4k=spec.TlbTable(entries=16)), memory=spec.Memory(huge_pages_splintered=splintered))
    region = machine.allocate(HUGE, HUGE)
    where = pages_of(region, 40) + np.arange(40) * LINE
    times = cycles(machine, timed(LINE_BASE), {LINE_BASE: np.tile(where, 3)})[80:]
    assert set(times) == {L1 + expected}
