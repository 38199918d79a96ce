"""Sets of lines to walk over: distinct, balanced over cache sets, and walked in orders that miss none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setebench.machine import Region
from setebench.measure.layout import (
    BOX_LINES,
    DENSE,
    GROUP_PAGES,
    REPEATED_SHIFTS,
    SHIFT_LINES,
    TLB_PAGE_BYTES,
    WINDOW_PAGES,
    Layout,
    by_windows,
    group,
    group_bases,
    lay,
    lines_per_page,
    no_like_neighbours,
    repeated_bases,
    span_bytes,
)

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
def test_the_set_is_as_large_as_asked_to_a_page(size: float, seed: int) -> None:
    count = laid(size, seed).count
    assert 0 <= count - int(size / 64) < lines_per_page(64)
    assert span_bytes(size, 64) == count // lines_per_page(64) * TLB_PAGE_BYTES


@given(sizes, seeds)
def test_a_warmer_shares_its_page_but_no_box_with_a_line(size: float, seed: int) -> None:
    layout = laid(size, seed)
    assert (layout.lines // TLB_PAGE_BYTES == layout.warmers[:, None] // TLB_PAGE_BYTES).all()
    box_bytes = BOX_LINES * REGION.line_size
    assert not (layout.lines // box_bytes == layout.warmers[:, None] // box_bytes).any()


@given(sizes, seeds)
def test_a_box_holds_one_line(size: float, seed: int) -> None:
    boxes = laid(size, seed).lines // (BOX_LINES * REGION.line_size)
    assert len(np.unique(boxes)) == boxes.size


@pytest.mark.parametrize("seed", range(5))
def test_lines_use_all_sets_alike(seed: int) -> None:
    """64 sets, one per line of a page: over whole rounds of boxes and of lines in a box the use is level."""
    layout = laid(64 * 64 * 15, seed)
    used = np.bincount(layout.lines.ravel() // 64 % 64, minlength=64)
    assert used.sum() == 64 * 64 * 15 // 64
    assert used.max() <= 1.2 * used.mean() + 1
    assert used.min() >= 0.8 * used.mean() - 1


@pytest.mark.parametrize("line_size", [32, 64, 128])
def test_other_line_sizes(line_size: int) -> None:
    layout = laid(64 << 10, 1, Region(1 << 30, 4 << 20, 4096, line_size))
    assert len(np.unique(layout.lines // line_size)) == layout.count
    assert layout.lines.shape[1] == lines_per_page(line_size)


@given(sizes, seeds)
def test_an_order_is_a_permutation(size: float, seed: int) -> None:
    layout = laid(size, seed)
    order = by_windows(layout, np.random.default_rng(seed))
    assert (np.sort(order) == np.sort(layout.lines.ravel())).all()


@given(sizes, seeds)
def test_by_windows_finishes_its_pages_before_the_next(size: float, seed: int) -> None:
    order = by_windows(laid(size, seed), np.random.default_rng(seed)) // TLB_PAGE_BYTES
    window_lines = WINDOW_PAGES * lines_per_page(64)
    windows = [set(order[begin : begin + window_lines]) for begin in range(0, len(order), window_lines)]
    assert all(len(each) <= WINDOW_PAGES for each in windows)
    assert sum(len(each) for each in windows) == len(set(order))


def test_a_layout_follows_its_seed() -> None:
    assert (laid(64 << 10, 7).lines == laid(64 << 10, 7).lines).all()
    assert (laid(64 << 10, 7).lines != laid(64 << 10, 8).lines).any()


@given(seeds, st.sampled_from([32, 64, 128]))
def test_a_group_has_one_target_and_one_warmer_in_each_page(seed: int, line_size: int) -> None:
    one = group(np.random.default_rng(seed), line_size)
    targets, warmers = np.array(one.targets), np.array(one.warmers)
    assert sorted(targets // TLB_PAGE_BYTES) == list(range(GROUP_PAGES))
    assert (targets // TLB_PAGE_BYTES == warmers // TLB_PAGE_BYTES).all()
    assert ((targets | warmers) % line_size == 0).all()


@given(seeds, st.sampled_from([32, 64]))
def test_shifted_targets_and_warmers_stay_in_their_page_and_apart(seed: int, line_size: int) -> None:
    """Whatever the two shifts are: a TLB-warming line that were its target's neighbour would bring it along."""
    one = group(np.random.default_rng(seed), line_size)
    targets, warmers = (np.array(each) % TLB_PAGE_BYTES // line_size for each in (one.targets, one.warmers))
    furthest = SHIFT_LINES - 1
    assert (warmers + furthest < TLB_PAGE_BYTES // line_size).all()
    assert (warmers - (targets + furthest) >= 4).all()


@given(st.integers(0, 2**32))
def test_no_target_follows_one_of_the_same_line_of_another_page(seed: int) -> None:
    """A core takes longer for a miss into the first-level set of the miss before it."""
    line = np.array(group(np.random.default_rng(seed), 64).targets) % 4096
    assert (np.diff(line) == 0).sum() <= 1  # the last few may be all alike


def test_unlike_neighbours_keep_their_order_where_they_can() -> None:
    assert no_like_neighbours(np.array([0, 4096, 64, 128])).tolist() == [0, 2, 1, 3]
    assert no_like_neighbours(np.array([64, 0, 4160])).tolist() == [0, 1, 2]
    assert no_like_neighbours(np.array([0, 4096])).tolist() == [0, 1]
    assert no_like_neighbours(np.zeros(0, dtype=np.int64)).tolist() == []


@given(seeds, st.sampled_from([32, 64, 128]))
def test_targets_of_a_group_serve_each_line_of_a_page_alike_often(seed: int, line_size: int) -> None:
    """So all cache sets are used alike."""
    lines = np.array(group(np.random.default_rng(seed), line_size).targets) % TLB_PAGE_BYTES // line_size
    assert (np.bincount(lines, minlength=SHIFT_LINES) == GROUP_PAGES // SHIFT_LINES).all()


@given(seeds, st.integers(1, 300), st.integers(0, 1 << 20))
def test_group_bases_lie_in_the_region_behind_the_first_byte(seed: int, count: int, first_byte: int) -> None:
    size = GROUP_PAGES * TLB_PAGE_BYTES
    groups = []
    for bases in group_bases(REGION, first_byte, count, np.random.default_rng(seed)):
        assert bases.shape == (count,)
        offsets = bases - REGION.address
        assert (offsets >= first_byte).all()
        assert (offsets // size * size + size <= REGION.size).all()
        assert (offsets % size % REGION.line_size == 0).all()
        assert (offsets % size < SHIFT_LINES * REGION.line_size).all()
        groups.append(offsets // size)
    assert (groups[0] == groups[1]).all(), "a TLB-warming line lies in its target's group"


def test_shifts_of_targets_and_warmers_are_drawn_apart() -> None:
    bases, beside = group_bases(REGION, 0, 200, np.random.default_rng(1))
    assert len(np.unique(bases - beside)) > SHIFT_LINES


@given(seeds, st.integers(0, 1 << 20))
def test_repeated_groups_lie_behind_the_first_byte_in_few_pages(seed: int, first_byte: int) -> None:
    pages = 24
    targets, warmers = repeated_bases(REGION, first_byte, pages, np.random.default_rng(seed))
    assert len(set(targets.tolist())) == len(set(warmers.tolist())) == REPEATED_SHIFTS
    offsets = np.concatenate([targets, warmers]) - REGION.address
    assert (offsets >= first_byte).all() and (offsets + pages * TLB_PAGE_BYTES <= REGION.size).all()
    assert len(set((offsets // TLB_PAGE_BYTES).tolist())) == 1
    assert (offsets % TLB_PAGE_BYTES < SHIFT_LINES * REGION.line_size).all()


@given(seeds)
def test_a_dense_walk_uses_whole_pages_but_for_the_warmer(seed: int) -> None:
    layout = lay(REGION, 64 << 10, np.random.default_rng(seed), DENSE)
    for lines, warmer in zip(layout.lines, layout.warmers, strict=True):
        page = warmer // TLB_PAGE_BYTES * TLB_PAGE_BYTES
        assert {*lines.tolist(), int(warmer)} == set(range(page, page + TLB_PAGE_BYTES, REGION.line_size))
