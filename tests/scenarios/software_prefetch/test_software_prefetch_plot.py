"""The figure of `setebench software-prefetch`, from evidence alone."""

from __future__ import annotations

import pytest
from setebench.scenarios.software_prefetch.plot import draw

from setebench.errors import SetebenchError
from setebench.report.plot import alt_text

LANDED = {
    "levels": ["l1", "l2", "memory"],
    "shares": {
        "memory": {"t0": [0.9, 0.1, 0.0], "": [0.0, 0.0, 1.0]},
        "l2": {"t0": [1.0, 0.0, 0.0], "": [0.0, 1.0, 0.0]},
    },
}
STORES = {
    "cycles_by_holders": {"1": {"own": 5.0, "none": 300.0, "t0": 60.0}, "2": {"own": 5.0, "none": 300.0, "t0": 61.0}}
}


def test_bars_add_up_and_carry_hint_and_source() -> None:
    axes = draw({"landed": LANDED}).axes
    assert len(axes) == 1
    assert [label.get_text() for label in axes[0].get_yticklabels()] == [
        "t0 · memory",
        "not prefetched · memory",
        "t0 · L2",
        "not prefetched · L2",
    ]
    assert sum(bar.get_width() for bar in axes[0].patches) == pytest.approx(4)


def test_stores_have_a_panel_of_their_own() -> None:
    figure = draw({"landed": LANDED, "store_after": STORES})
    assert len(figure.axes) == 2
    assert list(figure.axes[1].lines[1].get_ydata()) == [300, 300]
    assert "cycles until the store is written" in alt_text(figure)


def test_nothing_to_draw() -> None:
    with pytest.raises(SetebenchError, match="nothing to plot"):
        draw({})
