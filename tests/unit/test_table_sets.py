"""Entries of a table from the pages that fit at several strides, for every way to choose sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from setebench.infer.table_sets import Fits, held_together, may_be_folded, shapes

Index = Callable[[NDArray[np.int64], int], NDArray[np.int64]]


def plain(page: NDArray[np.int64], sets: int) -> NDArray[np.int64]:
    return page % sets


def folded(page: NDArray[np.int64], sets: int) -> NDArray[np.int64]:
    """Intel's second TLBs: the next bits above the index are folded into it."""
    return (page ^ page >> (sets.bit_length() - 1)) % sets


@dataclass
class Model:
    """A table that replaces the oldest entries, asked for with few or many pages."""

    entries: int
    ways: int
    index: Index

    def fits(self, stride: int, most: int) -> Fits:
        pages = np.arange(most + 1, dtype=np.int64) * stride
        for count in range(1, most + 1):
            if np.bincount(self.index(pages[:count], self.entries // self.ways)).max() > self.ways:
                return Fits(stride, count - 1, count)
        return Fits(stride, most, None)


FEW_SETS = [(128, 128), (96, 96), (128, 64), (256, 32)]
SHAPES = [(512, 4), (640, 5), (1536, 12), (2048, 16), (3072, 24), (4096, 16)]


@pytest.mark.parametrize(
    ("entries", "ways", "index"),
    [(*each, plain) for each in FEW_SETS + SHAPES] + [(*each, folded) for each in SHAPES],
)
@pytest.mark.parametrize("most", [200, 400, 700])
def test_a_value_is_only_told_where_it_is_true(entries: int, ways: int, most: int, index: Index) -> None:
    table = Model(entries, ways, index)
    seen = [table.fits(stride, most) for stride in (1, 2, 4, 8, 16, 32)]
    found = shapes(seen)
    assert found is not None or index is folded
    if found is not None:
        assert found.low <= entries
        assert found.high is None or found.high >= entries
        assert found.value in (entries, None)
    if index is plain and 32 * most > entries:
        assert found is not None
        assert found.value == entries


def test_a_table_that_no_stride_takes_sets_from_is_fully_associative_or_folded() -> None:
    found = shapes([Fits(1, 128, 129), Fits(2, 128, 129)])
    assert found is not None
    assert found.value == 128


def test_one_step_at_a_stride_is_not_one_of_all_pages_where_smaller_ones_were_not_tried() -> None:
    """One set of 128 ways, or 16 of 8, or anything between, would show at a stride of 16 what was seen there."""
    found = shapes([Fits(16, 128, 129)])
    assert found is not None
    assert found.value is None
    assert (found.low, found.high) == (128, 2048)


def test_blurred_steps_bound() -> None:
    found = shapes([Fits(2, 300, None), Fits(4, 180, 200), Fits(8, 92, 99)])
    assert found is not None
    assert found.value is None
    assert found.low <= 768
    assert found.high is not None
    assert found.high >= 768


def test_numbers_that_no_table_explains() -> None:
    assert (
        shapes([Fits(1, 400, None), Fits(2, 323, 324), Fits(4, 182, 183), Fits(8, 102, 103), Fits(16, 102, 103)])
        is None
    )


def test_a_step_at_a_large_stride_may_be_a_folded_table_s() -> None:
    """1024 entries of 8 ways: at 256 pages half of the sets are left, as if there were 131,072 entries."""
    table = Model(1024, 8, folded)
    seen = [table.fits(stride, 600) for stride in (1, 2, 4, 8, 16, 32, 64, 128, 256)]
    assert may_be_folded(seen)
    large = Model(131072, 8, plain)
    seen = [large.fits(stride, 600) for stride in (1, 2, 4, 8, 16, 32, 64, 128, 256)]
    assert may_be_folded(seen)
    assert not may_be_folded([*seen, Fits(1, 2100, None)])


def test_a_step_that_comes_a_little_early_at_one_stride_leaves_a_bound_but_no_value() -> None:
    seen = [Fits(4, 409, None), Fits(8, 277, 278), Fits(16, 144, 145)]
    assert shapes(seen) is None
    found = shapes(seen, 0.1)
    assert found is not None
    assert (found.value, found.low) == (None, 2304)
    assert shapes([Fits(4, 409, None), Fits(8, 228, 229), Fits(16, 144, 145)], 0.1) is None


@pytest.mark.parametrize("entries", [512, 1024, 2048])
@pytest.mark.parametrize("most", [200, 400, 700])
def test_a_folded_index_is_no_step_that_comes_early(entries: int, most: int) -> None:
    """Whatever strides were tried last."""
    table = Model(entries, 4, folded)
    seen = [table.fits(stride, most) for stride in (1, 2, 4, 8, 16, 32)]
    for tried in range(2, 7):
        found = shapes(seen[:tried], 0.1)
        assert found is None or found.low <= entries


def test_pages_that_hit_are_held_together() -> None:
    assert held_together(1000, 0.0, 50.0) == 1000
    assert held_together(1000, -0.3, 50.0) == 1000  # the control was slow
    assert held_together(1000, 10.0, 50.0) == 800
    assert held_together(1000, 60.0, 50.0) == 0
