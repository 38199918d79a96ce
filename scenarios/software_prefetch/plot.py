"""Where prefetched lines were found, and stores to lines that other cores held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from setebench.errors import SetebenchError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILLINGS = (("0.15", ""), ("0.45", "//"), ("0.72", ".."), ("1.0", ""))
"""Grey and hatching of a level's part of a bar: each alone identifies it."""

_NAMES = {"l1": "L1", "l2": "L2", "l3": "L3", "memory": "memory", "": "not prefetched"}
_KINDS = {"own": "own line", "none": "not prefetched"}


def draw(evidence: Mapping[str, Any]) -> Figure:
    """Parts of lines per level after each hint, by where they were before, from `evidence["landed"]`; beside it, where
    other cores were at hand, cycles per store over how many held the line, from `evidence["store_after"]` (the paper's
    Figure 5). Raises `SetebenchError` where there is nothing to draw."""
    from matplotlib.figure import Figure  # only loaded for a plot

    landed = evidence.get("landed")
    if not isinstance(landed, Mapping) or not landed.get("shares"):
        raise SetebenchError("there is nothing to plot: the evidence holds no prefetched lines")
    stores = evidence.get("store_after")
    figure = Figure(figsize=(10.0 if stores else 7.2, 5.2), layout="constrained")
    panels = figure.subplots(1, 2 if stores else 1, squeeze=False, width_ratios=[3, 2] if stores else None)[0]
    _draw_landed(panels[0], landed["levels"], landed["shares"])
    if stores:
        _draw_stores(panels[1], stores["cycles_by_holders"])
    return figure


def _draw_landed(axes: Axes, levels: list[str], shares: Mapping[str, Mapping[str, list[float]]]) -> None:
    rows = [(source, hint, parts) for source, hints in shares.items() for hint, parts in hints.items()]
    labels = [f"{hint or _NAMES[hint]} · {_NAMES[source]}" for source, hint, _ in rows]
    at = list(range(len(rows)))
    left = [0.0] * len(rows)
    for number, level in enumerate(levels):
        grey, hatch = FILLINGS[-1] if level == "memory" else FILLINGS[number]
        width = [parts[number] for _, _, parts in rows]
        axes.barh(at, width, left=left, color=grey, hatch=hatch, edgecolor="0.0", linewidth=0.5, label=_NAMES[level])
        left = [begin + more for begin, more in zip(left, width, strict=True)]
    axes.set_yticks(at, labels, fontsize=8)
    axes.invert_yaxis()
    axes.set(
        title="Where lines are after a prefetch", xlabel="share of loads", ylabel="hint · line was in", xlim=(0, 1)
    )
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=4, fontsize=8, frameon=False, title="served by")


def _draw_stores(axes: Axes, table: Mapping[str, Mapping[str, float]]) -> None:
    from setebench.report.plots.plot import style

    holders = [int(count) for count in table]
    kinds = list(next(iter(table.values())))
    for number, kind in enumerate(kinds):
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
