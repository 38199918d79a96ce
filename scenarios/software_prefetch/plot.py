"""Where prefetched lines were found, and stores to lines that other cores held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from setebench.errors import SetebenchError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAMES = {"loaded": "just loaded", "evicted": "pushed out of L1", "flushed": "flushed"}
_KINDS = {"own": "own line", "none": "not prefetched"}


def draw(evidence: Mapping[str, Any]) -> Figure:
    """Cycles of a load after each hint, between those of lines that were loaded, pushed out of level 1 and flushed,
    from `evidence["prefetched"]`; beside it, where other cores were at hand, cycles per store over how many held the
    line, from `evidence["store_after"]` (the paper's Figure 5). Raises `SetebenchError` where there is nothing."""
    from matplotlib.figure import Figure  # only loaded for a plot

    prefetched = evidence.get("prefetched")
    if not isinstance(prefetched, Mapping) or not prefetched:
        raise SetebenchError("there is nothing to plot: the evidence holds no prefetched lines")
    stores = evidence.get("store_after")
    figure = Figure(figsize=(10.0 if stores else 7.2, 5.2), layout="constrained")
    panels = figure.subplots(1, 2 if stores else 1, squeeze=False, width_ratios=[3, 2] if stores else None)[0]
    _draw_lines(panels[0], prefetched)
    if stores:
        _draw_stores(panels[1], stores["cycles_by_holders"])
    return figure


def _draw_lines(axes: Axes, cycles: Mapping[str, float]) -> None:
    """Bars from the fastest to the slowest, controls in grey."""
    rows = sorted(cycles.items(), key=lambda row: row[1])
    labels = [_NAMES.get(name, f"prefetched by {name}") for name, _ in rows]
    shades = ["0.75" if name in _NAMES else "0.25" for name, _ in rows]
    axes.barh(labels, [value for _, value in rows], color=shades, edgecolor="0.0", linewidth=0.5)
    axes.set_xscale("log")
    axes.invert_yaxis()
    axes.set(title="A load after a prefetch, beside its controls", xlabel="cycles, with the clock's overhead")


def _draw_stores(axes: Axes, table: Mapping[str, Mapping[str, float]]) -> None:
    from setebench.report.plots.plot import style

    holders = [int(count) for count in table]
    for number, kind in enumerate(next(iter(table.values()))):
        cycles = [table[str(count)][kind] for count in holders]
        axes.plot(holders, cycles, label=_KINDS.get(kind, f"after {kind}"), **style(number))
    axes.set(
        title="Store to a line that others hold",
        xlabel="other cores that hold the line",
        ylabel="cycles until the store is written",
        xticks=holders,
        ylim=(0, None),
    )
    axes.grid(True, color="0.9", linewidth=0.6)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, fontsize=8, frameon=False)
