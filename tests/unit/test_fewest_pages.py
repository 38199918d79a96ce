"""Which pages are needed to overfill sets, and which share sets, with caches made up of pages of known classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from setebench.measure.crowded import Crowd
from setebench.measure.overflow import Crossed, critical, crossed, fewest_pages
from setebench.measure.together import BESIDE, Together
from setebench.measure.trials import Trials

WAYS = 8
PAGE, LINE = 4096, 64
OFFSETS = np.arange(63) * LINE
Lines = NDArray[np.int64]


def fewest_lost(lines: int) -> int:
    """Random replacement: as many as are too many."""
    return max(lines - WAYS, 0)


def whole_set(lines: int) -> int:
    """The oldest goes first: each that is missing pushes out the next."""
    return lines if lines > WAYS else 0


@dataclass
class Sets:
    """Trials with a cache in which each of `classes` of pages has 64 sets of `WAYS` ways; of missing lines so many are
    `seen`, as prefetchers bring the others; so many trials of 100 have a `stray` line. Each takes one of `left`."""

    classes: int
    lost: Callable[[int], int] = fewest_lost
    seen: float = 1.0
    stray: int = 0
    left: int = 100_000
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))
    absent: object = field(default_factory=lambda: type("Absent", (), {"free": 63}))

    @property
    def spent(self) -> bool:
        """See `Trials.spent`."""
        return self.left < 0

    def gone(self, lines: Lines, probed: Lines | None = None, _ballast: Lines | None = None) -> NDArray[np.bool_]:
        """See `Trials.gone`."""
        self.left -= 1
        probed = lines if probed is None else probed
        own = self._set(lines)
        number = np.bincount(own, minlength=64 * self.classes)
        share = np.array([self.lost(each) / max(each, 1) for each in number])[self._set(probed)]
        gone: NDArray[np.bool_] = self.rng.random(len(probed)) < self.seen * share
        if self.rng.integers(100) < self.stray:
            gone[self.rng.integers(len(probed))] = True
        return gone

    def missing(self, lines: Lines, _ballast: Lines | None = None) -> int:
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


@pytest.mark.parametrize("lost", [fewest_lost, whole_set])
@pytest.mark.parametrize(("seen", "stray"), [(1.0, 0), (1.0, 80), (0.06, 0)])
def test_one_page_more_than_ways_are_needed(lost: Callable[[int], int], seen: float, stray: int) -> None:
    """Whatever replacement and prefetchers make of the number of missing lines."""
    sets = Sets(20, lost, seen, stray)
    mixed = np.concatenate([pages_of(20, 12)[::20], pages_of(20, 3)[1::20]])
    found = fewest_pages(trials(sets), mixed, OFFSETS)
    assert found is not None
    assert len(found) == WAYS + 1
    assert set(found // PAGE % 20) == {0}


def test_pages_that_overfill_nothing_are_soon_given_up() -> None:
    sets = Sets(20, stray=80)
    assert fewest_pages(trials(sets), pages_of(20, 8), OFFSETS) is None
    assert sets.left > 100_000 - 30


def test_none_where_loads_run_out() -> None:
    sets = Sets(20, left=5)
    assert fewest_pages(trials(sets), pages_of(20, 12)[::20], OFFSETS) is None
    assert sets.spent


@pytest.mark.parametrize("more", [0, 1])
def test_a_page_too_many_is_not_critical(more: int) -> None:
    pages = pages_of(1, WAYS + 1 + more)
    found = Crossed([page + OFFSETS for page in pages], 5.0)
    assert critical(trials(Sets(1)), found) is not bool(more)


@pytest.mark.parametrize(("seen", "lines"), [(1.0, 16), (0.06, 63)])
def test_pages_are_cut_down_where_that_leaves_enough(seen: float, lines: int) -> None:
    found = crossed(trials(Sets(1, seen=seen)), pages_of(1, WAYS + 1), OFFSETS)
    assert found is not None
    assert found.ways == WAYS
    assert max(len(each) for each in found.lines) == lines


@pytest.mark.parametrize("lost", [fewest_lost, whole_set])
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
