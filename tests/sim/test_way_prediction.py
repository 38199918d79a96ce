"""Level 1 finds a line's way by a hash of its virtual page: of two lines of a set with one hash the latest used is
found."""

from __future__ import annotations

from typing import Any

import pytest
from quiet_machines import HUGE, L1, LINE, PAGE, PAGE_BASE, cycles, quiet, timed

from setebench.probe import Probe

BITS, MORE = 8, 7
SAME_TAG = PAGE * ((1 << BITS) | 1)
"""Folding both halves of the page number gives the same tag as page 0's."""

OTHER_TAG = PAGE


def latencies(distance: int, times: int = 20, **level: Any) -> list[int]:
    """Of loads that turn between two lines of a set, so far apart."""
    machine = quiet(l1={"way_tag_bits": BITS, "mispredicted_way_cycles": MORE, **level})
    region = machine.allocate(2 * HUGE, HUGE)
    turns = [region.address + (turn % 2) * distance for turn in range(times)]
    return cycles(machine, timed(PAGE_BASE), {PAGE_BASE: turns})[2:]


def test_lines_with_one_tag_mispredict_each_other() -> None:
    assert set(latencies(SAME_TAG)) == {L1 + MORE}
    assert set(latencies(OTHER_TAG)) == {L1}
    assert set(latencies(SAME_TAG + LINE)) == {L1}, "another set"


@pytest.mark.parametrize("level", [{"way_tag_bits": 0}, {"mispredicted_way_cycles": 0}])
def test_without_prediction_nothing_is_mispredicted(level: dict[str, int]) -> None:
    assert set(latencies(SAME_TAG, **level)) == {L1}


def test_the_latest_used_line_is_found() -> None:
    machine = quiet(l1={"way_tag_bits": BITS, "mispredicted_way_cycles": MORE})
    region = machine.allocate(2 * HUGE, HUGE)
    near, far = region.address, region.address + SAME_TAG
    turns = [near, far, far, far, near, near]
    assert cycles(machine, timed(PAGE_BASE), {PAGE_BASE: turns})[2:] == [L1, L1, L1 + MORE, L1]


def test_stores_wait_for_no_way() -> None:
    machine = quiet(l1={"way_tag_bits": BITS, "mispredicted_way_cycles": MORE})
    region = machine.allocate(2 * HUGE, HUGE)
    store = Probe().fence().start(dither=False).store(PAGE_BASE).fence().stop()
    same = {PAGE_BASE: [region.address + (turn % 2) * SAME_TAG for turn in range(10)]}
    other = {PAGE_BASE: [region.address + PAGE * 8 + (turn % 2) * OTHER_TAG for turn in range(10)]}
    assert cycles(machine, store, same)[2:] == cycles(machine, store, other)[2:]
