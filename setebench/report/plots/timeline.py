"""The plot of a program over time: its cycles by cause, or else its CPU time by function; latencies, traffic, and what
the system did. Readable in grey."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setebench.errors import SetebenchError
from setebench.report.plots.plot import LEVEL, PANEL, SIZE, SMALL, literal, style
from setebench.text import GIGA

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = ("productive", "other_stalls", "memory_latency", "memory_bandwidth")
FILLS = (("0.95", ""), ("0.8", "..."), ("0.6", "///"), ("0.3", "\\\\\\"), ("0.9", "xxx"), ("0.5", "++"))
"""Grey and hatching of the first, second, ... part or function: each differs from its neighbours by both."""

CYCLES, CPUS, LATENCY, EVENTS = "cycles (%)", "CPUs at work", "latency (cycles)", "events per second"
PROBED = "memory latency (ns)"
CURVES = {
    LATENCY: ("metrics", ("l1_miss_latency", "load_miss_latency")),
    "memory (GB/s)": ("metrics", ("memory_read", "memory_write")),
    EVENTS: ("counts", ("page_fault", "context_switch", "cpu_migration")),
}
"""Panels of curves: label, where their values lie, and their names. Counts are shown per second."""

LIMITS = {
    LATENCY: ("saturation_cycles", "saturated above {:.3g}"),
    PROBED: ("idle_ns", "without the program: {:.3g} ns"),
}
"""Lines across a panel: where the level lies, and what it is."""

Evidence = Mapping[str, Any]
Panel = dict[str, NDArray[np.float64]]


def timeline_figure(evidence: Evidence) -> Figure:
    """One panel under the other over the seconds of the run, from `evidence["diagnose"]`. A panel without data is left
    out; a missing value leaves a gap. Raises `SetebenchError` where there is nothing to draw."""
    found: Evidence = evidence.get("diagnose") or {}
    panels = {label: own for label, own in _panels(found).items() if own} if found.get("start_seconds") else {}
    if not panels:
        raise SetebenchError("there is nothing to plot: the program ended before anything was counted")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(SIZE[0], PANEL * (len(panels) + 1)), layout="constrained")
    every = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    starts, ends = (np.array(found[key], float) for key in ("start_seconds", "end_seconds"))
    for axes, (label, columns) in zip(every, panels.items(), strict=True):
        axes.grid(True, color="0.9", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set(ylabel=label)
        bottom, stacked = np.zeros(len(starts)), label in (CYCLES, CPUS)
        for number, (name, column) in enumerate(columns.items()):
            shown = literal(f" {name}" if name.startswith("_") else name)  # a legend leaves out what begins with _
            if stacked:
                grey, hatch = FILLS[number]
                fill: dict[str, Any] = {"color": grey, "hatch": hatch, "edgecolor": "0.4", "linewidth": 0.0}
                axes.bar(starts, column, ends - starts, bottom, align="edge", label=shown, **fill)
                bottom = bottom + column
            elif label == PROBED:
                axes.plot(found["watched_seconds"], column, label=shown, **style(0))
            else:
                times, values = [*starts, ends[-1]], [*column, column[-1]]
                axes.step(times, values, where="post", label=shown, **style(number, markers=False))
        key, words = LIMITS.get(label, ("", ""))
        if found.get(key):
            axes.axhline(found[key], label=words.format(found[key]), **LEVEL)
        if label == EVENTS:
            axes.set_yscale("symlog", linthresh=1)
        saturated = [span for *span, flag in zip(starts, ends, found.get("saturated") or (), strict=False) if flag]
        for number, span in enumerate(saturated):  # the first of them stands in the legend
            drawn: dict[str, Any] = {"facecolor": "none", "edgecolor": "0.2", "hatch": "++", "alpha": 0.25}
            axes.axvspan(*span, label="_" if number else "memory saturated", linewidth=0, **drawn)
        axes.set_ylim(bottom=0, top=100 if label == CYCLES else None)
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), **SMALL)
    words = " ".join(found.get("program") or ["a program"])
    simulated = " (simulated counts)" if found.get("source") == "simulated" else ""
    every[0].set_title(literal(words + simulated), wrap=True)
    every[-1].set_xlabel("time since the program began (s)")
    every[-1].set_xlim(starts[0], ends[-1])
    return figure


def _panels(found: Evidence) -> dict[str, Panel]:
    """The columns of each panel, by its label."""
    parts, seconds, counts = (found.get(key) or {} for key in ("parts", "function_seconds", "counts"))
    lengths = np.subtract(found["end_seconds"], found["start_seconds"])
    lengths[lengths <= 0] = np.nan
    panels: dict[str, Panel] = {
        CYCLES: {each.replace("_", " "): _numbers(parts[each]) for each in PARTS if each in parts}
    }
    if seconds:
        order = sorted(seconds, key=lambda name: (name == "other", -sum(seconds[name])))
        most = len(FILLS) - 1
        panels[CPUS] = {name: _numbers(seconds[name]) / lengths for name in order[:most] if name != "other"}
        others = np.sum([_numbers(seconds[name]) for name in seconds if name not in panels[CPUS]], axis=0)
        panels[CPUS] |= {"other": others / lengths} if np.any(others) else {}
    elif ticks := counts.get("task_clock"):
        panels[CPUS] = {"CPU time": _numbers(ticks) / GIGA / lengths}
    for label, (place, names) in CURVES.items():
        own = {name: column for name in names if (column := (found.get(place) or {}).get(name)) is not None}
        over = lengths if place == "counts" else 1.0
        panels[label] = {name.replace("_", " "): _numbers(column) / over for name, column in own.items()}
    panels[PROBED] = {"probing thread": _numbers(found["watched_ns"])} if found.get("watched_ns") else {}
    return panels


def _numbers(column: Any) -> NDArray[np.float64]:
    return np.array(column, float)  # None is NaN
