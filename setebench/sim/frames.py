"""Physical frames of a simulated machine, handed out in random order as they are needed.

Only frames that were handed out take room, so that a machine may offer as much memory as real ones do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setebench.errors import SetebenchError

Ints = NDArray[np.int64]

CROWDED_SHARE = 0.5
"""Up to this share of frames in use a frame drawn blindly is probably a free one."""


class Frames:
    """Frames of one size: `count` of them, the first at number `first`, one every `step` numbers."""

    def __init__(self, first: int, count: int, step: int, rng: np.random.Generator) -> None:
        self._first, self._step, self._rng = first, step, rng
        self._used = np.zeros(count, dtype=np.bool_)
        self._left = count

    def take(self, count: int) -> Ints:
        """So many free frames in random order; shape (count,). Raises `SetebenchError` where there are not so many."""
        if count > self._left:
            raise SetebenchError(f"{count} frames are needed, {self._left} are left")
        size = len(self._used)
        blindly = self._left - count > (1.0 - CROWDED_SHARE) * size
        taken = self._drawn(count) if blindly else self._rng.permutation(np.flatnonzero(~self._used))[:count]
        self._used[taken] = True
        self._left -= count
        return self._first + self._step * taken.astype(np.int64)

    def give_back(self, frames: Ints) -> None:
        """Make frames that were taken free again."""
        self._used[(frames - self._first) // self._step] = False
        self._left += len(frames)

    def _drawn(self, count: int) -> Ints:
        """Free frames, drawn until there are enough different ones."""
        found = np.zeros(0, dtype=np.int64)
        while len(found) < count:
            drawn = self._rng.integers(0, len(self._used), 2 * (count - len(found)) + 16)
            both = np.concatenate([found, drawn[~self._used[drawn]]])
            _, begin = np.unique(both, return_index=True)
            found = both[np.sort(begin)]
        return found[:count]
