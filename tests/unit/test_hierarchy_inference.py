"""The line size from mean ticks of loads near a flushed line."""

from __future__ import annotations

import pytest

from setebench.calibration import DISTANCES, line_of


@pytest.mark.parametrize("line", [16, 32, 64, 128, 256])
def test_the_line_ends_where_loads_begin_to_hit(line: int) -> None:
    assert line_of([300.0 if each < line else 40.0 for each in DISTANCES]) == line


def test_a_line_is_not_reported_where_hits_and_misses_are_not_clear() -> None:
    assert line_of([300, 300, 300, 180, 40, 40, 40, 40]) == 0
    assert line_of([300, 300, 40, 300, 40, 40, 40, 40]) == 0
    assert line_of([40.0] * 8) == 0
