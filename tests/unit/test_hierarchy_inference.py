"""What the hierarchy scenario infers from numbers alone: the line size."""

from __future__ import annotations

import pytest
from setebench.scenarios.hierarchy.line_size import line_from_means

DISTANCES = [0, 8, 16, 32, 64, 128, 256, 512]


@pytest.mark.parametrize("line", [16, 32, 64, 128, 256])
def test_the_line_ends_where_loads_begin_to_hit(line: int) -> None:
    assert line_from_means(DISTANCES, [300.0 if each < line else 40.0 for each in DISTANCES]) == line


def test_a_line_is_not_reported_where_hits_and_misses_are_not_clear() -> None:
    assert line_from_means(DISTANCES, [300, 300, 300, 180, 40, 40, 40, 40]) is None
    assert line_from_means(DISTANCES, [300, 300, 40, 300, 40, 40, 40, 40]) is None
    assert line_from_means(DISTANCES, [40.0] * 8) is None
