"""The plot of a program over time: its cycles by cause, or else its CPU time by function; latencies, traffic, and what
the system did. Readable in grey."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
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

Evidence = Mapping[str, Any]
Column = Sequence[float | None]


def timeline_figure(evidence: Evidence) -> Figure:
    """One panel under the other over the seconds of the run, from `evidence["diagnose"]`. A panel without data is left
    out. Raises `SetebenchError` where there is nothing to draw."""
    found: Evidence = evidence.get("diagnose") or {}
    panels = list(_panels(found)) if found.get("start_seconds") else []
    if not panels:
        raise SetebenchError("there is nothing to plot: the program ended before anything was counted")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 1.2 + 1.9 * len(panels)), layout="constrained")
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axis, draw in zip(axes, panels, strict=True):
        axis.grid(True, color="0.9", linewidth=0.6)
        axis.set_axisbelow(True)
        draw(axis)
        _flag(axis, found)
        axis.set_ylim(bottom=0)
        axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7, frameon=False)
    words = " ".join(found.get("program") or ["a program"])
    simulated = " (simulated counts)" if found.get("source") == "simulated" else ""
    axes[0].set_title(literal((words if len(words) <= 60 else words[:57] + "...") + simulated), fontsize=10)
    axes[-1].set_xlabel("time since the program began (s)")
    axes[-1].set_xlim(found["start_seconds"][0], found["end_seconds"][-1])
    return figure


def _panels(found: Evidence) -> Iterator[Callable[[Axes], None]]:
    """What draws each panel that has data."""
    counts, parts = found.get("counts") or {}, found.get("parts")
    if parts:
        yield partial(_draw_parts, found=found)
    if found.get("function_seconds"):
        yield partial(_stack, found=found, label="CPUs at work", columns=_functions(found))
    elif "task_clock" in counts:
        clock = [value / 1e9 for value in _per_second(found, counts["task_clock"])]
        yield partial(_stack, found=found, label="CPUs at work", columns={"CPU time": clock})
    for label, (place, names) in CURVES.items():
        columns = found.get(place) or {}
        scaled = _per_second if place == "counts" else _plain
        known = {name: scaled(found, columns[name]) for name in names if name in columns}
        if known:
            yield partial(_curves, found=found, label=label, columns=known)
    if found.get("watched_ns"):
        yield partial(_draw_watched, found=found)


def _draw_parts(axes: Axes, found: Evidence) -> None:
    columns = {name.replace("_", " "): _plain(found, found["parts"][name]) for name in PARTS}
    _stack(axes, found, "cycles (%)", columns)
    _step(axes, found, "store buffer full", _plain(found, found["parts"]["store_buffer"]), {"color": "0"})
    axes.set_ylim(0, 100)


def _functions(found: Evidence) -> dict[str, list[float]]:
    """CPUs at work by function, those with the most time first, and all others together."""
    seconds: Mapping[str, Sequence[float]] = found["function_seconds"]
    order = sorted((name for name in seconds if name != "other"), key=lambda name: -sum(seconds[name]))
    shown, rest = order[: len(FILLS) - 1], [*order[len(FILLS) - 1 :], *(["other"] if "other" in seconds else [])]
    others = [sum(values) for values in zip(*(seconds[name] for name in rest), strict=True)]
    columns = {name: seconds[name] for name in shown} | ({"other": others} if any(others) else {})
    return {name: _per_second(found, column) for name, column in columns.items()}


def _draw_watched(axes: Axes, found: Evidence) -> None:
    axes.plot(found["watched_seconds"], found["watched_ns"], label="probing thread", **style(0))
    if found.get("idle_ns"):
        _level(axes, found["idle_ns"], f"without the program: {found['idle_ns']:.3g} ns")
    axes.set(ylabel="memory latency (ns)")


def _curves(axes: Axes, found: Evidence, label: str, columns: Mapping[str, list[float]]) -> None:
    for number, (name, column) in enumerate(columns.items()):
        _step(axes, found, name.replace("_", " "), column, line_style(number))
    axes.set(ylabel=label)
    if label.startswith("events"):
        axes.set_yscale("symlog", linthresh=1)
    if label.startswith("latency") and found.get("saturation_cycles"):
        _level(axes, found["saturation_cycles"], f"saturated above {found['saturation_cycles']:.3g}")


def _level(axes: Axes, value: float, label: str) -> None:
    axes.axhline(value, color="0.4", linestyle=":", linewidth=0.9, label=label)


def _stack(axes: Axes, found: Evidence, label: str, columns: Mapping[str, Sequence[float]]) -> None:
    """Bars of each interval's width, one column on top of the other."""
    bottom = [0.0] * len(found["start_seconds"])
    for (name, column), (grey, hatch) in zip(columns.items(), FILLS, strict=False):
        shown = literal(f" {name}" if name.startswith("_") else name)  # a legend leaves out what begins with _
        fill: dict[str, Any] = {"color": grey, "hatch": hatch, "edgecolor": "0.4", "linewidth": 0.0, "align": "edge"}
        axes.bar(found["start_seconds"], column, _lengths(found), bottom, label=shown, **fill)
        bottom = [low + value for low, value in zip(bottom, column, strict=True)]
    axes.set(ylabel=label)


def _step(axes: Axes, found: Evidence, label: str, column: list[float], drawn: Mapping[str, Any]) -> None:
    """A step curve: each value holds to the end of its interval; a missing one leaves a gap."""
    times = [*found["start_seconds"], found["end_seconds"][-1]]
    axes.step(times, [*column, column[-1]], where="post", label=label, linewidth=1.2, **drawn)


def _plain(_found: Evidence, column: Column) -> list[float]:
    return [float("nan") if value is None else float(value) for value in column]


def _lengths(found: Evidence) -> list[float]:
    return [end - start for start, end in zip(found["start_seconds"], found["end_seconds"], strict=True)]


def _per_second(found: Evidence, column: Column) -> list[float]:
    pairs = zip(_plain(found, column), _lengths(found), strict=True)
    return [value / length if length > 0 else float("nan") for value, length in pairs]


def _flag(axes: Axes, found: Evidence) -> None:
    """Shade intervals in which memory was saturated; the first of them stands in the legend."""
    drawn: dict[str, Any] = {"facecolor": "none", "edgecolor": "0.2", "hatch": "++", "alpha": 0.25, "linewidth": 0}
    flags = zip(found["start_seconds"], found["end_seconds"], found.get("saturated") or [], strict=False)
    for number, (start, end) in enumerate((start, end) for start, end, flag in flags if flag):
        axes.axvspan(start, end, label="_" if number else "memory saturated", **drawn)
