"""How unevenly threads work."""

from __future__ import annotations

from collections.abc import Collection


def imbalance(work: Collection[float]) -> float:
    """The most loaded thread over the mean of all: 1 where all do the same, their number where one does everything.

    Raises ValueError for no thread, or for none that worked."""
    total = float(sum(work))
    if not total > 0:
        raise ValueError("no thread worked")
    return max(work) * len(work) / total
