"""Heat maps, readable in grey: read latency of other cores' lines, reader by owner, and of a prefetcher map each curve,
line of the page by accesses made to nearest level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from setebench.report.plots.plot import PANEL, SIZE, SMALL, shown
from setebench.text import MOST_LISTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREYS = ("0.05", "0.4", "0.65", "0.97")
"""From the nearest level to memory."""
TOUCHED = "#c08040"
COLUMNS = 2
"""Panels beside each other."""


def transfer_figure(evidence: Mapping[str, Any]) -> Figure:
    """One map per state of the line, from `evidence["core_to_core"]`: rows of (reader, owner, cycles) by state.

    Raises `SetebenchError` where there is no pair to draw."""
    from matplotlib.figure import Figure

    known = {state: rows for state, rows in shown(evidence, "core_to_core").items() if rows}
    figure = Figure(figsize=(3.4 * len(known) + 1.2, 3.9), layout="constrained")
    values = [cycles for rows in known.values() for _, _, cycles in rows]
    shades = 0.7 * min(values), 1.1 * max(values)
    maps = zip(figure.subplots(1, len(known), squeeze=False)[0], known.items(), strict=True)
    images = [_draw(axes, state, rows, shades) for axes, (state, rows) in maps]
    figure.colorbar(images[0], ax=figure.axes, label="cycles per read of another core's line")
    return figure


def _draw(axes: Axes, state: str, rows: list[list[float]], shades: tuple[float, float]) -> Any:
    readers, owners = (sorted({int(row[column]) for row in rows}) for column in (0, 1))
    cycles = np.full((len(readers), len(owners)), np.nan)
    for reader, owner, value in rows:
        cycles[readers.index(int(reader)), owners.index(int(owner))] = value
    image = axes.imshow(cycles, cmap="Greys", vmin=shades[0], vmax=shades[1])
    axes.set(title=f"line {state}", xlabel="CPU that holds it", ylabel="CPU that reads it")
    for ticks, cpus in ((axes.set_xticks, owners), (axes.set_yticks, readers)):  # of many CPUs not all are named
        places = range(0, len(cpus), -(-len(cpus) // MOST_LISTED))
        ticks(places, [str(cpus[place]) for place in places], fontsize="small")
    for (row, column), value in np.ndenumerate(cycles) if len(owners) <= MOST_LISTED else ():
        if not np.isnan(value):
            colour = "1" if value > sum(shades) / 2 else "0"
            axes.text(column, row, f"{value:.0f}", ha="center", va="center", color=colour, fontsize="x-small")
    return image


def map_figure(evidence: Mapping[str, Any]) -> Figure:
    """Heat maps of `evidence["prefetchers"]`. Raises `SetebenchError` without a curve."""
    from matplotlib.figure import Figure

    curves = shown(evidence, "prefetchers")
    rows = -(-len(curves) // COLUMNS)
    figure = Figure(figsize=(SIZE[0] * COLUMNS, PANEL * rows), layout="constrained")
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
