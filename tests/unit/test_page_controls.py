"""A first cache that guesses ways takes pairs of pages for each other; such a page is no control."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from setebench.hierarchy import page_inclusion
from setebench.hierarchy.page_inclusion import page_in_use
from setebench.hierarchy.page_sets import PageGroup
from setebench.infer.page_inclusion import included
from setebench.infer.page_sets import Group

FIRST, SECOND, BEHIND, LINES = 4.0, 14.0, 50.0, 64
GROUP = PageGroup(np.arange(9), np.arange(100, 120), Group(9, 70.0, 2.0))
TAKEN_FOR_ANOTHER = (100, 101, 103)


class Room:
    """All that is asked of it where readings are made up."""

    page_lines = LINES


def passing(_context: object, _room: object, used: int, others: Any) -> tuple[float, float]:
    """An inclusive second cache takes 50 lines a round out; the lines of some pages are lost to one of the others."""
    lost = 50.0 * (BEHIND - FIRST) / len(others) if used < 9 and len(others) else 0.0
    taken = (LINES - 1) * (SECOND - FIRST) / 4 if used in TAKEN_FOR_ANOTHER and len(others) else 0.0
    return FIRST * (LINES - 1) + lost + taken, SECOND * (LINES - 1)


def alone(_context: object, _room: object, used: int, others: Any) -> tuple[float, float]:
    """Nothing is included; the last page of the group is taken for one of the others."""
    taken = (LINES - 1) * (SECOND - FIRST) / len(others) if used == 8 and len(others) else 0.0
    return FIRST * (LINES - 1) + taken, SECOND * (LINES - 1)


def test_losses_of_a_page_that_is_taken_for_another_are_no_inclusion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_inclusion, "_passing", alone)
    nobody: Any = None
    room: Any = Room()
    found = page_in_use(nobody, room, GROUP, [FIRST, SECOND, BEHIND])
    assert found.lost == 0.0
    assert included([found] * 3) == (False, "")


def test_a_page_that_is_taken_for_another_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the first page at hand as control, runs on a Zen 4 now and then left inclusion open."""
    monkeypatch.setattr(page_inclusion, "_passing", passing)
    nobody: Any = None
    room: Any = Room()
    found = page_in_use(nobody, room, GROUP, [FIRST, SECOND, BEHIND])
    assert found.unkept == 0.0
    assert found.lost == pytest.approx(50.0)
    assert included([found] * 3) == (True, "")
