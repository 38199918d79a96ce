"""Physical frames of a simulated machine, handed out in random order as they are needed.

Only frames that were handed out take room, so that a machine may offer as much memory as real ones do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Frames:
    """Frames of one size: `count` of them, the first at number `first`, one every `step` numbers."""

    def __init__(self, first: int, count: int, step: int, rng: np.random.Generator) -> None:
        self._first, self._step, self._rng = first, step, rng
        self._used = np.zeros(count, dtype=np.bool_)

    def take(self, count: int) -> Ints:
        """So many free frames in random order; there must be as many. Shape (count,)."""
        size, taken = len(self._used), np.zeros(0, dtype=np.int64)
        if np.count_nonzero(self._used) + count >= size // 2:
            taken = self._rng.permutation(np.flatnonzero(~self._used))[:count]
        while len(taken) < count:  # of many free ones those drawn blindly are mostly free
            drawn = self._rng.integers(0, size, 2 * (count - len(taken)) + 16)
            both = np.concatenate([taken, drawn[~self._used[drawn]]])
            taken = both[np.sort(np.unique(both, return_index=True)[1])][:count]
        self._used[taken] = True
        return self._first + self._step * taken

    def give_back(self, frames: Ints) -> None:
        """Make frames that were taken free again."""
        self._used[(frames - self._first) // self._step] = False
