"""Sets of lines to walk over: distinct, balanced over cache sets, and walked in orders that miss none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setebench.experiments.lines.layout import (
    BOX_LINES,
    TLB_PAGE_BYTES,
    Layout,
    lay,
)
from setebench.machine import Region

REGION = Region(1 << 30, 4 << 20, 4096)


def laid(size: float, seed: int, region: Region = REGION) -> Layout:
    return lay(region, size, np.random.default_rng(seed))


sizes = st.floats(64, 900 << 10)
seeds = st.integers(0, 1000)


@given(sizes, seeds)
def test_lines_are_distinct_and_lie_in_the_region(size: float, seed: int) -> None:
    layout = laid(size, seed)
    lines = layout.lines.ravel()
    assert len(np.unique(lines)) == len(lines) == layout.count
    assert ((lines >= REGION.address) & (lines < REGION.address + REGION.size)).all()
    assert (lines % REGION.line_size == 0).all()


@given(sizes, seeds)
def test_a_warmer_shares_its_page_but_no_box_with_a_line(size: float, seed: int) -> None:
    layout = laid(size, seed)
    assert (layout.lines // TLB_PAGE_BYTES == layout.warmers[:, None] // TLB_PAGE_BYTES).all()
    box_bytes = BOX_LINES * REGION.line_size
    assert not (layout.lines // box_bytes == layout.warmers[:, None] // box_bytes).any()


@pytest.mark.parametrize("seed", range(5))
def test_lines_use_all_sets_alike(seed: int) -> None:
    """64 sets, one per line of a page: over whole rounds of boxes and of lines in a box the use is level."""
    layout = laid(64 * 64 * 15, seed)
    used = np.bincount(layout.lines.ravel() // 64 % 64, minlength=64)
    assert used.sum() == 64 * 64 * 15 // 64
    assert used.max() <= 1.2 * used.mean() + 1
    assert used.min() >= 0.8 * used.mean() - 1
