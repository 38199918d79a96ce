"""Figures: speed-up by strategy (the paper's Figure 10), and time over distance with the advised point marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from setebench.errors import SetebenchError
from setebench.loops import STRATEGIES
from setebench.report.plots.plot import literal, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4
"""Small plots in a row: wider ones than a quarter of a page are not needed."""


def advice_figure(evidence: dict[str, Any]) -> Figure:
    """Bars of speed-ups on top, one small plot of time over distance for each loop below.

    Raises `SetebenchError` where the evidence holds no advice."""
    from matplotlib.figure import Figure

    loops = evidence.get("advice")
    if not loops:
        raise SetebenchError("there is nothing to plot: the evidence holds no prefetch advice")
    rows = -(-len(loops) // COLUMNS)
    figure = Figure(figsize=(9.6, 3.2 + 2.4 * rows), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=[1.4, rows])
    top, below = parts
    try:
        _bars(top.add_subplot(), loops)
        grid = below.subplots(rows, min(COLUMNS, len(loops)), squeeze=False).flat
        for axes, (name, own) in zip(grid, loops.items(), strict=False):
            _curves(axes, name, own)
        for axes in grid:  # those that are left
            axes.set_visible(False)
    except (KeyError, TypeError, ValueError) as error:
        raise SetebenchError("the prefetch advice in the evidence is damaged") from error
    return figure


def _bars(axes: Axes, loops: dict[str, Any]) -> None:
    names = [name for name in (*STRATEGIES, "compiler") if any(name in own["strategies"] for own in loops.values())]
    width = 0.8 / len(names)
    for index, name in enumerate(names):
        shown = [(at, own["strategies"][name]) for at, own in enumerate(loops.values()) if name in own["strategies"]]
        axes.bar(
            [at + index * width for at, _ in shown],
            [each["value"] for _, each in shown],
            width,
            yerr=[[abs(each["value"] - each[end]) for _, each in shown] for end in ("low", "high")],
            label=name.replace("_", " "),
            color=str(0.15 + 0.7 * index / len(names)),
        )
    axes.axhline(1.0, color="0.5", linewidth=0.7)
    axes.set_yscale("log", base=2)
    axes.set_xticks([at + 0.4 - width / 2 for at in range(len(loops))], [literal(name) for name in loops])
    axes.set(ylabel="speed-up over no software prefetch", title="Best of each strategy")
    axes.legend(fontsize=7, ncols=4, frameon=False)


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
