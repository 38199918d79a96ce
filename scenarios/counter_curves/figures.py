"""The figures of the papers: what is counted for each, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from setebench.errors import SetebenchError
from setebench.report.plots.plot import new_figure, size_axis, style
from setebench.scenario import Context

from .experiments import LATENCIES, Params, Point, chases, reader, streams, volumes

if TYPE_CHECKING:  # only loaded for a plot
    from matplotlib.figure import Figure as Picture


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure: means of the values `y` of those points that are `only`, over `x`, a curve for each value `y` and
    each setting of `by`. `spread`: their coefficients of variation instead, in percent."""

    title: str
    experiment: Callable[[Context, Params], Iterator[Point]]
    x: str
    y: tuple[str, ...]
    labels: tuple[str, str]
    by: str = ""
    only: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    spread: bool = False


_RATE, _DELAY, _BYTES = "lines read (GB/s)", "no-operations behind four lines", "working set (bytes, log scale)"
_LINES, _STEPS, _LATENCY = "events per line used", "cycles per step", "latency (cycles)"
_ON, _OFF = {"prefetchers": (True,)}, {"prefetchers": (False,)}
_STALLS = ("no_execute", "stall_l1d_miss", "stall_load_any")


def _throttled(title: str, only: Mapping[str, Sequence[Any]]) -> Figure:
    labels = (_DELAY, _RATE)
    return Figure(title=title, experiment=reader, x="delay", y=("gb_per_s",), labels=labels, by="threads", only=only)


def _over_load(title: str, **how: Any) -> Figure:
    return Figure(title=title, experiment=reader, x="gb_per_s", **{"labels": (_RATE, _LATENCY), **how})


def _streamed(title: str, *roles: str, label: str = _LINES, kernels: Sequence[str] = ("load", "store")) -> Figure:
    only = {"kernel": kernels}
    return Figure(title=title, experiment=streams, x="bytes", y=roles, labels=(_BYTES, label), by="kernel", only=only)


def _chased(title: str, *works: str) -> Figure:
    y, only = ("time of a step", *_STALLS), {"work": works}
    return Figure(title=title, experiment=chases, x="bytes", y=y, labels=(_BYTES, _STEPS), by="work", only=only)


FIGURES = {
    "helm-3": _throttled("Bandwidth of a throttled reader, prefetchers off", _OFF),
    "helm-4": _throttled("Bandwidth of a throttled reader, prefetchers on", _ON),
    "helm-6": Figure(
        title="Volume of a triad, by role",
        experiment=volumes,
        x="role",
        y=("mbytes",),
        labels=("role", "10^6 bytes"),
        by="prefetchers",
    ),
    "helm-8": _over_load("Latencies by counters over load", y=LATENCIES, by="prefetchers"),
    "helm-9": _over_load("Load-miss latency over load", y=("load_miss_latency",), by="delay", only=_ON),
    "helm-10": _over_load("L1-miss latency over load", y=("l1_miss_latency",), by="delay", only=_ON),
    "helm-11": _over_load(
        "Repeatability of latencies", y=LATENCIES, spread=True, labels=(_RATE, "coefficient of variation (%)")
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
        "Stalls of streams",
        *("no_execute", "stall_l1d_miss", "stall_store_buffer", "fb_full", "sq_full"),
        label="cycles per line used",
    ),
}


def draw(evidence: Mapping[str, Any]) -> Picture:
    """The figure that was counted. Raises `SetebenchError` where nothing was, or nothing that it shows."""
    found = evidence.get("counter_curves") or {}
    if not found.get("points"):
        raise SetebenchError("there is nothing to plot: the evidence holds no curve")
    name, known = found["figure"], FIGURES[found["figure"]]
    points = [point for point in found["points"] if all(point[each] in known.only[each] for each in known.only)]
    if not points:
        raise SetebenchError("this figure needs prefetchers switched off, which this machine does not allow")
    paper, _, number = name.partition("-")
    source = {"helm": "Helm and Taura 2019", "molka": "Molka et al. 2017"}[paper]
    picture, axes = new_figure(f"{known.title}\n(after {source}, Figure {number})", *known.labels)
    axes.title.set_fontsize(10)
    if known.x == "bytes":
        axes.set_xscale("log", base=2)
        size_axis(axes, sorted({point["bytes"] for point in points}))
    settings = dict.fromkeys(point[known.by] for point in points) if known.by else [None]
    index = 0
    for setting in settings:
        for y in known.y:
            own = [point for point in points if not known.by or point[known.by] == setting]
            curve = [(_value(point[known.x]), _value(point[y], known.spread)) for point in own if point.get(y)]
            if known.x == "gb_per_s":
                curve.sort()
            if curve:
                label = y.replace("_", " ") if len(known.y) > 1 else ""
                label += f"{', ' if label else ''}{known.by} {setting}" if setting not in (None, "") else ""
                axes.plot(*zip(*curve, strict=True), label=label or y, **style(index))
                index += 1
    axes.set_ylim(bottom=0)
    if name == "helm-9" and found.get("threshold_cycles"):
        label = f"saturated above {found['threshold_cycles']:.0f} cycles"
        axes.axhline(found["threshold_cycles"], color="0.3", linestyle=":", linewidth=0.9, label=label)
    picture.legend(loc="outside lower center", ncols=3, fontsize=7, frameon=False)
    return picture


def _value(values: Any, spread: bool = False) -> Any:
    """A setting as it is, of repeats the mean, or their coefficient of variation in percent."""
    if not isinstance(values, list):
        return values
    return float(100 * np.std(values, ddof=len(values) > 1) / np.mean(values) if spread else np.mean(values))
