"""Sets of lines to walk over: distinct, balanced over cache sets, and walked in orders that miss none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setebench.experiments.lines.layout import (
    BOX_LINES,
    GROUP_PAGES,
    SHIFT_LINES,
    TLB_PAGE_BYTES,
    Layout,
    Spread,
    group,
    group_bases,
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


@given(seeds, st.sampled_from([32, 64, 128]))
def test_a_group_has_one_target_and_one_warmer_in_each_page(seed: int, line_size: int) -> None:
    one = group(np.random.default_rng(seed), line_size, Spread(GROUP_PAGES, 33))
    targets, warmers = np.array(one.targets), np.array(one.warmers)
    assert sorted(targets // TLB_PAGE_BYTES) == list(range(0, 33 * GROUP_PAGES, 33))
    assert (targets // TLB_PAGE_BYTES == warmers // TLB_PAGE_BYTES).all()
    assert ((targets | warmers) % line_size == 0).all()


@given(seeds, st.sampled_from([32, 64]))
def test_shifted_targets_and_warmers_stay_in_their_page_and_apart(seed: int, line_size: int) -> None:
    """Whatever the two shifts are: a TLB-warming line that were its target's neighbour would bring it along."""
    one = group(np.random.default_rng(seed), line_size, Spread(GROUP_PAGES, 1))
    targets, warmers = (np.array(each) % TLB_PAGE_BYTES // line_size for each in (one.targets, one.warmers))
    furthest = SHIFT_LINES - 1
    assert (warmers + furthest < TLB_PAGE_BYTES // line_size).all()
    assert (warmers - (targets + furthest) >= 4).all()


@given(seeds, st.integers(1, 5), st.integers(64 << 12, 40 << 20), st.integers(0, 1 << 20))
def test_groups_lie_in_their_memory_and_no_two_of_different_pages_share_a_line(
    seed: int, several: int, size: int, first: int
) -> None:
    region = Region(1 << 30, first + (several + 1) * size, TLB_PAGE_BYTES, 64)
    spread = Spread.within(size, several * GROUP_PAGES)
    assert spread.apart % 2
    rng = np.random.default_rng(seed)
    one, (bases, _) = group(rng, 64, spread), group_bases(region, first, 100, rng, spread)
    lines = bases[:, None] + np.array(one.targets)
    assert lines.min() >= region.address + first
    assert lines.max() < region.address + region.size
    pages = np.unique(bases // TLB_PAGE_BYTES)
    distinct = np.unique(lines // TLB_PAGE_BYTES)
    assert len(distinct) == len(pages) * spread.pages
