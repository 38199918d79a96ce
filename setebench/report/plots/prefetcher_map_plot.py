"""The plot of a prefetcher map: a heat map of each curve, line of the page by accesses made to nearest level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from setebench.errors import SetebenchError
from setebench.report.plots.plot import SIZE, SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREYS = ("0.05", "0.4", "0.65", "0.97")
"""From the nearest level to memory."""
TOUCHED = "#c08040"
COLUMNS, HEIGHT = 2, 2.2
"""Panels beside each other, and inches of one."""


def map_figure(evidence: Mapping[str, Any]) -> Figure:
    """Heat maps of `evidence["prefetchers"]`. Raises `SetebenchError` without a curve."""
    from matplotlib.figure import Figure

    curves = evidence.get("prefetchers")
    if not isinstance(curves, Mapping) or not curves:
        raise SetebenchError("there is nothing to plot: the evidence holds no map of prefetched lines")
    rows = -(-len(curves) // COLUMNS)
    figure = Figure(figsize=(SIZE[0] * COLUMNS, HEIGHT * rows), layout="constrained")
    axes = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
    for each, (name, curve) in zip(axes, curves.items(), strict=False):
        _heat(each, name, curve)
    for each in axes[len(curves) :]:
        each.remove()
    return figure


def _heat(axes: Axes, name: str, curve: Mapping[str, Any]) -> None:
    """Lines that were accessed, or lay in level 2 from the start, have a colour of their own."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    levels = list(curve["levels"])
    colours = [TOUCHED, *GREYS[: len(levels) - 1], GREYS[-1]]
    axes.imshow(
        curve["nearest"], aspect="auto", origin="lower", interpolation="nearest",
        cmap=ListedColormap(colours), vmin=-1.5, vmax=len(levels) - 0.5,
    )  # fmt: skip
    axes.set(title=name, xlabel="line of the page", ylabel="accesses made")
    axes.set_yticks(range(len(curve["counts"])), [str(count) for count in curve["counts"]], fontsize="xx-small")
    named = zip(colours, ["accessed", *levels], strict=True)
    handles = [Patch(facecolor=colour, edgecolor="0.3", label=level) for colour, level in named]
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1, 1), **SMALL)  # over no line
