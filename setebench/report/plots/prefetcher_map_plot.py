"""The plot of a prefetcher map: line by accesses to level, and how far lines run ahead (the paper's Figure 7)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from setebench.errors import SetebenchError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

from setebench.report.plots.plot import style

GREYS = ("0.05", "0.4", "0.65", "0.97")
"""From the nearest level to memory."""


def map_figure(evidence: Mapping[str, Any]) -> Figure:
    """Heat maps of `evidence["prefetchers"]`, and ramp and distance of the sequential run, if one is there.

    Raises `SetebenchError` without a map."""
    from matplotlib.figure import Figure

    charts = evidence.get("prefetchers")
    if not isinstance(charts, Mapping) or not charts:
        raise SetebenchError("there is nothing to plot: the evidence holds no map of prefetched lines")
    sequential = [chart for chart in charts.values() if _is_sequential(chart)][:1]  # files sort their keys
    rows = len(charts) + len(sequential)
    figure = Figure(figsize=(7.2, 3.4 * rows), layout="constrained")
    axes = figure.subplots(rows, 1, squeeze=False)[:, 0]
    for each, (name, chart) in zip(axes, charts.items(), strict=False):
        _heat(each, name, chart)
    for chart in sequential:
        _ahead(axes[-1], chart)
    return figure


def _is_sequential(chart: Mapping[str, Any]) -> bool:
    touched = chart["touched"]
    return all(after - before == 1 for before, after in pairwise(touched))


def _heat(axes: Axes, name: str, chart: Mapping[str, Any]) -> None:
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    levels = list(chart["levels"])
    greys = [*GREYS[: len(levels) - 1], GREYS[-1]]
    axes.imshow(
        chart["nearest"], aspect="auto", origin="lower", interpolation="nearest",
        cmap=ListedColormap(greys), vmin=-0.5, vmax=len(levels) - 0.5,
    )  # fmt: skip
    axes.set(title=f"Where lines are: {name}", xlabel="line of the page", ylabel="accesses made")
    handles = [Patch(facecolor=grey, edgecolor="0.3", label=level) for grey, level in zip(greys, levels, strict=True)]
    axes.legend(handles=handles, fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))  # over no line


def _ahead(axes: Axes, chart: Mapping[str, Any]) -> None:
    """Lines fetched by each access of the run, and how far ahead of it they then reach without a gap."""
    axes.plot(chart["touched"], chart["fetched"], label="lines fetched by the access (degree)", **style(0))
    axes.plot(chart["touched"], chart["ahead"], label="lines ahead of it (distance)", **style(1))
    axes.set(title="How far a sequential run is led", xlabel="line accessed", ylabel="lines")
    axes.grid(True, color="0.9", linewidth=0.6)
    axes.legend(fontsize=8)
