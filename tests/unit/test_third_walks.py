"""What walks say of a third cache: more is timed where they disagree; the walks themselves are replaced."""

from __future__ import annotations

import pytest

from setebench.hierarchy.capacities import MORE_STOPS, Capacities
from setebench.infer.residence import Held
from setebench.infer.ticks import Estimate

APART = Held(Estimate(267440.0, 252000.0, 283000.0), False, 8)
AGREED = Held(Estimate(259000.0, 248000.0, 285000.0), True, 8)
BLUNT = Held(Estimate(265000.0, 245000.0, 300000.0), False, 1, blunt=True)


@pytest.mark.parametrize(
    ("few", "many", "expected"),
    [
        (AGREED, None, AGREED),
        (APART, AGREED, AGREED),
        (APART, BLUNT, BLUNT),
        (APART, APART, APART),
        (APART, None, APART),
        (None, AGREED, None),
    ],
)
def test_walks_that_disagree_take_more_stops(
    monkeypatch: pytest.MonkeyPatch, few: Held | None, many: Held | None, expected: Held | None
) -> None:
    def told(_self: Capacities, _second_lines: float, stops: int) -> Held | None:
        return many if stops == MORE_STOPS else few

    monkeypatch.setattr(Capacities, "_third", told)
    capacities = Capacities.__new__(Capacities)
    capacities._cycles, capacities._first = [4.0, 14.0, 46.0, 300.0], 512
    assert capacities.third(8192.0) == expected
