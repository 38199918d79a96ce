"""How many pages in a row a second TLB holds, from what they cost beside fewer pages of as many lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest

from setebench.hierarchy import pages_in_a_row
from setebench.hierarchy.pages_in_a_row import InARow, in_a_row
from setebench.hierarchy.tlb import Pages
from setebench.machine import Region
from setebench.scenario import Context

LEAST = 87
WALK = 50.0


class Quiet:
    """Nobody listens."""

    def progress(self, _what: str) -> None:
        """See `Context`."""


def row(monkeypatch: pytest.MonkeyPatch, excess: Callable[[int], float], most: int) -> InARow | None:
    """What is found where so many pages in a row cost so much."""
    monkeypatch.setattr(pages_in_a_row, "excess_in_a_row", lambda _pages, count, _least: excess(count))
    pages = Pages(cast(Context, Quiet()), Region(1 << 32, 192 << 20, 4096, 64), 4096, 409)
    return in_a_row(pages, LEAST, most)


def hashed(count: int) -> float:
    """3072 entries of a Zen 4 guest, whose first sets are full at three quarters of that."""
    return float(np.interp(count, (2000, 2200, 2300, 2400, 2600, 3000, 3500, 5000), (0.1, 0.5, 1.2, 6, 13, 21, 28, 47)))


def oldest(count: int) -> float:
    """1024 entries, 8 ways that replace their oldest."""
    over = min(max(count - 1024, 0), 128)
    return WALK * min(1.0, over * 9 / count)


@pytest.mark.parametrize("most", [6000, 3000, 2600])
def test_what_fits_is_told_where_the_second_cache_has_no_room_for_pages_that_all_miss(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """It was forgotten where twice the first pages that miss are more than that cache holds."""
    found = row(monkeypatch, hashed, most)
    assert found is not None
    assert found.found
    assert 2000 < found.fits.low <= 2304
    assert found.fits.high is None


@pytest.mark.parametrize("most", [1300, 2000, 4000])
def test_a_table_that_replaces_its_oldest_entries_is_bounded(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    found = row(monkeypatch, oldest, most)
    assert found is not None
    assert found.found
    assert 950 < found.fits.low <= 1024
    assert found.fits.high is None or found.fits.high > 1024
    assert (found.fits.high is not None) == (most == 4000)


@pytest.mark.parametrize("entries", [300, 517, 1024, 1337])
@pytest.mark.parametrize("further", [1.0, 10.0])
def test_walks_that_cost_more_further_on_make_no_table_larger(
    monkeypatch: pytest.MonkeyPatch, entries: int, further: float
) -> None:
    """Of a table that replaces at random, asked for in turn; a miss costs 10 cycles at its end, then up to ten times
    that, as the tables that are walked leave the caches."""

    def excess(count: int) -> float:
        # of a page's round with m misses, (1 - 1/entries)^m is how likely it still is there at its end
        missing = 0.0
        for _ in range(200):
            missing = 1.0 - (1.0 - 1.0 / entries) ** (missing * count) if count > entries else 0.0
            missing = max(missing, 1.0 - entries / count)
        return missing * min(10.0 * (1.0 + (further - 1.0) * max(count / entries - 1.0, 0.0)), 10.0 * further)

    found = row(monkeypatch, excess, 8 * entries)
    assert found is not None
    assert 0.7 * entries < found.fits.low <= entries


def test_no_step_is_no_table_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    found = row(monkeypatch, lambda _count: 0.0, 3000)
    assert found is not None
    assert not found.found
    assert found.fits.low <= 3000
    assert row(monkeypatch, lambda _count: 0.0, LEAST) is None
    assert row(monkeypatch, lambda _count: WALK, 3000) is None
