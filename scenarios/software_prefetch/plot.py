"""The figure of software prefetches: loads after each hint, and stores to lines that another core held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from setebench.errors import SetebenchError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAMES = {
    "loaded": "just loaded", "evicted": "pushed out of L1", "flushed": "flushed", "own": "own line",
    "none": "not prefetched",
}  # fmt: skip


def draw(evidence: Mapping[str, Any]) -> Figure:
    """Return a figure of the cycles of a load after each hint, beside those of lines in L1, evicted from L1 and flushed
    (`evidence["prefetched"]`), and, if measured, of the cycles of stores to a line that another core held
    (`evidence["store_after"]`; Fang et al., Figure 5). Raises `SetebenchError` where the evidence has neither."""
    from matplotlib.figure import Figure  # only loaded for a plot

    prefetched = evidence.get("prefetched")
    if not isinstance(prefetched, Mapping) or not prefetched:
        raise SetebenchError("there is nothing to plot: the evidence holds no prefetched lines")
    stores = evidence.get("store_after")
    figure = Figure(figsize=(10.0 if stores else 7.2, 5.2), layout="constrained")
    panels = figure.subplots(1, 2 if stores else 1, squeeze=False)[0]
    _draw(panels[0], prefetched, "A load after a prefetch, beside its controls", "cycles, with the clock's overhead")
    panels[0].set_xscale("log")
    if stores:
        means = {kind: sum(times) / len(times) for kind, times in stores["cycles_by_time"].items()}
        _draw(panels[1], means, "Store to a line that another core holds", "cycles until the store is written")
    return figure


def _draw(axes: Axes, cycles: Mapping[str, float], title: str, label: str) -> None:
    """Draw bars of cycles from the fastest to the slowest, with controls in grey."""
    rows = sorted(cycles.items(), key=lambda row: row[1])
    labels = [_NAMES.get(name, f"prefetched by {name}") for name, _ in rows]
    shades = ["0.75" if name in _NAMES else "0.25" for name, _ in rows]
    axes.barh(labels, [value for _, value in rows], color=shades, edgecolor="0.0", linewidth=0.5)
    axes.invert_yaxis()
    axes.set(title=title, xlabel=label)
