"""The plot of a program over time: its cycles by cause, or else its CPU time by function; latencies, traffic, and what
the system did. Readable in grey."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from setebench.errors import SetebenchError
from setebench.report.plots.plot import literal, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PARTS = (
    ("productive", "productive", "0.95", ""),
    ("other_stalls", "other stalls", "0.8", "..."),
    ("memory_latency", "memory latency", "0.6", "///"),
    ("memory_bandwidth", "memory bandwidth", "0.3", "\\\\\\"),
)
"""Part of the cycles, its label, grey and hatching: each differs from its neighbours by both."""

FILLS = (("0.3", ""), ("0.6", "///"), ("0.8", "..."), ("0.9", "xxx"), ("0.5", "\\\\\\"), ("0.97", ""))
"""Grey and hatching of the first, second, ... function; the last is that of all others."""

RATES = (("page_fault", "page faults"), ("context_switch", "context switches"), ("cpu_migration", "migrations"))
LATENCIES = (("l1_miss_latency", "L1-miss latency"), ("load_miss_latency", "load-miss latency"))
TRAFFIC = (("memory_read", "read"), ("memory_write", "written"))

Evidence = Mapping[str, Any]


def timeline_figure(evidence: Evidence) -> Figure:
    """One panel under the other over the seconds of the run, from `evidence["diagnose"]`. A panel without data is left
    out. Raises `SetebenchError` where there is nothing to draw."""
    found: Evidence = evidence.get("diagnose") or {}
    panels = [draw for has, draw in _PANELS if has(found)] if found.get("start_seconds") else []
    if not panels:
        raise SetebenchError("there is nothing to plot: the program ended before anything was counted")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 1.2 + 1.9 * len(panels)), layout="constrained")
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axis, draw in zip(axes, panels, strict=True):
        axis.grid(True, color="0.9", linewidth=0.6)
        axis.set_axisbelow(True)
        draw(axis, found)
        _flag(axis, found)
        axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7, frameon=False)
    axes[0].set_title(literal(_title(found)), fontsize=10)
    axes[-1].set_xlabel("time since the program began (s)")
    axes[-1].set_xlim(found["start_seconds"][0], found["end_seconds"][-1])
    return figure


def _title(found: Evidence) -> str:
    words = " ".join(found.get("program") or ["a program"])
    shown = words if len(words) <= 60 else words[:57] + "..."
    return f"{shown} (simulated counts)" if found.get("source") == "simulated" else shown


# -- panels -------------------------------------------------------------------------------------------------------


def _draw_parts(axes: Axes, found: Evidence) -> None:
    columns = [_numbers(found["parts"][name]) for name, _, _, _ in PARTS]
    _stack(axes, found, columns, [(label, grey, hatch) for _, label, grey, hatch in PARTS])
    axes.step(
        *_steps(found, found["parts"]["store_buffer"]),
        where="post",
        color="0",
        linewidth=1.0,
        label="store buffer full",
    )
    axes.set(ylabel="cycles (%)", ylim=(0, 100))


def _draw_functions(axes: Axes, found: Evidence) -> None:
    lengths = [end - start for start, end in zip(found["start_seconds"], found["end_seconds"], strict=True)]
    seconds: Mapping[str, Sequence[float]] = found["function_seconds"]
    order = sorted((name for name in seconds if name != "other"), key=lambda name: -sum(seconds[name]))
    shown, rest = order[: len(FILLS) - 1], order[len(FILLS) - 1 :]
    columns = [_busy(seconds[name], lengths) for name in shown]
    others = [
        sum(values) for values in zip(*(seconds[name] for name in (*rest, "other") if name in seconds), strict=True)
    ]
    labels = [(_label(name), *FILLS[number]) for number, name in enumerate(shown)]
    if any(others):
        columns.append(_busy(others, lengths))
        labels.append(("other", *FILLS[-1]))
    _stack(axes, found, columns, labels)
    axes.set(ylabel="CPUs at work")
    axes.set_ylim(bottom=0)


def _label(name: str) -> str:
    """A name for the legend, which leaves out what begins with an underscore."""
    return literal(f" {name}" if name.startswith("_") else name)


def _draw_clock(axes: Axes, found: Evidence) -> None:
    lengths = [end - start for start, end in zip(found["start_seconds"], found["end_seconds"], strict=True)]
    column = _busy([(value or 0) / 1e9 for value in found["counts"]["task_clock"]], lengths)
    _stack(axes, found, [column], [("CPU time", "0.6", "")])
    axes.set(ylabel="CPUs at work")
    axes.set_ylim(bottom=0)


def _draw_latencies(axes: Axes, found: Evidence) -> None:
    _lines(axes, found, found["metrics"], LATENCIES)
    threshold = found.get("saturation_cycles")
    if threshold:
        axes.axhline(threshold, color="0.3", linestyle=":", linewidth=0.9, label=f"saturated above {threshold:.3g}")
    axes.set(ylabel="latency (cycles)")
    axes.set_ylim(bottom=0)


def _draw_traffic(axes: Axes, found: Evidence) -> None:
    _lines(axes, found, found["metrics"], TRAFFIC)
    axes.set(ylabel="memory (GB/s)")
    axes.set_ylim(bottom=0)


def _draw_rates(axes: Axes, found: Evidence) -> None:
    lengths = [end - start for start, end in zip(found["start_seconds"], found["end_seconds"], strict=True)]
    counts = found["counts"]
    rates = {name: _per_second(counts[name], lengths) for name, _ in RATES if name in counts}
    _lines(axes, found, rates, RATES)
    axes.set(ylabel="events per second")
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=0)


def _draw_watched(axes: Axes, found: Evidence) -> None:
    axes.plot(found["watched_seconds"], found["watched_ns"], label="probing thread", **style(0))
    if found.get("idle_ns"):
        label = f"without the program: {found['idle_ns']:.3g} ns"
        axes.axhline(found["idle_ns"], color="0.4", linestyle=":", linewidth=0.9, label=label)
    axes.set(ylabel="memory latency (ns)")
    axes.set_ylim(bottom=0)


def _has_rates(found: Evidence) -> bool:
    return any(name in (found.get("counts") or {}) for name, _ in RATES)


def _has_metrics(found: Evidence, wanted: Sequence[tuple[str, str]]) -> bool:
    return any(name in (found.get("metrics") or {}) for name, _ in wanted)


_PANELS = (
    (lambda found: bool(found.get("parts")), _draw_parts),
    (lambda found: bool(found.get("function_seconds")), _draw_functions),
    (lambda found: not found.get("function_seconds") and "task_clock" in (found.get("counts") or {}), _draw_clock),
    (lambda found: _has_metrics(found, LATENCIES), _draw_latencies),
    (lambda found: _has_metrics(found, TRAFFIC), _draw_traffic),
    (lambda found: bool(found.get("watched_ns")), _draw_watched),
    (_has_rates, _draw_rates),
)
"""Whether there is something for a panel, and how it is drawn."""


# -- parts of panels ----------------------------------------------------------------------------------------------


def _stack(
    axes: Axes, found: Evidence, columns: Sequence[Sequence[float]], labels: Sequence[tuple[str, str, str]]
) -> None:
    """Bars of each interval's width, one column on top of the other."""
    starts = found["start_seconds"]
    widths = [end - start for start, end in zip(starts, found["end_seconds"], strict=True)]
    bottom = [0.0] * len(starts)
    for column, (label, grey, hatch) in zip(columns, labels, strict=True):
        fill: dict[str, Any] = {"color": grey, "hatch": hatch, "edgecolor": "0.4", "linewidth": 0.0}
        axes.bar(starts, column, widths, bottom=bottom, align="edge", label=label, **fill)
        bottom = [low + value for low, value in zip(bottom, column, strict=True)]


def _lines(
    axes: Axes, found: Evidence, columns: Mapping[str, Sequence[float | None]], wanted: Sequence[tuple[str, str]]
) -> None:
    for number, (name, label) in enumerate(wanted):
        if name in columns:
            fill = {key: value for key, value in style(number).items() if key in ("linestyle", "color")}
            axes.step(*_steps(found, columns[name]), where="post", label=label, linewidth=1.2, **fill)


def _steps(found: Evidence, column: Sequence[float | None]) -> tuple[list[float], list[float]]:
    """Times and values of a step curve: each value holds to the end of its interval; a missing one leaves a gap."""
    values = _numbers(column)
    return [*found["start_seconds"], found["end_seconds"][-1]], [*values, values[-1]]


def _numbers(column: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else float(value) for value in column]


def _busy(seconds: Sequence[float], lengths: Sequence[float]) -> list[float]:
    return [value / length if length > 0 else 0.0 for value, length in zip(seconds, lengths, strict=True)]


def _per_second(counts: Sequence[int | None], lengths: Sequence[float]) -> list[float | None]:
    return [
        None if count is None or length <= 0 else count / length for count, length in zip(counts, lengths, strict=True)
    ]


def _flag(axes: Axes, found: Evidence) -> None:
    """Shade intervals in which memory was saturated; the first of them stands in the legend."""
    label = "memory saturated"
    for start, end, flag in zip(
        found["start_seconds"], found["end_seconds"], found.get("saturated") or [], strict=False
    ):
        if flag:
            axes.axvspan(
                start, end, facecolor="none", edgecolor="0.2", hatch="++", alpha=0.25, linewidth=0, label=label
            )
            label = "_"
