"""The figure of miss queues: time over the number of misses in flight (Figure 4 of Fang et al. 2014)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from setebench.errors import SetebenchError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = {
    "loads": "loads from memory",
    "blocked": "delay of a level-2 hit behind loads",
    "phase": "prefetches {}, until all have set out",
    "total": "prefetches {}, until all are there",
}
"""Label of each kind of curve; {} stands for the prefetch hint."""


def draw(evidence: Mapping[str, Any]) -> Figure:
    """Return a figure of time over the number of misses, from the curves by name in `evidence["curves"]`.

    Each curve has `numbers` and `cycles` of equal length, and `step`: the last number before the jump and the ends of
    its interval, or None. Raises `SetebenchError` where there are no curves, or they are damaged."""
    from setebench.report.plots.plot import new_figure, style  # matplotlib is only loaded for a plot

    curves = evidence.get("curves")
    if not isinstance(curves, Mapping) or not curves:
        raise SetebenchError("there is nothing to plot: the evidence holds no latency-over-count curves")
    figure, axes = new_figure("Misses at once", "misses at once", "time (core cycles)")
    try:
        order = list(NAMES)  # loads and stores before prefetches
        for index, name in enumerate(sorted(curves, key=lambda name: (order.index(_kind(name)[0]), name))):
            _draw(axes, _label(name), curves[name], style(index))
    except (KeyError, TypeError, ValueError) as error:
        raise SetebenchError("the curves in the evidence are damaged: numbers, cycles and step are needed") from error
    axes.set_ylim(bottom=0)
    figure.legend(loc="outside lower center", ncols=2, fontsize=7, frameon=False)
    return figure


def _label(name: str) -> str:
    kind, of = _kind(name)
    return NAMES[kind].format(of)


def _kind(name: str) -> tuple[str, str]:
    """Split a curve's name into its key in `NAMES` and the prefetch hint (or an empty string)."""
    first, *rest = name.split(".")
    return (rest[1], rest[0]) if first == "prefetch" else (first, "")


def _draw(axes: Axes, label: str, curve: Mapping[str, Any], style: dict[str, Any]) -> None:
    """Draw a curve, a vertical line where it jumps, and a band over the jump's interval."""
    step = curve["step"]
    jump = "no jump" if step is None else f"jump behind {step[0]}"
    axes.plot(curve["numbers"], curve["cycles"], label=f"{label}: {jump}", **style)
    if step is None:
        return
    last, low, high = step
    axes.axvline(last + 0.5, color=style["color"], linewidth=0.7, linestyle=":")
    if high > low:
        axes.axvspan(low + 0.5, high + 0.5, color=style["color"], alpha=0.15, linewidth=0)
