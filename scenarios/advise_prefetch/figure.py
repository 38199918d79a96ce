"""The figure: time over distance for each hint alone, with the advised point marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from setebench.errors import SetebenchError
from setebench.report.plots.plot import literal, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4
"""Small plots in a row: wider ones than a quarter of a page are not needed."""


def advice_figure(evidence: dict[str, Any]) -> Figure:
    """A small plot of time over distance for each loop.

    Raises `SetebenchError` where the evidence holds no advice."""
    from matplotlib.figure import Figure

    loops = evidence.get("advice")
    if not loops:
        raise SetebenchError("there is nothing to plot: the evidence holds no prefetch advice")
    rows, columns = -(-len(loops) // COLUMNS), min(COLUMNS, len(loops))
    figure = Figure(figsize=(2.4 * columns + 1, 2.6 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    try:
        for axes, (name, own) in zip(grid, loops.items(), strict=False):
            _curves(axes, name, own)
    except (KeyError, TypeError, ValueError) as error:
        raise SetebenchError("the prefetch advice in the evidence is damaged") from error
    for axes in grid[len(loops) :]:
        axes.remove()
    return figure


def _curves(axes: Axes, name: str, own: dict[str, Any]) -> None:
    cycles = {str(each["policy"]): each["cycles"] for each in own["policies"]}
    curves: dict[str, list[tuple[int, float]]] = {}
    for policy in (each["policy"] for each in own["policies"]):
        for stage, other in (("l1", "l2"), ("l2", "l1")):
            if policy[f"{stage}_distance"] and not policy[f"{other}_distance"]:
                point = (policy[f"{stage}_distance"], cycles[str(policy)])
                curves.setdefault(policy[f"{stage}_hint"], []).append(point)
    for index, (hint, points) in enumerate(sorted(curves.items())):
        axes.plot(*zip(*sorted(points), strict=True), label=hint, **style(index))
    advised = own["advice"]["policy"]
    at = max(advised["l1_distance"], advised["l2_distance"]) or 1
    axes.plot([at], [cycles[str(advised)]], marker="*", markersize=13, color="0.0", linestyle="none", label="advised")
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.set_title(literal(name), fontsize=8)
    axes.set(xlabel=literal(f"distance ({own['advice']['unit']})"), ylabel="cycles per iteration")
    axes.legend(fontsize=6, frameon=False)
