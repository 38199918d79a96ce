"""The figure of prefetch advice: cycles per iteration over prefetch distance, by hint, and the advised point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from setebench.errors import SetebenchError
from setebench.report.plots.plot import literal, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4
"""Most panels in a row; a panel needs no more than a quarter of the page's width."""


def advice_figure(evidence: dict[str, Any]) -> Figure:
    """Return a figure with one panel of time over prefetch distance per loop.

    Raises `SetebenchError` where the evidence holds no advice, or damaged advice."""
    from matplotlib.figure import Figure

    loops = evidence.get("advice")
    if not loops:
        raise SetebenchError("there is nothing to plot: the evidence holds no prefetch advice")
    rows, columns = -(-len(loops) // COLUMNS), min(COLUMNS, len(loops))
    figure = Figure(figsize=(2.4 * columns + 1, 2.6 * rows), layout="constrained")
    try:
        for number, (name, loop) in enumerate(loops.items(), 1):
            _curves(figure.add_subplot(rows, columns, number), name, loop)
    except (KeyError, TypeError, ValueError) as error:
        raise SetebenchError("the prefetch advice in the evidence is damaged") from error
    return figure


def _curves(axes: Axes, name: str, loop: dict[str, Any]) -> None:
    """Draw one loop's panel: for each hint a curve of policies that prefetch into one cache, and the advised policy."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for policy, cycles in ((each["policy"], each["cycles"]) for each in loop["policies"]):
        stages = [stage for stage in ("l1", "l2") if policy[f"{stage}_distance"]]
        if len(stages) == 1:
            curves.setdefault(policy[f"{stages[0]}_hint"], []).append((policy[f"{stages[0]}_distance"], cycles))
        if policy == (advised := loop["advice"]["policy"]):
            at = max(advised["l1_distance"], advised["l2_distance"]) or 1
            axes.plot([at], [cycles], marker="*", markersize=13, color="0.0", linestyle="none", label="advised")
    for index, (hint, points) in enumerate(sorted(curves.items())):
        axes.plot(*zip(*sorted(points), strict=True), label=hint, **style(index))
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.set_title(literal(name), fontsize=8)
    axes.set(xlabel=literal(f"distance ({loop['advice']['unit']})"), ylabel="cycles per iteration")
    axes.legend(fontsize=6, frameon=False)
