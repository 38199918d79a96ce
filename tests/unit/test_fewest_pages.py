"""Which pages are needed to overfill sets, and which share sets, with caches made up of pages of known classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from setebench.measure.crowded import Crowd
from setebench.measure.overflow import PROBED_PER_PAGE, Looks, critical, crossed, fewest_pages, looks_at
from setebench.measure.together import BESIDE, Together
from setebench.measure.trials import Trials

WAYS = 8
PAGE, LINE = 4096, 64
OFFSETS = np.arange(63) * LINE
Lines = NDArray[np.int64]


def fewest_lost(lines: int) -> int:
    """Random replacement: as many as are too many."""
    return max(lines - WAYS, 0)


def chained(lines: int) -> int:
    """The oldest goes first: each that is missing pushes out others before they are looked at."""
    return min(3 * max(lines - WAYS, 0), lines)


@dataclass
class Sets:
    """Trials with a cache in which each of `classes` of pages has 64 sets of `WAYS` ways, of which so large a share has
    one `taken` by somebody else. Of the missing lines of a page only the first few are `seen`, as prefetchers then
    bring the others; so many trials of 100 have a `stray` line. Each takes one of `left`."""

    classes: int
    lost: Callable[[int], int] = fewest_lost
    seen: int = 64
    stray: int = 0
    taken: float = 0.0
    left: int = 100_000
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))
    absent: object = field(default_factory=lambda: type("Absent", (), {"free": 63}))

    @property
    def spent(self) -> bool:
        """See `Trials.spent`."""
        return self.left < 0

    def gone(self, lines: Lines, probed: Lines | None = None, *_: Lines | None) -> NDArray[np.bool_]:
        """See `Trials.gone`."""
        self.left -= 1
        probed = lines if probed is None else probed
        number = np.bincount(self._set(lines), minlength=64 * self.classes)
        more = np.random.default_rng(7).random(len(number)) < self.taken
        share = np.array([self.lost(each) / max(each, 1) for each in (number + more * (number > 0)).tolist()])
        gone: NDArray[np.bool_] = self.rng.random(len(probed)) < share[self._set(probed)]
        for page in np.unique(probed // PAGE):
            own = np.flatnonzero(probed // PAGE == page)
            # the first of a page that is missing brings most of it
            gone[own] &= np.cumsum(gone[own]) <= self.seen
        if self.rng.integers(100) < self.stray:
            gone[self.rng.integers(len(probed))] = True
        return gone

    def missing(self, lines: Lines) -> int:
        """See `Trials.missing`."""
        return int(self.gone(lines).sum())

    def _set(self, lines: Lines) -> Lines:
        number = lines // PAGE
        # halves and quarters of pages are turned round, as an index does that page bits are mixed into
        return number % self.classes * 64 + (lines // LINE % 64 ^ number * 16 % 64)


def pages_of(classes: int, each: int) -> Lines:
    return np.arange(classes * each) * PAGE


def trials(sets: Sets) -> Trials:
    return cast(Trials, sets)


def lines_of(pages: Lines) -> list[Lines]:
    return list(pages[:, None] + OFFSETS)


@pytest.mark.parametrize("lost", [fewest_lost, chained])
@pytest.mark.parametrize(
    "disturbed", [{}, {"stray": 80}, {"seen": 1}, {"taken": 0.05}, {"taken": 0.15}, {"taken": 0.1, "seen": 1}]
)
def test_one_page_more_than_ways_are_needed(lost: Callable[[int], int], disturbed: dict[str, Any]) -> None:
    """Whatever replacement and prefetchers make of the number of missing lines, and though some ways are taken."""
    sets = trials(Sets(20, lost, **disturbed))
    mixed = np.concatenate([pages_of(20, 12)[::20], pages_of(20, 3)[1::20]])
    looks = looks_at(sets, lines_of(mixed))
    found = fewest_pages(looks, mixed, OFFSETS)
    assert found is not None
    assert len(found) == WAYS + 1
    assert set(found // PAGE % 20) == {0}
    assert critical(looks, lines_of(found)) is not None


@pytest.mark.parametrize("lost", [fewest_lost, chained])
@pytest.mark.parametrize("seen", [64, 1])
def test_ways_that_are_taken_are_not_told_as_missing(lost: Callable[[int], int], seen: int) -> None:
    """Rather nothing is told, where somebody else uses a way of one set in seven."""
    for taken in (0.1, 0.15):
        for number in range(4):
            sets = trials(Sets(20, lost, seen, taken=taken, rng=np.random.default_rng(number)))
            pages = pages_of(20, 12)[number::20]
            looks = looks_at(sets, lines_of(pages))
            found = fewest_pages(looks, pages, OFFSETS)
            one = None if found is None else crossed(looks, found, OFFSETS)
            assert one is None or one.ways == WAYS


def test_few_lines_are_looked_at_where_prefetchers_bring_the_others() -> None:
    pages = lines_of(pages_of(1, WAYS + 3))
    assert looks_at(trials(Sets(1)), pages).per_page == PROBED_PER_PAGE[0]
    assert looks_at(trials(Sets(1, chained, seen=1)), pages).per_page == PROBED_PER_PAGE[-1]


def test_pages_that_overfill_nothing_are_soon_given_up() -> None:
    sets = Sets(20, stray=80)
    assert fewest_pages(Looks(trials(sets), 12), pages_of(20, 8), OFFSETS) is None
    assert sets.left > 100_000 - 30


def test_none_where_loads_run_out() -> None:
    sets = Sets(20, left=5)
    assert fewest_pages(Looks(trials(sets), 12), pages_of(20, 12)[::20], OFFSETS) is None
    assert sets.spent


@pytest.mark.parametrize("per_page", PROBED_PER_PAGE)
@pytest.mark.parametrize("lost", [fewest_lost, chained])
def test_a_page_too_many_is_not_critical(per_page: int, lost: Callable[[int], int]) -> None:
    looks = Looks(trials(Sets(1, lost, seen=2)), per_page)
    assert critical(looks, lines_of(pages_of(1, WAYS + 1))) is not None
    assert critical(looks, lines_of(pages_of(1, WAYS + 2))) is None


@pytest.mark.parametrize(("seen", "lines"), [(64, 16), (1, 63)])
def test_pages_are_cut_down_where_that_leaves_enough(seen: int, lines: int) -> None:
    sets = trials(Sets(1, seen=seen))
    found = crossed(looks_at(sets, lines_of(pages_of(1, WAYS + 1))), pages_of(1, WAYS + 1), OFFSETS)
    assert found is not None
    assert found.ways == WAYS
    assert max(len(each) for each in found.lines) == lines


@pytest.mark.parametrize("lost", [fewest_lost, chained])
def test_pages_that_miss_together_share_sets(lost: Callable[[int], int]) -> None:
    pages = np.concatenate([pages_of(10, 9), pages_of(10, 11)[90:92]])
    crowd = Crowd(pages, pages[:0], np.ones((len(pages), 64), dtype=np.bool_))
    together = Together(trials(Sets(10, lost)), crowd)
    groups = [pages[group] // PAGE % 10 for _, group in zip(range(8), together.groups(np.arange(92)), strict=False)]
    whole = [np.bincount(each) for each in groups]
    assert all(each.max() > WAYS and each.sum() <= each.max() + BESIDE for each in whole)
    assert len({int(each.argmax()) for each in whole}) == 8


def test_no_groups_where_all_pages_overfill_nothing() -> None:
    pages = pages_of(10, 8)
    sets = Sets(10)
    together = Together(trials(sets), Crowd(pages, pages[:0], np.ones((80, 64), dtype=np.bool_)))
    assert not list(together.groups(np.arange(80)))
    assert sets.left > 100_000 - 5
