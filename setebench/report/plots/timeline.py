"""The plot of a program over time: its cycles by cause, or else its CPU time by function; latencies, traffic, and what
the system did. Readable in grey."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from setebench.errors import SetebenchError
from setebench.report.plots.plot import line_style, literal, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PARTS = ("productive", "other_stalls", "memory_latency", "memory_bandwidth")
FILLS = (("0.95", ""), ("0.8", "..."), ("0.6", "///"), ("0.3", "\\\\\\"), ("0.9", "xxx"), ("0.5", "++"))
"""Grey and hatching of the first, second, ... part or function: each differs from its neighbours by both."""

CURVES = {
    "latency (cycles)": ("metrics", ("l1_miss_latency", "load_miss_latency")),
    "memory (GB/s)": ("metrics", ("memory_read", "memory_write")),
    "events per second": ("counts", ("page_fault", "context_switch", "cpu_migration")),
}
"""Panels of curves: label, where their values lie, and their names. Counts are shown per second."""

STACKS = ("cycles (%)", "CPUs at work")
Evidence = Mapping[str, Any]
Panel = dict[str, Sequence[float]]


def timeline_figure(evidence: Evidence) -> Figure:
    """One panel under the other over the seconds of the run, from `evidence["diagnose"]`. A panel without data is left
    out. Raises `SetebenchError` where there is nothing to draw."""
    found: Evidence = evidence.get("diagnose") or {}
    panels = {label: own for label, own in _panels(found).items() if own} if found.get("start_seconds") else {}
    if not panels:
        raise SetebenchError("there is nothing to plot: the program ended before anything was counted")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 1.2 + 1.9 * len(panels)), layout="constrained")
    every = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (label, columns) in zip(every, panels.items(), strict=True):
        axes.grid(True, color="0.9", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set(ylabel=label)
        if label.startswith("memory latency"):
            axes.plot(found["watched_seconds"], columns["probing thread"], label="probing thread", **style(0))
            _level(axes, found.get("idle_ns"), "without the program: {:.3g} ns")
        else:
            (_stack if label in STACKS else _curves)(axes, found, columns)
        if label.startswith("latency"):
            _level(axes, found.get("saturation_cycles"), "saturated above {:.3g}")
        if label.startswith("events"):
            axes.set_yscale("symlog", linthresh=1)
        _flag(axes, found)
        axes.set_ylim(bottom=0, top=100 if label == STACKS[0] else None)
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7, frameon=False)
    words = " ".join(found.get("program") or ["a program"])
    simulated = " (simulated counts)" if found.get("source") == "simulated" else ""
    every[0].set_title(literal((words if len(words) <= 60 else words[:57] + "...") + simulated), fontsize=10)
    every[-1].set_xlabel("time since the program began (s)")
    every[-1].set_xlim(found["start_seconds"][0], found["end_seconds"][-1])
    return figure


def _panels(found: Evidence) -> dict[str, Panel]:
    """The columns of each panel, by its label."""
    parts, seconds, counts = (found.get(key) or {} for key in ("parts", "function_seconds", "counts"))
    ticks = counts.get("task_clock")
    clock: Panel = {"CPU time": [value / 1e9 for value in _per_second(found, ticks)]} if ticks else {}
    if seconds:
        order = sorted((name for name in seconds if name != "other"), key=lambda name: -sum(seconds[name]))
        rest = [*order[len(FILLS) - 1 :], *(["other"] if "other" in seconds else [])]
        shown = {name: seconds[name] for name in order[: len(FILLS) - 1]}
        others = [sum(values) for values in zip(*(seconds[name] for name in rest), strict=True)]
        shown |= {"other": others} if any(others) else {}
        clock = {name: _per_second(found, column) for name, column in shown.items()}
    panels: dict[str, Panel] = {STACKS[0]: {name: _plain(parts[name]) for name in PARTS if name in parts}}
    panels[STACKS[1]] = clock
    for label, (place, names) in CURVES.items():
        own = {name: column for name in names if (column := (found.get(place) or {}).get(name)) is not None}
        scaled = {name: _per_second(found, own[name]) if place == "counts" else _plain(own[name]) for name in own}
        panels[label] = {name.replace("_", " "): column for name, column in scaled.items()}
    panels["memory latency (ns)"] = {"probing thread": found["watched_ns"]} if found.get("watched_ns") else {}
    return panels


def _level(axes: Axes, value: float | None, label: str) -> None:
    if value:
        axes.axhline(value, color="0.4", linestyle=":", linewidth=0.9, label=label.format(value))


def _stack(axes: Axes, found: Evidence, columns: Panel) -> None:
    """Bars of each interval's width, one column on top of the other; of cycles, a line for what fills store buffers."""
    bottom = [0.0] * len(found["start_seconds"])
    for (name, column), (grey, hatch) in zip(columns.items(), FILLS, strict=False):
        words = name.replace("_", " ") if name in PARTS else name
        shown = literal(f" {words}" if words.startswith("_") else words)  # a legend leaves out what begins with _
        fill: dict[str, Any] = {"color": grey, "hatch": hatch, "edgecolor": "0.4", "linewidth": 0.0, "align": "edge"}
        axes.bar(found["start_seconds"], column, _lengths(found), bottom, label=shown, **fill)
        bottom = [low + value for low, value in zip(bottom, column, strict=True)]
    if set(PARTS) <= columns.keys():
        _curves(axes, found, {"store buffer full": _plain(found["parts"]["store_buffer"])})


def _curves(axes: Axes, found: Evidence, columns: Panel) -> None:
    """Step curves: each value holds to the end of its interval; a missing one leaves a gap."""
    times = [*found["start_seconds"], found["end_seconds"][-1]]
    for number, (name, column) in enumerate(columns.items()):
        axes.step(times, [*column, column[-1]], where="post", label=name, linewidth=1.2, **line_style(number))


def _plain(column: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else float(value) for value in column]


def _lengths(found: Evidence) -> list[float]:
    return [end - start for start, end in zip(found["start_seconds"], found["end_seconds"], strict=True)]


def _per_second(found: Evidence, column: Sequence[float | None]) -> list[float]:
    pairs = zip(_plain(column), _lengths(found), strict=True)
    return [value / length if length > 0 else float("nan") for value, length in pairs]


def _flag(axes: Axes, found: Evidence) -> None:
    """Shade intervals in which memory was saturated; the first of them stands in the legend."""
    drawn: dict[str, Any] = {"facecolor": "none", "edgecolor": "0.2", "hatch": "++", "alpha": 0.25, "linewidth": 0}
    flags = zip(found["start_seconds"], found["end_seconds"], found.get("saturated") or [], strict=False)
    for number, (start, end) in enumerate((start, end) for start, end, flag in flags if flag):
        axes.axvspan(start, end, label="_" if number else "memory saturated", **drawn)
