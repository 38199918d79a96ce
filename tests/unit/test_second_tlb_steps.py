"""The second TLB's entries from what spreading lines costs, where some of that is the first cache's doing."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from setebench.hierarchy import second_tlb
from setebench.hierarchy.pages_in_a_row import InARow
from setebench.hierarchy.second_tlb import second_table
from setebench.hierarchy.tlb import Pages, Table
from setebench.infer.table_sets import Fits
from setebench.machine import Region
from setebench.scenario import Context

PENALTY, WALK = 25.0, 52.0
FEWEST = 116
"""Pages that a search begins with: a fifth more than fit the first TLB."""
FIRST = Table(entries=96, penalty=PENALTY, penalties=(PENALTY, PENALTY))


class Crowded(Pages):
    """Pages translated by a second TLB of so many `sets` of 8 ways that replace their oldest; from so many lines on, by
    stride, some are crowded out of the first cache, which costs so much."""

    crowded_from: dict[int, int]
    crowded_cycles = 0.5
    sets = 64

    def excess(self, count: int, stride: int) -> float:
        """See `Pages.excess`."""
        sets = max(1, self.sets // stride)
        lines = [count // sets + (1 if number < count % sets else 0) for number in range(sets)]
        missing = sum(each for each in lines if each > 8)
        crowded = self.crowded_cycles if count > self.crowded_from.get(stride, count) else 0.0
        return PENALTY + crowded + WALK * missing / count


def crowded(**begins: int) -> Crowded:
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


@pytest.mark.parametrize("full", [256, 257])
def test_a_first_cache_full_of_as_many_lines_at_every_stride_hides_no_tlb_that_larger_strides_show(full: int) -> None:
    """Each line brings its next along, so 256 fill a cache of 512: at strides of 1 to 4 no more lines fit than that,
    at 8 as many pages as well, at 16 half as many. One line more at small strides, and only a table of four sets of 256
    ways would explain the others."""
    pages = crowded(x1=full, x2=full, x4=256, x8=256)
    pages.sets, pages.crowded_cycles = 256, 9.0
    assert second_table(pages, FIRST).entries == 2048


def test_a_walk_s_cost_that_crowded_lines_blur_is_told_at_a_larger_stride() -> None:
    """At a stride of 16, 257 lines cost more than 205 do; at 32 fewer lines miss altogether, and cost the same."""
    pages = crowded(x16=210)
    pages.sets, pages.crowded_cycles = 256, 9.0
    found = second_table(pages, FIRST)
    assert found.entries == 2048
    assert found.penalty == pytest.approx(PENALTY + WALK)


class Uneven(Crowded):
    """The same, where the fourth and the fifth ring of the fewest pages at a stride of two happen to lie badly."""

    rings_of_the_fewest = 0

    def excess(self, count: int, stride: int) -> float:
        """See `Pages.excess`."""
        self.rings_of_the_fewest += (count, stride) == (FEWEST, 2)
        badly = (count, stride) == (FEWEST, 2) and self.rings_of_the_fewest in (4, 5)
        return super().excess(count, stride) + 0.3 * badly


def test_two_rings_that_happen_to_lie_badly_do_not_end_the_search() -> None:
    """The second TLB for large pages of a Zen 4 guest was told by its pages in a row alone, 398 of 3072, for that."""
    pages = Uneven(cast(Context, None), Region(1 << 32, 64 << 20, 4096, 64), 4096, 409)
    pages.crowded_from = {}
    assert second_table(pages, FIRST).entries == 512


class Hashed(Crowded):
    """A second TLB of 3072 entries whose first sets are full at three quarters of that, as a Zen 4 guest showed it:
    cycles by how many pages a stride spans. At some strides others' pages make so many fewer fit."""

    SPANS = (2304, 2400, 2560, 2720, 2880, 3040, 3200, 3520, 4160, 4800)
    WALKS = (0.0, 2.3, 5.7, 5.5, 6.9, 11.5, 15.9, 25.9, 41.2, 60.0)
    taken: dict[int, int]

    def excess(self, count: int, stride: int) -> float:
        """See `Pages.excess`."""
        others = self.taken.get(stride, 0)
        span = count * stride + others * stride
        if count <= FIRST_ENTRIES:
            return 0.0
        return PENALTY + (span > 2304) + float(np.interp(span, self.SPANS, self.WALKS))


FIRST_ENTRIES = 72


IN_A_ROW = InARow(Fits(1, 2100, None), found=True, spills=2600)


def hashed(monkeypatch: pytest.MonkeyPatch, row: InARow | None, **taken: int) -> Table:
    """What is told beside so many pages in a row."""
    monkeypatch.setattr(second_tlb, "in_a_row", lambda *_: row)
    pages = Hashed(cast(Context, None), Region(1 << 32, 64 << 20, 4096, 64), 4096, 409)
    pages.taken = {int(stride[1:]): others for stride, others in taken.items()}
    return second_table(pages, Table(entries=FIRST_ENTRIES, penalty=PENALTY, penalties=(PENALTY, PENALTY)))


@pytest.mark.parametrize(("row", "at_least"), [(IN_A_ROW, 2304), (None, 398)])
def test_the_first_full_sets_of_a_hashed_index_tell_no_entries(
    row: InARow | None, at_least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both strides tell 2304 to the page, three quarters of the table: a quarter more pages should all miss. Only as
    many pages in a row confirm that the stride may be multiplied by."""
    found = hashed(monkeypatch, row)
    assert found.entries is None
    assert found.at_least == at_least
    assert found.penalties == ()


def test_strides_that_tell_more_than_pages_in_a_row_are_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    row = InARow(Fits(1, 1000, None), found=True, spills=1200)
    found = hashed(monkeypatch, row)
    assert found.entries is None
    assert found.at_least == 975


def test_no_number_is_surely_held_where_pages_in_a_row_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strides that contradict each other, and no end: there may be no second TLB, whose walks all cost the same."""
    found = hashed(monkeypatch, InARow(Fits(1, 3000, None), found=False), x16=30)
    assert found.entries is None
    assert found.doubtful


@pytest.mark.parametrize("taken", [{"x8": 9}, {"x8": 6, "x16": 1}, {"x16": 3}])
def test_strides_that_almost_tell_one_size_bound_it(taken: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A page more of others' at one stride, and no table explains both: 398 of 3072 was all that was told."""
    found = hashed(monkeypatch, IN_A_ROW, **taken)
    assert found.entries is None
    assert found.at_least is not None
    assert 2200 <= found.at_least <= 2304


class Random(Crowded):
    """A table of sets of four ways that replaces at random: a quarter more pages than fit miss 0.45 of what far more
    do."""

    def excess(self, count: int, stride: int) -> float:
        """See `Pages.excess`."""
        if count <= FIRST_ENTRIES:
            return 0.0
        over = count * stride / 512
        return PENALTY + WALK * float(np.interp(over, (1.0, 1.05, 1.25, 1.6, 2.0), (0.0, 0.05, 0.37, 0.66, 0.81)))


def test_random_replacement_is_no_hashed_index() -> None:
    pages = Random(cast(Context, None), Region(1 << 32, 64 << 20, 4096, 64), 4096, 409)
    found = second_table(pages, Table(entries=FIRST_ENTRIES, penalty=PENALTY, penalties=(PENALTY, PENALTY)))
    assert found.entries == 512 or "hashed" not in found.reason


def test_almost_as_many_pages_at_every_stride_are_not_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    """256 pages at strides of 8 and 16, 252 at 32: lines that crowd the first cache, not a table of 2048."""
    monkeypatch.setattr(second_tlb, "in_a_row", lambda *_: InARow(Fits(1, 6000, None), found=True, spills=9000))
    steps = [second_tlb._Step(Fits(8, 255, 256), (40.0,)), second_tlb._Step(Fits(16, 252, 253), (40.0,))]
    assert second_tlb._blurred(steps, [each.fits for each in steps], 9000) == 0
