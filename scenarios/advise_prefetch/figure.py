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

    Raises `SetebenchError` where the evidence holds no advice, or damaged one."""
    from matplotlib.figure import Figure

    loops = evidence.get("advice")
    if not loops:
        raise SetebenchError("there is nothing to plot: the evidence holds no prefetch advice")
    rows, columns = -(-len(loops) // COLUMNS), min(COLUMNS, len(loops))
    figure = Figure(figsize=(2.4 * columns + 1, 2.6 * rows), layout="constrained")
    try:
        for number, (name, own) in enumerate(loops.items(), 1):
            _curves(figure.add_subplot(rows, columns, number), name, own)
    except (KeyError, TypeError, ValueError) as error:
        raise SetebenchError("the prefetch advice in the evidence is damaged") from error
    return figure


def _curves(axes: Axes, name: str, own: dict[str, Any]) -> None:
    """Cycles of the policies of one stage over their distance, a curve for each hint, and the advised one."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for policy, cycles in ((each["policy"], each["cycles"]) for each in own["policies"]):
        stages = [stage for stage in ("l1", "l2") if policy[f"{stage}_distance"]]
        if len(stages) == 1:
            curves.setdefault(policy[f"{stages[0]}_hint"], []).append((policy[f"{stages[0]}_distance"], cycles))
        if policy == (advised := own["advice"]["policy"]):
            at = max(advised["l1_distance"], advised["l2_distance"]) or 1
            axes.plot([at], [cycles], marker="*", markersize=13, color="0.0", linestyle="none", label="advised")
    for index, (hint, points) in enumerate(sorted(curves.items())):
        axes.plot(*zip(*sorted(points), strict=True), label=hint, **style(index))
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.set_title(literal(name), fontsize=8)
    axes.set(xlabel=literal(f"distance ({own['advice']['unit']})"), ylabel="cycles per iteration")
    axes.legend(fontsize=6, frameon=False)
