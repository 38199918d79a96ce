"""Crowded and clean pages of a large cache, from which of their lines were missing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from setebench.machine import Region
from setebench.measure import crowded

LINES_PER_PAGE = 64


def walked(monkeypatch: pytest.MonkeyPatch, doubtful: float, crowd_share: float) -> crowded.Crowd | None:
    """Walks over a cache of 1000 pages' lines, behind one that 500 pages clear. So large a share of all pages has
    one line missing once, as after a stall, and such a share of those beyond half of the capacity is crowded."""

    def missed(_context: Any, _region: Any, _absent: Any, pages: NDArray[np.int64]) -> NDArray[np.int64]:
        table = np.zeros((len(pages), LINES_PER_PAGE), dtype=np.int64)
        table[: int(crowd_share * (len(pages) - 500))] = 3
        table[len(pages) - int(doubtful * len(pages)) :, 0] = 1
        return table

    monkeypatch.setattr(crowded, "_missed", missed)
    monkeypatch.setattr(crowded, "_empty", lambda *_: None)
    context: Any = SimpleNamespace(rng=np.random.default_rng, progress=lambda _text: None, evidence={})
    region = Region(0, 2000 * 4096, 4096, 64)
    return crowded.crowd(context, region, None, 1000.0 * LINES_PER_PAGE, 500.0 * LINES_PER_PAGE)  # type: ignore[arg-type]


def test_a_longer_walk_where_too_few_clean_pages_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """369 of 518 pages were clean, too few to clear the second cache with, and no set was searched at all."""
    found = walked(monkeypatch, 0.15, 1.0)
    assert found is not None
    assert len(found.clean) < 500  # no length leaves enough of them: the most there are
    found = walked(monkeypatch, 0.15, 0.4)
    assert found is not None
    assert len(found.clean) >= 500
    assert len(found.crowded) >= crowded.LEAST_PAGES


def test_no_crowd_where_no_walk_overfills_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert walked(monkeypatch, 0.1, 0.0) is None
