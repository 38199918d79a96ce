"""Which of many lines answer from the nearest level, where one timing of a line says little. Knows no machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setebench.infer.ticks import undisturbed

FASTEST_SHARE = 0.25
"""So many of the lines count. A set-associative cache that holds a walk four times over still loses a few lines whose
sets the walk fills by chance, one that holds it twice over up to half of them."""


def fastest_lines(
    ticks: NDArray[np.int64], line: NDArray[np.int64], turn: NDArray[np.int64], pages: int, step_ticks: float = 1.0
) -> NDArray[np.bool_]:
    """Samples of the lines that answer fastest, shape (n,): `ticks` of `line` (a number from 0) in its `turn`-th turn.
    Line n lies in page n modulo `pages`.

    Whether a line counts in its even turns is decided by its odd turns and the other way round, so that a line which
    happened to read fast is not preferred for that: the mean of what is chosen is the mean of those lines. A walk over
    whole pages takes a page's lines together, so what a page's other lines read counts too (`_likely_means`).

    Raises ValueError where no line has two turns: nothing could be chosen."""
    if not len(turn) or turn.max() < 1:
        raise ValueError("every line was timed once: none can be judged by another turn")
    # a single stall is longer than all that lines differ by, and would drown it
    ticks = np.minimum(ticks, ticks[undisturbed(ticks, step_ticks)].max())
    even = turn % 2 == 0
    chosen = np.zeros(len(ticks), dtype=bool)
    count = int(line.max()) + 1
    chance = _within(ticks, line, count)
    for judging, judged in ((even, ~even), (~even, even)):
        order = np.argsort(_likely_means(ticks[judging], line[judging], count, pages, chance), kind="stable")
        fast = np.zeros(count, dtype=bool)
        fast[order[: max(1, int(FASTEST_SHARE * count))]] = True
        chosen |= judged & fast[line]
    return chosen


def _within(ticks: NDArray[np.int64], line: NDArray[np.int64], count: int) -> float:
    """Variance of a line's readings around their mean, over all lines."""
    timings = np.bincount(line, minlength=count)
    means = np.bincount(line, weights=ticks, minlength=count) / np.maximum(timings, 1)
    return float(((ticks - means[line]) ** 2).sum()) / max(len(ticks) - int((timings > 0).sum()), 1)


def _likely_means(
    ticks: NDArray[np.int64], line: NDArray[np.int64], count: int, pages: int, chance: float
) -> NDArray[np.float64]:
    """What each line takes, shape (count,), infinite where it was not timed: its own mean drawn towards its page's, the
    more the less of what lines of a page differ by is more than chance (`chance` is the variance of a reading). The
    best linear predictor of a nested random effect (Searle, Casella and McCulloch 1992, 7.4)."""
    timings = np.bincount(line, minlength=count)
    timed = timings > 0
    means = np.bincount(line, weights=ticks, minlength=count) / np.maximum(timings, 1)
    page = np.arange(count) % pages
    of_page = np.bincount(page, weights=timings * means) / np.maximum(np.bincount(page, weights=timings), 1)
    lines = np.bincount(page, weights=timed)[page[timed]]
    # each line is part of its page's mean, so it differs less from that than from the page's true one
    apart = (means[timed] - of_page[page[timed]]) ** 2 * lines / np.maximum(lines - 1.0, 1.0)
    own = max(float(np.mean(apart - chance / timings[timed])), 0.0)  # what is left is the lines' own
    weight = own / np.maximum(own + chance / np.maximum(timings, 1), 1e-12)
    return np.where(timed, of_page[page] + weight * (means - of_page[page]), np.inf)
