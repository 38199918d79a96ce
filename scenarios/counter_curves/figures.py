"""The figures of the two papers: which experiment provides the points of each, and how they are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from setebench.errors import SetebenchError
from setebench.report.plots.plot import new_figure, size_axis, style
from setebench.scenario import Context

from .experiments import CHASE_ROLES, LATENCIES, Params, Point, chases, reader, streams, unaided, volumes

if TYPE_CHECKING:  # only loaded for a plot
    from matplotlib.figure import Figure as Picture


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of an experiment's points: the `statistic` of the repeats of each quantity in `y` over the setting `x`,
    in one curve per value of the setting `by`. If `only` has values of a setting, points with others aren't drawn."""

    title: str
    experiment: Callable[[Context, Params], Iterator[Point]]
    x: str
    y: tuple[str, ...]
    labels: tuple[str, str]
    by: str = ""
    only: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    statistic: Callable[[list[float]], Any] = np.mean


_RATE, _BYTES = "lines read (GB/s)", "working set (bytes, log scale)"


def variation(values: list[float]) -> float:
    """Return the coefficient of variation of the values, in percent; 0 of a single value."""
    return float(100 * np.std(values, ddof=1) / np.mean(values)) if len(values) > 1 else 0.0


def _throttled(title: str, experiment: Callable[[Context, Params], Iterator[Point]]) -> Figure:
    labels = ("no-operations behind four lines", _RATE)
    return Figure(title=title, experiment=experiment, x="delay", y=("gb_per_s",), labels=labels, by="threads")


def _over_load(title: str, y: Sequence[str], by: str = "", **how: Any) -> Figure:
    labels = (_RATE, how.pop("label", "latency (cycles)"))
    return Figure(title=title, experiment=reader, x="gb_per_s", y=tuple(y), labels=labels, by=by, **how)


def _streamed(title: str, *roles: str, kernels: Sequence[str] = ("load", "store")) -> Figure:
    labels, only = (_BYTES, "events per line used"), {"kernel": kernels}
    return Figure(title=title, experiment=streams, x="bytes", y=roles, labels=labels, by="kernel", only=only)


def _chased(title: str, *works: str) -> Figure:
    y, labels, only = ("time of a step", *CHASE_ROLES), (_BYTES, "cycles per step"), {"work": works}
    return Figure(title=title, experiment=chases, x="bytes", y=y, labels=labels, by="work", only=only)


FIGURES = {
    "helm-3": _throttled("Bandwidth of a throttled reader, prefetchers off", unaided),
    "helm-4": _throttled("Bandwidth of a throttled reader", reader),
    "helm-6": Figure(
        title="Volume of a triad, by role", experiment=volumes, x="role", y=("mbytes",), labels=("role", "10^6 bytes")
    ),
    "helm-8": _over_load("Latencies by counters over load", LATENCIES),
    "helm-9": _over_load("Load-miss latency over load", LATENCIES[1:], by="delay"),
    "helm-10": _over_load("L1-miss latency over load", LATENCIES[:1], by="delay"),
    "helm-11": _over_load(
        "Repeatability of latencies", LATENCIES, statistic=variation, label="coefficient of variation (%)"
    ),
    "molka-3": _streamed(
        "Loads by what the first level says of them", "load_l1_miss", "load_fb_hit", "load", kernels=("load",)
    ),
    "molka-4": _streamed(
        "Lines that come from each level", "l1d_fill", "l2_rfo", "l2_rfo_miss", "l2_fill", "offcore_mem_read"
    ),
    "molka-5": _streamed(
        "Lines that are written back", "l1d_writeback", "l2_writeback", "mem_write", kernels=("store",)
    ),
    "molka-6": _streamed("Lines of memory, by its controllers", "mem_read", "home_read", "mem_write", "home_write"),
    "molka-7": _chased("Stalls of a chase", ""),
    "molka-8": _chased("Stalls of a chase with 24 multiplications a step", "free", "chained"),
    "molka-9": _streamed(
        "Stalls of streams (cycles)", "no_execute", "stall_l1d_miss", "stall_store_buffer", "fb_full", "sq_full"
    ),
}


def draw(evidence: Mapping[str, Any]) -> Picture:
    """Return the matplotlib figure of the evidence's points. Raises `SetebenchError` where the evidence has none."""
    found = evidence.get("counter_curves") or {}
    if not found.get("points"):
        raise SetebenchError("there is nothing to plot: the evidence holds no curve")
    name, drawn = found["figure"], FIGURES[found["figure"]]
    points = [point for point in found["points"] if all(point[each] in drawn.only[each] for each in drawn.only)]
    paper, _, number = name.partition("-")
    source = {"helm": "Helm and Taura 2019", "molka": "Molka et al. 2017"}[paper]
    picture, axes = new_figure(f"{drawn.title}\n(after {source}, Figure {number})", *drawn.labels)
    axes.title.set_fontsize(10)
    if drawn.x == "bytes":
        axes.set_xscale("log", base=2)
        size_axis(axes)
    elif drawn.x == "role":
        axes.tick_params("x", labelrotation=25)
    index = 0
    for setting in dict.fromkeys(point.get(drawn.by) for point in points):
        for y in drawn.y:
            own = [point for point in points if point.get(drawn.by) == setting and point.get(y)]
            curve = [(_value(point[drawn.x]), _value(point[y], drawn.statistic)) for point in own]
            if drawn.x == "gb_per_s":
                curve.sort()
            if curve:
                label = y.replace("_", " ") if len(drawn.y) > 1 else ""
                label += f"{', ' if label else ''}{drawn.by} {setting}" if setting not in (None, "") else ""
                axes.plot(*zip(*curve, strict=True), label=label or y, **style(index))
                index += 1
    axes.set_ylim(bottom=0)
    if name == "helm-9" and found.get("threshold_cycles"):
        label = f"saturated above {found['threshold_cycles']:.0f} cycles"
        axes.axhline(found["threshold_cycles"], color="0.3", linestyle=":", linewidth=0.9, label=label)
    picture.legend(loc="outside lower center", ncols=3, fontsize=7, frameon=False)
    return picture


def _value(values: Any, statistic: Callable[[list[float]], Any] = np.mean) -> Any:
    """Return the number to draw for a point's value: the statistic of a list of repeats, or a setting unchanged."""
    return float(statistic(values)) if isinstance(values, list) else values
