"""The heat map of other cores' lines."""

from __future__ import annotations

from itertools import pairwise

import pytest

from setebench.errors import SetebenchError
from setebench.report.heat_map import transfer_figure

EVIDENCE = {"core_to_core": {"modified": [[0, 1, 100.0], [1, 0, 140.0]], "exclusive": [], "shared": [[0, 1, 44.0]]}}


def test_one_map_per_state_with_the_numbers_in_its_cells() -> None:
    figure = transfer_figure(EVIDENCE)
    titles = [axes.get_title() for axes in figure.axes[:-1]]
    assert titles == ["line modified", "line shared"]
    assert sorted(text.get_text() for text in figure.axes[0].texts) == ["100", "140"]
    assert figure.axes[0].get_xlabel() == "CPU that holds it"
    assert "cycles" in figure.axes[-1].get_ylabel()


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(SetebenchError, match="nothing to plot"):
        transfer_figure({"core_to_core": {"modified": []}})
    with pytest.raises(SetebenchError, match="nothing to plot"):
        transfer_figure({})


@pytest.mark.parametrize("cpus", [12, 64, 200])
def test_no_label_lies_over_another_however_many_cpus(cpus: int) -> None:
    rows = [[reader, owner, 188.0] for reader in range(cpus) for owner in range(cpus) if reader != owner]
    figure = transfer_figure({"core_to_core": {state: rows for state in ("exclusive", "modified", "shared")}})
    figure.draw_without_rendering()
    for axes in figure.axes[:-1]:
        for labels in (axes.get_xticklabels(), axes.get_yticklabels(), axes.texts):
            boxes = [label.get_window_extent() for label in labels]
            assert len(boxes) == len(axes.texts) or 6 <= len(boxes) <= 13
            assert not any(one.overlaps(other) for one, other in pairwise(boxes))
