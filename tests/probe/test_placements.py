"""Placement tables: one row per repetition, one column per base."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setebench.errors import ProbeError
from setebench.probe import Base, Probe, placement_table

A, B, UNUSED = Base("a"), Base("b"), Base("unused")
BOTH = Probe().load(A).load(B)
NONE = Probe().start().stop()


def test_columns_follow_the_probe_not_the_mapping() -> None:
    table = placement_table(BOTH, {B: [20, 21], A: [10, 11]})
    assert table.tolist() == [[10, 20], [11, 21]]
    assert table.dtype == np.int64
    assert table.flags.c_contiguous


@given(st.lists(st.tuples(st.integers(0, 2**47), st.integers(0, 2**47)), max_size=20))
def test_any_lists_come_back(pairs: list[tuple[int, int]]) -> None:
    table = placement_table(BOTH, {A: [a for a, _ in pairs], B: [b for _, b in pairs]})
    assert [tuple(row) for row in table.tolist()] == pairs


@pytest.mark.parametrize(
    ("probe", "placements", "message"),
    [
        (BOTH, 3, "no placement for a, b"),
        (BOTH, {A: [1]}, "no placement for b"),
        (BOTH, {}, "no placement for a, b"),
        (BOTH, {A: [1, 2], B: [1]}, r"placements differ in length: \[1, 2\]"),
        (NONE, {A: [1, 2], B: [1]}, "differ in length"),
        (NONE, -1, "repetitions"),
        (Probe().load(A), {A: [[1, 2], [3, 4]]}, "one address per repetition"),
        (Probe().load(A), {A: [2**63]}, "address"),
        (Probe().load(A), {A: [1.5]}, "address"),
    ],
)
def test_placements_that_make_no_sense(probe: Probe, placements: Any, message: str) -> None:
    with pytest.raises(ProbeError, match=message) as caught:
        placement_table(probe, placements)
    assert "\n" not in str(caught.value)
