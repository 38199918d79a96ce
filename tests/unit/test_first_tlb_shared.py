"""The first TLB's entries while somebody else takes some of them for a while."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
import pytest

from setebench.hierarchy.tlb import Pages, Table, first_table, still
from setebench.machine import Region
from setebench.scenario import Context

ENTRIES, PENALTY = 72, 7.0


@dataclass
class Shared(Pages):
    """Pages translated by a table that replaces its oldest entry; `taken` tells how many of its entries somebody else
    has at the look of this number."""

    taken: Callable[[int], int] = lambda _look: 0
    looks: int = 0

    def excess(self, count: int, stride: int) -> float:
        """See `Pages.excess`."""
        self.looks += 1
        return PENALTY * (count > ENTRIES - self.taken(self.looks))


def shared(taken: Callable[[int], int]) -> Shared:
    return Shared(cast(Context, None), Region(1 << 32, 64 << 20, 4096, 64), 4096, 409, taken=taken)


@pytest.mark.parametrize("seed", range(8))
def test_entries_are_told_between_the_looks_that_somebody_disturbs(seed: int) -> None:
    """For 200 looks in 300 somebody takes up to twenty entries, now more, now fewer."""
    rng = np.random.default_rng(seed)
    begin = int(rng.integers(300))
    pages = shared(lambda look: int(rng.integers(0, 21)) if (begin + look) % 300 < 200 else 0)
    found = first_table(pages)
    assert (found.entries, found.penalty) == (ENTRIES, PENALTY)


def test_somebody_who_stays_leaves_a_bound() -> None:
    rng = np.random.default_rng(1)
    found = first_table(shared(lambda _look: int(rng.integers(5, 60))))
    assert found.entries is None
    assert 6 <= (found.at_least or 0) <= ENTRIES


def test_somebody_who_leaves_after_the_search_is_found_out() -> None:
    """So many entries taken all the while look like a smaller table."""
    pages = shared(lambda look: 13 if look < 400 else 0)
    found = first_table(pages)
    assert found.entries == 59
    pages.looks = 400
    found = still(pages, found)
    assert (found.entries, found.at_least, found.penalty) == (None, ENTRIES, None)


def test_what_is_told_of_no_entries_stays() -> None:
    table = Table(at_least=60, reason="busy")
    assert still(shared(lambda _look: 0), table) == table


def test_what_was_seen_to_fit_elsewhere_fits() -> None:
    """Later looks begin there, so that somebody who came meanwhile isn't taken for a smaller table."""
    pages = shared(lambda look: 13 if look % 40 < 30 else 0)
    assert first_table(pages, ENTRIES).entries == ENTRIES
    assert first_table(pages, 66).entries == ENTRIES


def test_a_later_moment_without_calm_takes_nothing_back() -> None:
    rng = np.random.default_rng(2)
    found = still(shared(lambda _look: int(rng.integers(10, 60))), Table(ENTRIES, penalty=PENALTY))
    assert found.entries == ENTRIES
