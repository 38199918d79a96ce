"""What each event counted beside what it should have, workload by workload, as one matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from setebench.report.plots.plot import new_figure

LOWEST, HIGHEST = 0.5, 2.0
"""Ratios at the ends of the colour scale, which is logarithmic: half and twice."""


def draw(evidence: dict[str, Any]) -> Any:
    """A matrix of counted over known events, roles down, workloads across; empty where nothing is known."""
    counts = evidence["counts"]
    roles = [role for role, rows in counts.items() if any(row["known"] for row in rows.values())]
    workloads = sorted({name for role in roles for name, row in counts[role].items() if row["known"]})
    ratios = np.array([[_ratio(counts[role].get(name)) for name in workloads] for role in roles])
    figure, axes = new_figure("What each role's event counts", "workload", "")
    figure.set_size_inches(2.5 + 0.42 * len(workloads), 1.8 + 0.3 * len(roles))
    axes.grid(False)
    shown = axes.imshow(
        np.log2(np.clip(ratios, LOWEST, HIGHEST)), cmap="gray", vmin=np.log2(LOWEST), vmax=np.log2(HIGHEST)
    )
    axes.set_xticks(range(len(workloads)), workloads, rotation=90)
    axes.set_yticks(range(len(roles)), roles)
    for row, column in zip(*np.nonzero(np.isfinite(ratios)), strict=True):
        ratio = ratios[row, column]
        dark = ratio < 1 / 1.1
        axes.text(column, row, f"{ratio:.2g}", ha="center", va="center", fontsize=6, color="white" if dark else "black")
    bar = figure.colorbar(shown, ax=axes, ticks=[-1, 0, 1])
    bar.ax.set_yticklabels(["half", "as many", "twice"])
    bar.set_label("events counted over events caused")
    return figure


def _ratio(row: dict[str, float | None] | None) -> float:
    if row is None or not row["known"] or row["events"] is None:
        return np.nan
    return row["events"] / row["known"]
