"""The papers' figures, from the counts of whatever machine was asked. Readable in grey."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from setebench.errors import SetebenchError
from setebench.report.plots.plot import new_figure, size_axis, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Evidence = Mapping[str, Any]
Point = Mapping[str, Any]
Drawing = Callable[["Axes", Sequence[Point]], None]

LATENCIES = {"l1_miss_latency": "L1-miss latency", "load_miss_latency": "load-miss latency"}


def draw(evidence: Evidence) -> Figure:
    """The figure that was asked for. Raises `SetebenchError` where nothing was counted."""
    found = evidence.get("counter_curves") or {}
    points = found.get("points")
    if not points:
        raise SetebenchError("there is nothing to plot: the evidence holds no curve")
    name = found["figure"]
    title, x, y, drawing = _FIGURES[name]
    figure, axes = new_figure(f"{title}\n(after {_source(name)})", x, y)
    axes.title.set_fontsize(10)
    drawing(axes, points)
    axes.set_ylim(bottom=0)
    if name == "helm-9" and found.get("threshold_cycles"):
        label = f"saturated above {found['threshold_cycles']:.0f} cycles"
        axes.axhline(found["threshold_cycles"], color="0.3", linestyle=":", linewidth=0.9, label=label)
    figure.legend(loc="outside lower center", ncols=3, fontsize=7, frameon=False)
    return figure


def _source(name: str) -> str:
    paper, _, number = name.partition("-")
    return f"{'Helm and Taura 2019' if paper == 'helm' else 'Molka et al. 2017'}, Figure {number}"


def _mean(values: float | Sequence[float | None]) -> float:
    """Of what is known of repeats; a setting has one value."""
    if isinstance(values, (int, float)):
        return values
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else float("nan")


# -- the throttled reader -----------------------------------------------------------------------------------------


def _chosen(points: Sequence[Point], prefetchers: bool) -> list[Point]:
    """Points with prefetchers on or off. Raises `SetebenchError` where they could not be switched off."""
    chosen = [point for point in points if point["prefetchers"] == prefetchers]
    if not chosen:
        raise SetebenchError("this figure needs prefetchers switched off, which this machine does not allow")
    return chosen


def _latencies(axes: Axes, points: Sequence[Point]) -> None:
    """Both latencies over bandwidth, prefetchers off where they can be."""
    off = [point for point in points if not point["prefetchers"]]
    for index, (name, label) in enumerate(LATENCIES.items()):
        own = sorted((_mean(p["gb_per_s"]), _mean(p[name])) for p in off or points)
        known = f"{label}, prefetchers {'off' if off else 'on'}"
        axes.plot(*zip(*own, strict=True), label=known, **style(index) | {"linestyle": ""})


def _curves(prefetchers: bool, by: str, x: str, y: str) -> Drawing:
    """Means of one figure over another of the throttled reader, a curve for each number of threads or delay."""

    def drawing(axes: Axes, points: Sequence[Point]) -> None:
        chosen = _chosen(points, prefetchers)
        for index, value in enumerate(sorted({point[by] for point in chosen})):
            own = sorted((_mean(p[x]), _mean(p[y])) for p in chosen if p[by] == value)
            unit = "no-operations" if by == "delay" else f"thread{'s' if value > 1 else ''}"
            axes.plot(*zip(*own, strict=True), label=f"{value} {unit}", **style(index))

    return drawing


def _variations(axes: Axes, points: Sequence[Point]) -> None:
    for index, name in enumerate(("load_miss_latency", "l1_miss_latency")):
        found = [
            100 * np.std(values, ddof=1) / np.mean(values)
            for p in points
            if len(values := [v for v in p[name] if v]) > 1
        ]
        bins = np.linspace(0, max([1.0, *found]), 21).tolist()
        fill: dict[str, Any] = {"facecolor": ("0.6", "none")[index], "hatch": ("", "///")[index], "edgecolor": "0"}
        axes.hist(found, bins, label=f"{name.replace('_', ' ')}: mean {np.mean(found):.2g} %", linewidth=0.6, **fill)


def _volumes(axes: Axes, points: Sequence[Point]) -> None:
    roles = [role for role in points[0]["bytes"] if any(p["bytes"][role] is not None for p in points)]
    width = 0.8 / len(points)
    for index, point in enumerate(points):
        at = np.arange(len(roles)) + index * width
        values = [(point["bytes"][role] or 0.0) / 1e6 for role in roles]
        fill: dict[str, Any] = {"color": ("0.3", "0.75")[index % 2], "hatch": ("", "///")[index % 2], "edgecolor": "0"}
        axes.bar(at, values, width, label=f"prefetchers {'on' if point['prefetchers'] else 'off'}", **fill)
    for key, done, linestyle in (("read", "read", "--"), ("write", "written", ":")):
        volume = points[0][f"expected_{key}_bytes"] / 1e6
        axes.axhline(volume, color="0", linestyle=linestyle, linewidth=0.9, label=f"{done}, by the code")
    axes.set_xticks(np.arange(len(roles)) + 0.4 - width / 2, roles, rotation=20)


# -- working sets -------------------------------------------------------------------------------------------------


def _per_line(kernels: Sequence[str], *roles: str) -> Drawing:
    """What streams of these kernels cause for each line that they use, by role."""

    def drawing(axes: Axes, points: Sequence[Point]) -> None:
        index = 0
        for kernel in kernels:
            own = [point for point in points if point["kernel"] == kernel]
            for role in roles:
                if any(point["per_line"].get(role) is not None for point in own):
                    values = [point["per_line"].get(role) for point in own]
                    _over_size(axes, [point["bytes"] for point in own], values, f"{role}, {kernel}", index)
                    index += 1

    return drawing


def _over_size(axes: Axes, sizes: Sequence[int], values: Sequence[float | None], label: str, index: int) -> None:
    axes.set_xscale("log", base=2)
    axes.plot(sizes, [np.nan if value is None else value for value in values], label=label, **style(index))
    size_axis(axes, sizes)


def _chase(works: Sequence[str]) -> Drawing:
    names = {"": "", "free": ", free", "chained": ", chained"}

    def drawing(axes: Axes, points: Sequence[Point]) -> None:
        index = 0
        for work in works:
            own = [point for point in points if point["work"] == work]
            sizes = [point["bytes"] for point in own]
            _over_size(axes, sizes, [point["elapsed"] for point in own], f"time of a step{names[work]}", index)
            for role in ("stall_load_any", "stall_l1d_miss", "no_execute"):
                index += 1
                if any(point["per_step"].get(role) is not None for point in own):
                    _over_size(axes, sizes, [p["per_step"].get(role) for p in own], role + names[work], index)
            index += 1

    return drawing


_THROTTLED = {on: _curves(on, "threads", "delay", "gb_per_s") for on in (False, True)}
_BOTH = ("load", "store")
_LOADS = _per_line(("load",), "load_l1_miss", "load_fb_hit", "load")
_FILLS = _per_line(_BOTH, "l1d_fill", "l2_rfo", "l2_rfo_miss", "l2_fill", "offcore_mem_read")
_WRITEBACKS = _per_line(("store",), "l1d_writeback", "l2_writeback", "mem_write")
_MEMORY = _per_line(_BOTH, "mem_read", "home_read", "mem_write", "home_write")
_BUFFERS = _per_line(_BOTH, "no_execute", "stall_l1d_miss", "stall_store_buffer", "fb_full", "sq_full")

_DELAY, _RATE = "no-operations behind four lines", "lines read (GB/s)"
_SIZE, _LATENCY = "working set (bytes, log scale)", "latency (cycles)"
_LINES, _CYCLES, _STEPS = "events per line used", "cycles per line used", "cycles per step"

_FIGURES: dict[str, tuple[str, str, str, Drawing]] = {
    "helm-3": ("Bandwidth of a throttled reader, prefetchers off", _DELAY, _RATE, _THROTTLED[False]),
    "helm-4": ("Bandwidth of a throttled reader, prefetchers on", _DELAY, _RATE, _THROTTLED[True]),
    "helm-6": ("Volume of a triad, by role", "role", "10^6 bytes", _volumes),
    "helm-8": ("Latencies by counters over load", _RATE, _LATENCY, _latencies),
    "helm-9": ("Load-miss latency over load", _RATE, _LATENCY, _curves(True, "delay", "gb_per_s", "load_miss_latency")),
    "helm-10": ("L1-miss latency over load", _RATE, _LATENCY, _curves(True, "delay", "gb_per_s", "l1_miss_latency")),
    "helm-11": ("Repeatability of latencies", "coefficient of variation (%)", "load points", _variations),
    "molka-3": ("Loads by what the first level says of them", _SIZE, _LINES, _LOADS),
    "molka-4": ("Lines that come from each level", _SIZE, _LINES, _FILLS),
    "molka-5": ("Lines that are written back", _SIZE, _LINES, _WRITEBACKS),
    "molka-6": ("Lines of memory, by its controllers", _SIZE, _LINES, _MEMORY),
    "molka-7": ("Stalls of a chase", _SIZE, _STEPS, _chase(("",))),
    "molka-8": ("Stalls of a chase with 24 multiplications a step", _SIZE, _STEPS, _chase(("free", "chained"))),
    "molka-9": ("Stalls of streams", _SIZE, _CYCLES, _BUFFERS),
}
"""Title, labels and drawing of each figure."""

NAMES = tuple(_FIGURES)
