"""Leaving out whatever an overfull set doesn't need, with trials that err."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from setebench.measure.overflow import reduced
from setebench.measure.trials import Trials

WAYS = 8
ITEMS = 60


@dataclass
class _Loads:
    """Loads for so many trials."""

    left: int
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))

    @property
    def spent(self) -> bool:
        return self.left < 0


class _Overfull:
    """The first `WAYS` + 1 items overfill a set; the answers with these numbers are a wrong yes."""

    def __init__(self, loads: _Loads, wrong: set[int]) -> None:
        self._loads, self._wrong, self._asked = loads, wrong, 0

    def seen(self, items: NDArray[np.int64], *, sure: bool) -> bool:
        self._asked += 1
        self._loads.left -= 2 if sure else 1
        return self.still(items) or self._asked in self._wrong

    def still(self, items: NDArray[np.int64]) -> bool:
        return int((items <= WAYS).sum()) > WAYS


def _left(wrong: set[int]) -> list[int] | None:
    loads = _Loads(3000)
    found = reduced(cast("Any", loads), np.arange(ITEMS), _Overfull(loads, wrong))
    return None if found is None else sorted(found.tolist())


def test_what_a_set_does_not_need_is_left_out() -> None:
    assert _left(set()) == list(range(WAYS + 1))


def test_a_wrong_yes_is_taken_back() -> None:
    """Else all loads go into leaving out one of what overfills nothing."""
    for first in (1, 3, 8, 20):
        assert _left({first, first + 1}) == list(range(WAYS + 1))


def test_none_where_trials_run_out() -> None:
    loads = _Loads(5)
    assert reduced(cast("Trials", loads), np.arange(ITEMS), _Overfull(loads, set())) is None
    assert loads.spent
