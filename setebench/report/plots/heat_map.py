"""Heat maps: read latency of other cores' lines, reader by owner. Readable in grey, with the numbers in the cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from setebench.errors import SetebenchError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_NUMBERS = 12
"""Up to so many CPUs the cells hold their numbers; beyond, only the shades show."""

LETTERS_OF_A_MAP = 72.0
"""Points: the size of letters times the number of cells in a row, so that three digits fit each."""


def transfer_figure(evidence: Mapping[str, Any]) -> Figure:
    """One map per state of the line, from `evidence["core_to_core"]`: rows of (reader, owner, cycles) by state.

    Raises `SetebenchError` where there is no pair to draw."""
    from matplotlib.figure import Figure

    table = evidence.get("core_to_core")
    known = {state: rows for state, rows in table.items() if rows} if isinstance(table, Mapping) else {}
    if not known:
        raise SetebenchError("there is nothing to plot: the evidence holds no reads of other cores' lines")
    figure = Figure(figsize=(3.4 * len(known) + 1.2, 3.9), layout="constrained")
    values = [cycles for rows in known.values() for _, _, cycles in rows]
    images = [
        _draw(figure.add_subplot(1, len(known), number), state, rows, min(values), max(values))
        for number, (state, rows) in enumerate(known.items(), 1)
    ]
    figure.colorbar(images[0], ax=figure.axes, label="cycles per read of another core's line")
    return figure


def _draw(axes: Any, state: str, rows: list[list[float]], low: float, high: float) -> Any:
    readers, owners = (sorted({int(row[column]) for row in rows}) for column in (0, 1))
    cycles = np.full((len(readers), len(owners)), np.nan)
    for reader, owner, value in rows:
        cycles[readers.index(int(reader)), owners.index(int(owner))] = value
    image = axes.imshow(cycles, cmap="Greys", vmin=0.7 * low, vmax=1.1 * high)
    axes.set(title=f"line {state}", xlabel="CPU that holds it", ylabel="CPU that reads it")
    axes.set_xticks(*_ticks(owners))
    axes.set_yticks(*_ticks(readers))
    if len(owners) <= MOST_NUMBERS:
        size = min(9.0, LETTERS_OF_A_MAP / len(owners))
        for (row, column), value in np.ndenumerate(cycles):
            dark = value > (0.7 * low + 1.1 * high) / 2
            if not np.isnan(value):
                axes.text(
                    column, row, f"{value:.0f}", ha="center", va="center", color="1" if dark else "0", fontsize=size
                )
    return image


def _ticks(cpus: list[int]) -> tuple[list[int], list[str]]:
    """Places and labels: of many CPUs not all are named, or the names would lie over each other."""
    most = MOST_NUMBERS if cpus[-1] < 100 else MOST_NUMBERS // 2  # three digits are wider
    places = list(range(0, len(cpus), -(-len(cpus) // most)))
    return places, [str(cpus[place]) for place in places]
