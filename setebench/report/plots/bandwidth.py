"""The plot of bandwidth over the size of the data set (Fang et al. 2014, Figure 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from setebench.errors import SetebenchError
from setebench.report.plots.plot import COLUMNS, SMALL, new_figure, size_axis, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def bandwidth_figure(evidence: Mapping[str, Any]) -> Figure:
    """Program bandwidth from `evidence["bandwidth"]`, as the scenario leaves it, over the data set of a thread.

    Raises `SetebenchError` where nothing was measured."""
    found = evidence.get("bandwidth")
    sweeps = [sweep for sweep in found["sweeps"] if sweep["size_bytes"]] if isinstance(found, Mapping) else []
    if not sweeps:
        raise SetebenchError("there is nothing to plot: the evidence holds no bandwidth sweep")
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
        errors = [below, [0.0] * len(best)]
        threads, where = len(sweep["cpus"]), ", remote memory" if sweep.get("remote") else ""
        label = f"{sweep['kernel']}.{sweep['width']}, {threads} thread{'s' if threads > 1 else ''}{where}"
        axes.errorbar(sweep["size_bytes"], best, errors, capsize=2, label=label, **drawn)
    size_axis(axes)
    figure.legend(loc="outside lower center", ncols=COLUMNS, **SMALL)
    return figure
