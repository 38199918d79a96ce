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

Point = Mapping[str, Any]
Drawing = Callable[["Axes", Sequence[Point]], None]


def draw(evidence: Mapping[str, Any]) -> Figure:
    """The figure that was asked for. Raises `SetebenchError` where nothing was counted."""
    found = evidence.get("counter_curves") or {}
    if not found.get("points"):
        raise SetebenchError("there is nothing to plot: the evidence holds no curve")
    name = found["figure"]
    title, x, y, drawing = _FIGURES[name]
    paper, _, number = name.partition("-")
    source = {"helm": "Helm and Taura 2019", "molka": "Molka et al. 2017"}[paper]
    figure, axes = new_figure(f"{title}\n(after {source}, Figure {number})", x, y)
    axes.title.set_fontsize(10)
    drawing(axes, found["points"])
    axes.set_ylim(bottom=0)
    if name == "helm-9" and found.get("threshold_cycles"):
        label = f"saturated above {found['threshold_cycles']:.0f} cycles"
        axes.axhline(found["threshold_cycles"], color="0.3", linestyle=":", linewidth=0.9, label=label)
    figure.legend(loc="outside lower center", ncols=3, fontsize=7, frameon=False)
    return figure


def _mean(values: float | Sequence[float | None]) -> float:
    """Of what is known of repeats; a setting has one value."""
    if isinstance(values, (int, float)):
        return values
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else float("nan")


# -- the throttled reader -----------------------------------------------------------------------------------------


def _latencies(axes: Axes, points: Sequence[Point]) -> None:
    """Both latencies over bandwidth, prefetchers off where they can be."""
    off = [point for point in points if not point["prefetchers"]]
    for index, (name, label) in enumerate((("l1_miss_latency", "L1-miss"), ("load_miss_latency", "load-miss"))):
        own = sorted((_mean(p["gb_per_s"]), _mean(p[name])) for p in off or points)
        known = f"{label} latency, prefetchers {'off' if off else 'on'}"
        axes.plot(*zip(*own, strict=True), label=known, **style(index) | {"linestyle": ""})


def _curves(prefetchers: bool, by: str, x: str, y: str) -> Drawing:
    """Means of one figure over another of the throttled reader, a curve for each number of threads or delay."""

    def drawing(axes: Axes, points: Sequence[Point]) -> None:
        chosen = [point for point in points if point["prefetchers"] == prefetchers]
        if not chosen:
            raise SetebenchError("this figure needs prefetchers switched off, which this machine does not allow")
        for index, value in enumerate(sorted({point[by] for point in chosen})):
            own = sorted((_mean(p[x]), _mean(p[y])) for p in chosen if p[by] == value)
            unit = "no-operations" if by == "delay" else f"thread{'s' if value > 1 else ''}"
            axes.plot(*zip(*own, strict=True), label=f"{value} {unit}", **style(index))

    return drawing


def _variations(axes: Axes, points: Sequence[Point]) -> None:
    for index, name in enumerate(("load_miss_latency", "l1_miss_latency")):
        repeats = [[value for value in point[name] if value] for point in points]
        found = [100 * np.std(values, ddof=1) / np.mean(values) for values in repeats if len(values) > 1]
        bins = np.linspace(0, max([1.0, *found]), 21).tolist()
        label = f"{name.replace('_', ' ')}: mean {np.mean(found):.2g} %"
        axes.hist(found, bins, label=label, linewidth=0.6, **_fill(("0.6", "none")[index], index))


def _fill(colour: str, index: int) -> dict[str, Any]:
    return {"facecolor": colour, "hatch": ("", "///")[index % 2], "edgecolor": "0"}


def _volumes(axes: Axes, points: Sequence[Point]) -> None:
    roles = [role for role in points[0]["bytes"] if any(p["bytes"][role] is not None for p in points)]
    width = 0.8 / len(points)
    for index, point in enumerate(points):
        values = [(point["bytes"][role] or 0.0) / 1e6 for role in roles]
        label = f"prefetchers {'on' if point['prefetchers'] else 'off'}"
        at = np.arange(len(roles)) + index * width
        axes.bar(at, values, width, label=label, **_fill(("0.3", "0.75")[index % 2], index))
    for key, done, linestyle in (("read", "read", "--"), ("write", "written", ":")):
        volume = points[0][f"expected_{key}_bytes"] / 1e6
        axes.axhline(volume, color="0", linestyle=linestyle, linewidth=0.9, label=f"{done}, by the code")
    axes.set_xticks(np.arange(len(roles)) + 0.4 - width / 2, roles, rotation=20)


# -- working sets -------------------------------------------------------------------------------------------------


def _over_size(by: str, chosen: Sequence[str], counts: str, *roles: str) -> Drawing:
    """What each chosen kernel or chase causes for each line or step, by role, over the working set; of a chase also the
    time of a step."""

    def drawing(axes: Axes, points: Sequence[Point]) -> None:
        index = 0
        for each in chosen:
            own = [point for point in points if point[by] == each]
            columns = {role: [point[counts].get(role) for point in own] for role in roles}
            if by == "work":
                columns = {"time of a step": [point["elapsed"] for point in own], **columns}
            for name, values in columns.items():
                if any(value is not None for value in values):
                    sizes, label = [point["bytes"] for point in own], f"{name}, {each}" if each else name
                    axes.set_xscale("log", base=2)
                    axes.plot(sizes, [np.nan if v is None else v for v in values], label=label, **style(index))
                    size_axis(axes, sizes)
                    index += 1

    return drawing


def _per_line(kernels: Sequence[str], *roles: str) -> Drawing:
    return _over_size("kernel", kernels, "per_line", *roles)


def _chase(*works: str) -> Drawing:
    return _over_size("work", works, "per_step", "stall_load_any", "stall_l1d_miss", "no_execute")


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
    "molka-7": ("Stalls of a chase", _SIZE, _STEPS, _chase("")),
    "molka-8": ("Stalls of a chase with 24 multiplications a step", _SIZE, _STEPS, _chase("free", "chained")),
    "molka-9": ("Stalls of streams", _SIZE, _CYCLES, _BUFFERS),
}
"""Title, labels and drawing of each figure."""

NAMES = tuple(_FIGURES)
