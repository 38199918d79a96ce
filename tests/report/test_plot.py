"""Plots: what is on them, that files are whole and reproducible, and that no label lies over another."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from setebench.report.plots import plot
from setebench.report.plots.maps import transfer_figure

SWEEP: dict[str, Any] = {
    "size_bytes": [4096 << step for step in range(15)],
    "cycles": [4.0] * 4 + [14.0] * 5 + [50.0] * 3 + [450.0, None, 455.0],
    "low": [3.9] * 4 + [13.0] * 5 + [48.0] * 3 + [430.0, None, None],
    "high": [4.1] * 4 + [15.0] * 5 + [54.0] * 3 + [470.0, None, 480.0],
    "boundaries_bytes": [49152, 1 << 20, 32 << 20],
    "levels": {"memory": 450.0, "l1": 4.0, "l2": 14.0, "l3": None},
}


def test_the_sweep_shows_points_levels_and_boundaries() -> None:
    figure = plot.sweep_figure({"sweep": SWEEP})
    axes = figure.axes[0]
    assert "bytes" in axes.get_xlabel() and "cycles per load" in axes.get_ylabel()
    line = axes.containers[0].lines[0]  # type: ignore[attr-defined]
    assert line.get_xdata().tolist() == [size for size in SWEEP["size_bytes"] if size != 4096 << 13]
    assert {"48 KiB", "1 MiB", "32 MiB"} <= {text.get_text() for text in axes.texts}
    shown = plot.alt_text(figure)
    assert all(level in shown for level in ("L1: 4 cycles", "memory: 450 cycles")) and "L3" not in shown


@pytest.mark.parametrize(("extension", "magic"), [("png", b"\x89PNG"), ("SVG", b"<?xml"), ("pdf", b"%PDF")])
def test_files_are_whole_and_reproducible(tmp_path: Path, extension: str, magic: bytes) -> None:
    for name in ("one", "two"):
        plot.save(plot.sweep_figure({"sweep": SWEEP}), tmp_path / f"{name}.{extension}")
    data = (tmp_path / f"one.{extension}").read_bytes()
    assert data.startswith(magic) and data == (tmp_path / f"two.{extension}").read_bytes()
    assert not re.search(rb"CreationDate|Matplotlib v|dc:date|20[0-9]{2}-[0-9]{2}-[0-9]{2}T", data)
    assert len(os.listdir(tmp_path)) == 2


# -- the heat map of other cores' lines ------------------------------------------------------------------------------


EVIDENCE = {"core_to_core": {"modified": [[0, 1, 100.0], [1, 0, 140.0]], "exclusive": [], "shared": [[0, 1, 44.0]]}}


def test_one_map_per_state_with_the_numbers_in_its_cells() -> None:
    figure = transfer_figure(EVIDENCE)
    titles = [axes.get_title() for axes in figure.axes[:-1]]
    assert titles == ["line modified", "line shared"]
    assert sorted(text.get_text() for text in figure.axes[0].texts) == ["100", "140"]
    assert figure.axes[0].get_xlabel() == "CPU that holds it"
    assert "cycles" in figure.axes[-1].get_ylabel()
