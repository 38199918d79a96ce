"""The plot of misses in flight: every curve, its jump, and a clear word where there is nothing to draw."""

from __future__ import annotations

from typing import Any

from setebench.scenarios.mshr.plot import draw

from setebench.report.plots.plot import alt_text

LOADS: dict[str, Any] = {"numbers": [1, 2, 3, 4], "cycles": [400, 402, 800, 803], "step": [2, 2, 3], "repeats": None}
PHASE: dict[str, Any] = {"numbers": [0, 1, 2], "cycles": [50, 51, 52], "step": None, "repeats": None}


def test_every_curve_is_drawn_with_its_jump_and_units() -> None:
    figure = draw({"curves": {"prefetch.t0.phase": PHASE, "loads": LOADS}})
    axes = figure.axes[0]
    assert "cycles" in axes.get_ylabel() and "misses" in axes.get_xlabel() and axes.get_title()
    shown = alt_text(figure)
    assert "loads from memory: jump behind 2" in shown
    assert "prefetches t0, until all have set out: no jump" in shown
    assert len(axes.patches) == 1  # the interval of the jump behind 2 or 3
