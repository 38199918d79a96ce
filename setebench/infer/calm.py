"""The first step of a curve, looked for in the calm moments of a busy machine. Knows no machine.

A program on a sibling thread uses the same TLB, for moments or for seconds, and for that long fewer entries are left:
the curve of `infer.capacity` then rises at any number. No look is disturbed by itself, the moment is; so to look twice
doesn't help. But nothing lowers the cost except that the entries fit. So a low look tells that they do. A raised one
tells that they don't if fewer, which are known to fit, look low right before and right after it: then it is not the
moment that is to blame. A moment that is busy is waited for to pass, as long as patience lasts.
"""

from __future__ import annotations

from collections.abc import Callable

from setebench.infer.capacity import GROWTH, Capacity

FITTING_LOOKS = 3
"""n entries fit after so many more low looks at them than raised ones in calm moments. One alone may be the doing of a
control that happened to be slow."""

SURE_LOOKS, LOW_PER_RAISED = 5, 3
"""They surely do after so many, and so many more for each raised one: noise that makes a look low now and then would
else do in the end. For bounds, which no number beside them contradicts."""

RAISED_LOOKS, RAISED_PER_LOW = 2, 8
"""They don't after so many raised looks in calm moments, and so many more for each low one."""

SETTLED_LOOKS = 6
"""The same where it counts: what fits was told too low by chance, but for this."""


class CalmSearch:
    """A search for how many entries fit by `excess`, see `infer.capacity`. `patience` is how many looks it
    spends in all, beside those that a calm machine needs; what isn't told by then stays open."""

    def __init__(self, excess: Callable[[int], float], threshold_cycles: float, patience: int) -> None:
        """Nothing is measured yet."""
        self._excess = excess
        self._threshold_cycles = threshold_cycles
        self._patience = patience

    def capacity(self, start: int, limit: int) -> Capacity | None:
        """The largest n from `start` to `limit` that fits; None where `start` was never seen to fit. `spills` is None
        where the limit fits, or where busy moments left open what the next number does."""
        if not self._fits(start, start):
            return None
        low = high = start
        while low == high < limit:
            high = min(limit, max(low + 1, int(low * GROWTH)))
            low = high if self._fits(high, low) else low
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._fits(middle, low) else (low, middle)
        return self.settled(low, limit)

    def _surely(self, fits: int) -> int:
        """So many that fit beside half as many: each so far was told beside the one before, and beside one that does
        not fit no moment would seem calm."""
        while fits > 1 and not self._fits(fits, max(1, fits // 2), SURE_LOOKS, LOW_PER_RAISED):
            fits = min(fits - 1, int(fits / GROWTH**0.5))
        return fits

    def settled(self, fits: int, limit: int) -> Capacity:
        """The same, from a number that is known to fit. Where one more does, which was raised before, then it was the
        moment's doing, and on it goes."""
        while fits < limit:
            more = self._fits(fits + 1, fits, raised_looks=SETTLED_LOOKS)
            if more is None:
                return Capacity(self._surely(fits), None)
            if not more:
                return Capacity(fits, fits + 1)
            fits += 1
        return Capacity(limit, None)

    def _fits(
        self,
        n: int,
        witness: int,
        low_looks: int = FITTING_LOOKS,
        per_raised: int = 1,
        raised_looks: int = RAISED_LOOKS,
    ) -> bool | None:
        """Whether n entries fit, where so many as `witness` do; None if no calm moments came to tell."""
        clear = max(low_looks, raised_looks + 1)  # no calm moment was seen before the first raised look
        low = raised = looks = 0
        calm = False
        while looks < clear or self._patience > 0:
            looks += 1
            self._patience -= looks > clear
            if self._low(n):
                low, calm = low + 1, True
            else:
                before, calm = calm, self._low(witness)
                raised += before and calm
            if low >= low_looks + per_raised * raised:
                return True
            if raised >= raised_looks + RAISED_PER_LOW * low:
                return False
        return None

    def _low(self, n: int) -> bool:
        return self._excess(n) <= self._threshold_cycles
