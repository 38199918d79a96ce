"""The second TLB's entries from what spreading lines costs, where some of that is the first cache's doing."""

from __future__ import annotations

from typing import cast

import pytest

from setebench.hierarchy.second_tlb import second_table
from setebench.hierarchy.tlb import Pages, Table
from setebench.machine import Region
from setebench.scenario import Context

PENALTY, WALK, CROWDED_CYCLES = 25.0, 52.0, 0.5
FIRST = Table(entries=96, penalty=PENALTY, penalties=(PENALTY, PENALTY))


class Crowded(Pages):
    """Pages translated by a second TLB of 64 sets of 8 ways that replace their oldest; from so many lines on, by
    stride, some are crowded out of the first cache."""

    crowded_from: dict[int, int]

    def excess(self, count: int, stride: int) -> float:
        """See `Pages.excess`."""
        sets = max(1, 64 // stride)
        lines = [count // sets + (1 if number < count % sets else 0) for number in range(sets)]
        missing = sum(each for each in lines if each > 8)
        crowded = CROWDED_CYCLES if count > self.crowded_from.get(stride, count) else 0.0
        return PENALTY + crowded + WALK * missing / count


def crowded(**begins: int) -> Pages:
    region = Region(1 << 32, 64 << 20, 4096, 64)
    pages = Crowded(cast(Context, None), region, 4096, 409)
    pages.crowded_from = {int(stride[1:]): lines for stride, lines in begins.items()}
    return pages


@pytest.mark.parametrize("begins", [{}, {"x1": 290, "x2": 249}])
def test_a_step_that_a_larger_stride_confirms_tells_the_entries(begins: dict[str, int]) -> None:
    """At small strides, so with many lines, the curve rises too early; the last step is clean, and the pages that miss
    the first TLB don't fit at twice its stride."""
    found = second_table(crowded(**begins), FIRST)
    assert found.entries == 512


def test_lines_crowded_out_of_the_first_cache_are_no_step_that_is_confirmed() -> None:
    found = second_table(crowded(x1=290, x2=249, x4=121), FIRST)
    assert found.entries is None
