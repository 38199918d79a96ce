"""How long sets of a third cache are searched for, and where; the searching itself is replaced."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import numpy as np
import pytest

from setebench.hierarchy import third_sets as module
from setebench.machine import Region
from setebench.measure.crowded import LEAST_PAGES, Crowd
from setebench.measure.overflow import Crossed
from setebench.measure.trials import Trials
from setebench.scenario import Context

REGION = Region(1 << 32, 1 << 20, 4096, 64)
SET = Crossed([np.zeros(4, dtype=np.int64)] * 9, 4.0, 4)


def crowd_of(pages: int) -> Crowd:
    return Crowd(np.arange(pages) * 4096, np.arange(8) * 4096, np.ones((pages, 64), dtype=np.bool_))


class Ballasted:
    """Trials with plenty of ballast, of which none is ever run."""

    spent, ballast_lines, absent = False, 1 << 20, type("Absent", (), {"free": 63})

    def without_ballast(self) -> AbstractContextManager[None]:
        """See `Trials.without_ballast`."""
        return nullcontext()


def test_one_trial_that_fails_behind_ballast_ends_no_quick_search_that_found_a_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stall did it once, on a random machine; then all other searches took ballast along until no loads were left."""
    answers = iter([SET, None, SET])
    monkeypatch.setattr(module, "critical", lambda *_: next(answers))
    monkeypatch.setattr(module._Search, "_critical", lambda _self: SET)
    search = module._Search(cast(Trials, Ballasted()), crowd_of(60), 16384.0, 30.0)
    assert len(search.sets(lambda _: None)) == module.SETS
    assert search._takes_along


@pytest.mark.parametrize(("pages", "wanted"), [(60, [LEAST_PAGES, module.MANY_PAGES]), (200, [LEAST_PAGES])])
def test_where_few_pages_held_one_set_more_are_looked_at(
    monkeypatch: pytest.MonkeyPatch, pages: int, wanted: list[int]
) -> None:
    asked: list[int] = []

    def crowd(*arguments: Any) -> Crowd:
        asked.append(arguments[-1])
        return crowd_of(pages if len(asked) == 1 else 200)

    monkeypatch.setattr(module, "Absent", lambda *_: type("Clear", (), {"clear": True}))
    monkeypatch.setattr(module, "crowd", crowd)
    monkeypatch.setattr(module, "_trials", lambda *_: Ballasted())
    monkeypatch.setattr(module._Search, "sets", lambda _self, _: [SET] * len(asked))
    monkeypatch.setattr(module, "_inclusive", lambda *_: (False, ""))
    monkeypatch.setattr(module, "_victims_only", lambda *_: None)
    context = cast(Context, type("Told", (), {"progress": lambda *_: None, "evidence": {}})())
    found = module.third_sets(context, REGION, [4.0, 14.0, 46.0, 300.0], 8192.0, 65536.0, by_age=True)
    assert asked == wanted
    assert found.ways == (8 if len(wanted) == 2 else None)


def test_pages_that_told_of_the_second_cache_alone_are_tried_again_behind_ballast(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second cache that replaces at random lost some of them by itself once, and no page was left to look at."""
    looked: list[int] = []

    class Grouped:
        """Pages of which all that are left make one group."""

        offsets = np.arange(63) * 64

        def __init__(self, *_: object) -> None: ...

        def groups(self, numbers: np.ndarray) -> list[np.ndarray]:
            """See `Together.groups`."""
            looked.append(len(numbers))
            return [numbers]

    def fewest(_looks: object, pages: np.ndarray, _offsets: np.ndarray) -> np.ndarray:
        return pages if len(looked) == 1 else pages[:9]

    monkeypatch.setattr(module, "Together", Grouped)
    monkeypatch.setattr(module, "looks_at", lambda *_: None)
    monkeypatch.setattr(module, "fewest_pages", fewest)
    monkeypatch.setattr(module, "crossed", lambda *_: None if len(looked) == 1 else SET)
    monkeypatch.setattr(module, "critical", lambda *_: SET)
    monkeypatch.setattr(module, "unbiased", lambda *_: True)
    search = module._Search(cast(Trials, Ballasted()), crowd_of(60), 16384.0, 30.0)
    assert len(search.sets(lambda _: None)) == module.SETS
    assert looked == [60, 60, 51]


class Replacing(Ballasted):
    """Trials in which so many lines are missing behind one that was loaded last."""

    quarter_lines, rng = 16, np.random.default_rng(3)

    def __init__(self, missing: list[int]) -> None:
        self._missing = iter(missing * 24)

    def gone(self, _lines: np.ndarray, probed: np.ndarray, _ballast: None, _last: np.ndarray) -> np.ndarray:
        """See `Trials.gone`."""
        return np.arange(len(probed)) < next(self._missing)


@pytest.mark.parametrize(("missing", "told"), [([0], True), ([16], False), ([0, 16], None)])
def test_a_third_cache_that_gives_up_nothing_for_a_line_only_takes_victims(
    missing: list[int], told: bool | None
) -> None:
    assert module._victims_only(cast(Trials, Replacing(missing)), [SET, SET]) is told


def test_halves_of_pages_don_t_tell_that_a_third_cache_takes_in_lines() -> None:
    """Where a prefetcher left nothing but halves it moved lines of an exclusive cache's set as well."""
    halves = Crossed([np.zeros(32, dtype=np.int64)] * 9, 4.0, 4)
    assert module._victims_only(cast(Trials, Replacing([16])), [halves, halves]) is None
    assert module._victims_only(cast(Trials, Replacing([0])), [halves, halves]) is True
    assert module._victims_only(cast(Trials, Replacing([0])), [halves, SET]) is True
