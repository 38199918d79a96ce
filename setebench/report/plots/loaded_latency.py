"""The plot of memory latency over load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from setebench.errors import SetebenchError
from setebench.report.plots.plot import new_figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def loaded_latency_figure(evidence: Mapping[str, Any]) -> Figure:
    """Latency over bandwidth, one series per mix and number of loading threads, from `evidence["loaded_latency"]`.

    Raises `SetebenchError` where no load point was measured."""
    found: Mapping[str, Any] = evidence.get("loaded_latency") or {}
    points = found.get("points")
    if not points:
        raise SetebenchError("there is nothing to plot: the evidence holds no load point")
    figure, axes = new_figure(
        "Memory latency under load", "memory bandwidth, lines read and written (GB/s)", "latency of a load (ns)"
    )
    series = sorted({_series(point) for point in points}, key=lambda one: (not one[2], -int(one[0][0]), one))
    for index, (mix, threads, prefetched) in enumerate(series):
        own = sorted((p["gb_per_s"], p["latency_ns"]) for p in points if _series(p) == (mix, threads, prefetched))
        label = f"{threads} loading thread{'s' if threads > 1 else ''}, {mix} reads to writes"
        label += "" if prefetched else ", prefetchers off"
        axes.plot([rate for rate, _ in own], [latency for _, latency in own], label=label, **style(index))
    axes.axhline(found["idle_ns"], color="0.4", linewidth=0.9, linestyle=":", label=f"idle: {found['idle_ns']:.4g} ns")
    axes.set_ylim(0, 1.15 * max(found["idle_ns"], *(point["latency_ns"] for point in points)))
    axes.set_xlim(left=0)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def _series(point: Mapping[str, Any]) -> tuple[str, int, bool]:
    """Mix, loading threads, and whether prefetchers were on."""
    return point.get("mix", "4:0"), point["threads"], point.get("prefetchers", True)
