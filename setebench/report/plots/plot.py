"""Plots: one style, readable in grey, and files that come out the same from the same findings; latency over the working
set, bandwidth over the data set (Fang et al. 2014, Figure 9), and memory latency over load.

Everything draws on `matplotlib.figure.Figure` directly; pyplot, backends and global settings stay as the user has them.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setebench import store
from setebench.errors import SetebenchError, UsageError, need
from setebench.text import in_bytes, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


EXTENSIONS = (".png", ".svg", ".pdf")
SERIES = (
    ("o", "-", "0.0"),
    ("s", "--", "0.35"),
    ("^", "-.", "0.55"),
    ("D", ":", "0.2"),
    ("v", (0, (9, 3)), "0.45"),
    ("P", (0, (1, 1)), "0.1"),
)
"""Marker, line style and grey of the first, second, ... series: each alone identifies them. Further series have hollow
markers."""

SIZE, PANEL = (7.2, 4.8), 2.0
"""Inches of a figure of one pair of axes; a panel beside or below others is as wide, and so high."""

LEVEL: dict[str, Any] = {"color": "0.4", "linewidth": 0.9, "linestyle": ":"}
"""A straight line that something is held against."""

COLUMNS = 3
SMALL: dict[str, Any] = {"fontsize": 8, "frameon": False}
"""A legend, and how many columns one below a figure has."""


def check_extension(path: str | Path) -> str:
    """The file's form by its name: png, svg or pdf. Raises `UsageError` for another, and `UnsupportedError` where
    nothing is installed that draws."""
    extension = Path(path).suffix.lower()
    if extension not in EXTENSIONS:
        raise UsageError(f"a plot can't be written to {str(path)!r}; name a file that ends in {', '.join(EXTENSIONS)}")
    need("matplotlib")
    return extension[1:]


# -- building ---------------------------------------------------------------------------------------------------------


def new_figure(title: str, x: str, y: str) -> tuple[Figure, Axes]:
    """An empty figure with one pair of axes; `x` and `y` are their labels with units."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.add_subplot()
    axes.set(title=literal(title), xlabel=literal(x), ylabel=literal(y))
    axes.grid(True, which="major", color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def style(index: int, markers: bool = True) -> dict[str, Any]:
    """Keyword arguments of `Axes.plot`, `Axes.errorbar` and, without markers, others for series number `index`."""
    marker, line, grey = SERIES[index % len(SERIES)]
    drawn: dict[str, Any] = {"linestyle": line, "color": grey, "linewidth": 1.2}
    face = grey if index < len(SERIES) else "white"
    return drawn | ({"marker": marker, "markerfacecolor": face, "markersize": 4} if markers else {})


def literal(text: str) -> str:
    """`text` as it stands: a dollar sign would start mathematics, a control character ends up as a box."""
    return visible(text).replace("$", r"\$")


def shown(evidence: Mapping[str, Any], name: str, key: str = "") -> dict[str, Any]:
    """That part of the evidence. Raises `SetebenchError` where nothing in it, or below `key`, could be drawn."""
    found = store.part(evidence, name)
    if not (found.get(key) if key else any(found.values())):
        raise SetebenchError(f"there is nothing to plot: the evidence holds no {name.replace('_', ' ')}")
    return found


def sweep_figure(evidence: Mapping[str, Any]) -> Figure:
    """Load latency over the working set, from `evidence["sweep"]`.

    Its entries: `size_bytes`, `cycles`, and where they are known `low` and `high`, of equal length (None where a point
    is missing); `boundaries_bytes`, where one level ends and the next begins; `levels`, the latency of each in cycles.
    Raises `SetebenchError` where there is no point to draw.
    """
    sweep = shown(evidence, "sweep", "size_bytes")
    sizes, values = sweep["size_bytes"], sweep["cycles"]
    rows = zip(sizes, values, *(sweep.get(end) or values for end in ("low", "high")), strict=True)
    points = [(size, value, low or value, high or value) for size, value, low, high in rows if value]
    figure, axes = new_figure(
        "Load-to-use latency over the working set", "working set (bytes, log scale)", "cycles per load (log scale)"
    )
    axes.set_yscale("log")
    sizes, cycles, low, high = zip(*points, strict=True)
    errors = [[max(0.0, abs(value - end)) for value, end in zip(cycles, ends, strict=True)] for ends in (low, high)]
    label = "measured, 95 % interval" if any(map(any, errors)) else "measured"
    axes.errorbar(sizes, cycles, yerr=errors, capsize=2, label=label, **style(0))
    levels = sweep.get("levels") or {}
    known = sorted((latency, name) for name, latency in levels.items() if latency is not None)
    for index, (latency, name) in enumerate(known, start=1):
        words = literal(name if name == "memory" else name.upper())
        axes.axhline(latency, label=f"{words}: {latency:.3g} cycles", **style(index, markers=False))
    boundaries = sweep.get("boundaries_bytes") or []
    for size in boundaries:  # their sizes stand above the frame, where they hide no point
        axes.axvline(size, **LEVEL)
        text = axes.text(size, 1.01, in_bytes(size), transform=axes.get_xaxis_transform(), fontsize=8, color="0.25")
        text.set(rotation=30, ha="left", va="bottom")
    if boundaries:
        axes.set_title(axes.get_title(), pad=28)
    size_axis(axes)
    figure.legend(loc="outside lower center", ncols=COLUMNS, **SMALL)
    return figure


def size_axis(axes: Axes) -> None:
    """A logarithmic axis with ticks at powers of two, at most a dozen, written 4 KiB, 32 KiB, 1 MiB, and what is over
    it at 1, 2, 5, 10, 20, ..."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=12))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _position: in_bytes(size)))
    if axes.get_yscale() == "log":
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda cycles, _position: f"{cycles:g}"))
    axes.tick_params(axis="x", labelrotation=30)
    axes.minorticks_off()


# -- saving -----------------------------------------------------------------------------------------------------------


def alt_text(figure: Figure) -> str:
    """What the figure shows, in words, for those who can't see it."""
    parts = [figure.get_suptitle()]
    for axes in figure.axes:
        series = [text for text in axes.get_legend_handles_labels()[1] if text]
        labels = {"x": axes.get_xlabel(), "y": axes.get_ylabel(), "shown": ", ".join(series)}
        parts += [axes.get_title(), *(f"{name}: {label}" for name, label in labels.items() if label)]
    return ". ".join(part for part in parts if part).replace(r"\$", "$")


def save(figure: Figure, path: str | Path, force: bool = False) -> None:
    """Write the figure as PNG, SVG or PDF by the name's extension, whole or not at all. Raises `UsageError` for an
    unknown extension or an unwritable file."""
    form = check_extension(path)
    store.write(path, encode(figure, form), force)


def encode(figure: Figure, form: str) -> bytes:
    """The bytes of the figure as `form` (png, svg or pdf), without date or version: equal figures give equal bytes."""
    from matplotlib import rc_context

    alt = alt_text(figure)
    metadata: dict[str, str | None] = {
        "png": {"Software": None, "Description": alt},
        "pdf": {"Creator": None, "Producer": None, "CreationDate": None, "Subject": alt},
        "svg": {"Creator": None, "Date": None, "Format": None, "Type": None, "Description": alt},
    }[form]
    stream = io.BytesIO()
    # The salt makes identifiers of SVG elements depend on nothing random; rc_context puts the setting back.
    with rc_context({"svg.hashsalt": "setebench", "svg.fonttype": "path", "pdf.fonttype": 42}):
        figure.savefig(stream, format=form, dpi=150, metadata=metadata)
    return stream.getvalue()


# -- rates ------------------------------------------------------------------------------------------------------------


def bandwidth_figure(evidence: Mapping[str, Any]) -> Figure:
    """Program bandwidth from `evidence["bandwidth"]`, as the scenario leaves it, over the data set of a thread.

    Raises `SetebenchError` where nothing was measured."""
    sweeps = [sweep for sweep in shown(evidence, "bandwidth", "sweeps")["sweeps"] if sweep["size_bytes"]]
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
        threads = len(sweep["cpus"])
        label = f"{sweep['kernel']}.{sweep['width']}, {threads} thread{'s' if threads > 1 else ''}"
        axes.errorbar(sweep["size_bytes"], best, [below, [0.0] * len(best)], capsize=2, label=label, **drawn)
    size_axis(axes)
    figure.legend(loc="outside lower center", ncols=COLUMNS, **SMALL)
    return figure


def loaded_latency_figure(evidence: Mapping[str, Any]) -> Figure:
    """Latency over bandwidth, one series per number of loading threads, from `evidence["loaded_latency"]`.

    Raises `SetebenchError` where no load point was measured."""
    found = shown(evidence, "loaded_latency", "points")
    points = found["points"]
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
