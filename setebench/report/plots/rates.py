"""Plots of rates: bandwidth over the data set (Fang et al. 2014, Figure 9), and memory latency over load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from setebench.errors import SetebenchError
from setebench.report.plots.plot import COLUMNS, LEVEL, SMALL, new_figure, size_axis, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def bandwidth_figure(evidence: Mapping[str, Any]) -> Figure:
    """Program bandwidth from `evidence["bandwidth"]`, as the scenario leaves it, over the data set of a thread.

    Raises `SetebenchError` where nothing was measured."""
    found = evidence.get("bandwidth")
    sweeps = [sweep for sweep in found["sweeps"] if sweep["size_bytes"]] if isinstance(found, Mapping) else []
    if not sweeps:
        raise SetebenchError("there is nothing to plot: the evidence holds no bandwidth sweep")
    figure, axes = new_figure(
        "Program bandwidth of all threads together", "data set of a thread (bytes, log scale)", "GB/s (log scale)"
    )
    axes.set_yscale("log")
    # each kernel and width has a style, and hollow markers where several threads ran
    kinds = list(dict.fromkeys((sweep["kernel"], sweep["width"]) for sweep in sweeps))
    for sweep in sweeps:
        best = [max(rounds) for rounds in sweep["rounds_gb_per_s"]]
        below = [high - min(rounds) for high, rounds in zip(best, sweep["rounds_gb_per_s"], strict=True)]
        drawn = style(kinds.index((sweep["kernel"], sweep["width"])))
        drawn |= {"markerfacecolor": "white"} if len(sweep["cpus"]) > 1 else {}
        errors = [below, [0.0] * len(best)]
        threads = len(sweep["cpus"])
        label = f"{sweep['kernel']}.{sweep['width']}, {threads} thread{'s' if threads > 1 else ''}"
        axes.errorbar(sweep["size_bytes"], best, errors, capsize=2, label=label, **drawn)
    size_axis(axes)
    figure.legend(loc="outside lower center", ncols=COLUMNS, **SMALL)
    return figure


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
