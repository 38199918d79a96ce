"""Figures: speed-up by strategy (the paper's Figure 10), and time over distance with the advised point marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from setebench.errors import SetebenchError
from setebench.report.plots.plot import literal, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELS = {
    "none": "none",
    "hardware": "HW",
    "l1_sw": "L1-SW",
    "l2_sw": "L2-SW",
    "two_stage_sw": "2-stage-SW",
    "two_stage_hw_sw": "2-stage-HW-SW",
    "compiler": "compiler",
}
COLUMNS = 4
"""Small plots beside each other: wider ones than a quarter of a page are not needed."""


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
        grid = below.subplots(rows, min(COLUMNS, len(loops)), squeeze=False)
        for axes, (name, own) in zip(grid.flat, loops.items(), strict=False):
            _curves(axes, name, own)
        for axes in list(grid.flat)[len(loops) :]:
            axes.set_visible(False)
    except (KeyError, TypeError, ValueError) as error:
        raise SetebenchError("the prefetch advice in the evidence is damaged") from error
    return figure


def _bars(axes: Axes, loops: dict[str, Any]) -> None:
    names = [name for name in LABELS if any(name in own["strategies"] for own in loops.values())]
    width = 0.8 / len(names)
    for index, name in enumerate(names):
        places = [place + index * width for place, own in enumerate(loops.values()) if name in own["strategies"]]
        values = [own["strategies"][name] for own in loops.values() if name in own["strategies"]]
        grey = str(0.15 + 0.7 * index / len(names))
        heights = [each["value"] for each in values]
        reach = [
            [each["value"] - each["low"] for each in values],
            [each["high"] - each["value"] for each in values],
        ]
        axes.bar(places, heights, width, yerr=reach, color=grey, label=LABELS[name], error_kw={"linewidth": 0.7})
    axes.axhline(1.0, color="0.5", linewidth=0.7)
    axes.set_yscale("log", base=2)
    axes.set_xticks([place + 0.4 - width / 2 for place in range(len(loops))], [literal(name) for name in loops])
    axes.set(ylabel="speed-up over no software prefetch", title="Best of each strategy")
    axes.legend(fontsize=7, ncols=4, frameon=False)


def _curves(axes: Axes, name: str, own: dict[str, Any]) -> None:
    advised = own["advice"]["policy"]
    curves: dict[str, list[tuple[int, float]]] = {}
    for each in own["policies"]:
        policy = each["policy"]
        if bool(policy["l1_distance"]) != bool(policy["l2_distance"]):
            hint = policy["l1_hint"] if policy["l1_distance"] else policy["l2_hint"]
            curves.setdefault(hint, []).append((policy["l1_distance"] or policy["l2_distance"], each["cycles"]))
    for index, (hint, points) in enumerate(sorted(curves.items())):
        axes.plot(*zip(*sorted(points), strict=True), label=hint, **style(index))
    at = max(advised["l1_distance"], advised["l2_distance"])
    cycles = next(each["cycles"] for each in own["policies"] if each["policy"] == advised)
    axes.plot([at or 1], [cycles], marker="*", markersize=13, color="0.0", linestyle="none", label="advised")
    none = next(e["cycles"] for e in own["policies"] if e["strategy"] == "hardware")
    axes.axhline(none, color="0.5", linewidth=0.7, linestyle=":")
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.set_title(literal(name), fontsize=8)
    axes.set_xlabel(literal(f"distance ({own['advice']['unit']})"), fontsize=7)
    axes.set_ylabel("cycles per iteration", fontsize=7)
    axes.tick_params(labelsize=6)
    axes.legend(fontsize=6, frameon=False)
