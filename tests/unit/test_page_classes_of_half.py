"""How many classes of pages chunks tell of which nearly all hold a line of the set; the looking itself is replaced."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.measure.page_classes import MOST_PAGES, PageClasses

FIRST_PAGES = 24


@pytest.mark.parametrize(("classes", "hidden", "told"), [(4, 1.0, True), (32, 1.0, True), (4, 0.01, False)])
def test_pages_that_the_first_cache_holds_tell_no_classes(
    monkeypatch: pytest.MonkeyPatch, classes: int, hidden: float, told: bool
) -> None:
    """A second cache of 128 KiB was told as one of 8 MiB: half as many pages fitted a first one of 48 KiB."""

    def share(_self: PageClasses, _draw: object, size: int, _chunks: int) -> float:
        seen = 1.0 - (1.0 - 1.0 / classes) ** size
        return seen if size >= FIRST_PAGES else hidden * seen

    counting = object.__new__(PageClasses)
    counting._free = np.arange(1 << 14)
    monkeypatch.setattr(PageClasses, "_share", share)
    found = counting._rarity(counting._pages, FIRST_PAGES, MOST_PAGES)
    assert (found is not None) is told
    assert found is None or found.low <= classes <= found.high
