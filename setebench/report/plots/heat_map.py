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
    shades = 0.7 * min(values), 1.1 * max(values)
    maps = zip(figure.subplots(1, len(known), squeeze=False)[0], known.items(), strict=True)
    images = [_draw(axes, state, rows, shades) for axes, (state, rows) in maps]
    figure.colorbar(images[0], ax=figure.axes, label="cycles per read of another core's line")
    return figure


def _draw(axes: Any, state: str, rows: list[list[float]], shades: tuple[float, float]) -> Any:
    readers, owners = (sorted({int(row[column]) for row in rows}) for column in (0, 1))
    cycles = np.full((len(readers), len(owners)), np.nan)
    for reader, owner, value in rows:
        cycles[readers.index(int(reader)), owners.index(int(owner))] = value
    image = axes.imshow(cycles, cmap="Greys", vmin=shades[0], vmax=shades[1])
    axes.set(title=f"line {state}", xlabel="CPU that holds it", ylabel="CPU that reads it")
    for ticks, cpus in ((axes.set_xticks, owners), (axes.set_yticks, readers)):  # of many CPUs not all are named
        places = range(0, len(cpus), -(-len(cpus) // MOST_NUMBERS))
        ticks(places, [str(cpus[place]) for place in places], fontsize="small")
    for (row, column), value in np.ndenumerate(cycles) if len(owners) <= MOST_NUMBERS else ():
        if not np.isnan(value):
            colour = "1" if value > sum(shades) / 2 else "0"
            axes.text(column, row, f"{value:.0f}", ha="center", va="center", color=colour, fontsize="x-small")
    return image
