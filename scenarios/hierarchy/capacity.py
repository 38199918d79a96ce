"""What a cache held in each round of the working-set sweep: a shared one holds less while others use it."""

from __future__ import annotations

import numpy as np

from setebench.calibration import MEMORY, Levels


def capacities(levels: Levels, name: str) -> list[float]:
    """By round the bytes at which a load costs what lies halfway between this cache and what is behind it, between two
    sizes on their logarithmic scale; nothing of rounds without such a size."""
    behind = [*levels.caches, MEMORY][levels.caches.index(name) + 1]
    half = (levels.cycles[name] + levels.cycles[behind]) / 2
    sizes, found = np.log(levels.sweep.get("size_bytes", [])), []
    for cycles in levels.sweep.get("rounds", []):
        row = np.array(cycles, dtype=np.float64)
        beyond = np.flatnonzero(row > half)
        below = np.flatnonzero(row[: beyond[0]] <= half) if len(beyond) else beyond
        if len(below):
            around = [int(below[-1]), int(beyond[0])]
            found.append(float(np.exp(np.interp(half, row[around], sizes[around]))))
    return found
