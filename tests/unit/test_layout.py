"""Working sets: lines are distinct, use all sets alike, and are loaded few at a time of any box and page."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from setebench.experiments.lines.layout import (
    BOX_LINES,
    LINES_AT_ONCE,
    TLB_PAGE_BYTES,
    WINDOW_PAGES,
    Layout,
    lay,
    span_bytes,
)
from setebench.machine import Region

REGION = Region(1 << 30, 4 << 20, 4096)


def laid(size: float, seed: int, region: Region = REGION) -> Layout:
    return lay(region, size, np.random.default_rng(seed))


sizes = st.floats(4096, 900 << 10)
seeds = st.integers(0, 1000)


@given(sizes, seeds)
def test_lines_are_distinct_and_lie_in_the_region(size: float, seed: int) -> None:
    order = laid(size, seed).order
    assert len(np.unique(order)) == len(order)
    assert ((order >= REGION.address) & (order < REGION.address + REGION.size)).all()
    assert (order % REGION.line_size == 0).all()


@given(sizes, seeds)
def test_pages_are_used_nearly_whole(size: float, seed: int) -> None:
    """What a prefetcher brings of a page is no other data."""
    layout = laid(size, seed)
    _, used = np.unique(layout.order // TLB_PAGE_BYTES, return_counts=True)
    assert (used >= 0.9 * TLB_PAGE_BYTES / REGION.line_size).all()
    assert len(used) * TLB_PAGE_BYTES <= span_bytes(size, REGION.line_size)


@given(sizes, seeds)
def test_a_window_has_few_lines_of_each_page_and_one_of_a_box(size: float, seed: int) -> None:
    layout = laid(size, seed)
    for window in np.concatenate([layout.warmers, layout.lines], axis=1):
        _, of_page = np.unique(window // TLB_PAGE_BYTES, return_counts=True)
        assert len(of_page) <= WINDOW_PAGES
        assert (of_page == LINES_AT_ONCE).all()
        assert len(np.unique(window // (BOX_LINES * REGION.line_size))) == len(window)
