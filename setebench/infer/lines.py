"""Which of many lines answer from the nearest level, where one timing of a line says little. Knows no machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FASTEST_SHARE = 0.25
"""So many of the lines count. A set-associative cache that holds a walk four times over still loses a few lines whose
sets the walk fills by chance, one that holds it twice over up to half of them."""


def fastest_lines(ticks: NDArray[np.int64], line: NDArray[np.int64], turn: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Samples of the lines that answer fastest, shape (n,): `ticks` of `line` (a number from 0) in its `turn`-th turn.

    Whether a line counts in its even turns is decided by its odd turns and the other way round, so that a line which
    happened to read fast is not preferred for that: the mean of what is chosen is the mean of those lines.

    Raises ValueError where no line has two turns: nothing could be chosen."""
    if not len(turn) or turn.max() < 1:
        raise ValueError("every line was timed once: none can be judged by another turn")
    even = turn % 2 == 0
    chosen = np.zeros(len(ticks), dtype=bool)
    count = int(line.max()) + 1
    for judging, judged in ((even, ~even), (~even, even)):
        timings = np.bincount(line[judging], minlength=count)
        sums = np.bincount(line[judging], weights=ticks[judging], minlength=count)
        means = np.where(timings > 0, sums / np.maximum(timings, 1), np.inf)
        order = np.argsort(means, kind="stable")
        fast = np.zeros(count, dtype=bool)
        fast[order[: max(1, int(FASTEST_SHARE * count))]] = True
        chosen |= judged & fast[line]
    return chosen
