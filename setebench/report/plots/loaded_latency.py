"""The plot of memory latency over load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from setebench.errors import SetebenchError
from setebench.report.plots.plot import COLUMNS, LEVEL, SMALL, new_figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def loaded_latency_figure(evidence: Mapping[str, Any]) -> Figure:
    """Latency over bandwidth, one series per number of loading threads, from `evidence["loaded_latency"]`.

    Raises `SetebenchError` where no load point was measured."""
    found: Mapping[str, Any] = evidence.get("loaded_latency") or {}
    points = found.get("points")
    if not points:
        raise SetebenchError("there is nothing to plot: the evidence holds no load point")
    figure, axes = new_figure(
        "Memory latency under load", "memory bandwidth, lines read (GB/s)", "latency of a load (ns)"
    )
    for index, threads in enumerate(sorted({point["threads"] for point in points})):
        own = sorted((point["gb_per_s"], point["latency_ns"]) for point in points if point["threads"] == threads)
        label = f"{threads} loading thread{'s' if threads > 1 else ''}"
        axes.plot([rate for rate, _ in own], [latency for _, latency in own], label=label, **style(index))
    axes.axhline(found["idle_ns"], label=f"idle: {found['idle_ns']:.4g} ns", **LEVEL)
    axes.set(xlim=(0, None), ylim=(0, None))
    figure.legend(loc="outside lower center", ncols=COLUMNS, **SMALL)
    return figure
