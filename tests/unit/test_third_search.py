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
SET = Crossed([np.zeros(4, dtype=np.int64)] * 9, 4.0)


def crowd_of(pages: int) -> Crowd:
    return Crowd(np.arange(pages) * 4096, np.arange(8) * 4096, np.ones((pages, 64), dtype=np.bool_))


class Ballasted:
    """Trials with plenty of ballast, of which none is ever run."""

    spent, ballast_lines = False, 1 << 20

    def without_ballast(self) -> AbstractContextManager[None]:
        """See `Trials.without_ballast`."""
        return nullcontext()


def test_one_trial_that_fails_behind_ballast_ends_no_quick_search_that_found_a_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stall did it once, on a random machine; then all other searches took ballast along until no loads were left."""
    answers = iter([True, False, True])
    monkeypatch.setattr(module, "critical", lambda _trials, _one: next(answers))
    monkeypatch.setattr(module._Search, "_critical", lambda _self: SET)
    search = module._Search(cast(Trials, Ballasted()), crowd_of(60), 64, 16384.0, 30.0)
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
    context = cast(Context, type("Told", (), {"progress": lambda *_: None, "evidence": {}})())
    found = module.third_sets(context, REGION, [4.0, 14.0, 46.0, 300.0], 8192.0, 65536.0, by_age=True)
    assert asked == wanted
    assert found.ways == (8 if len(wanted) == 2 else None)
