"""The largest number that still fits: a posterior over that threshold, and one behind the posteriors of several epochs.

Misses that a queue holds, pages, streams: up to a number all is well, beyond it something takes longer. `stats.jump`
finds the posterior of one epoch.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Fractions = NDArray[np.float64]


class Posterior(msgspec.Struct, frozen=True, kw_only=True):
    """How probable each candidate is to be the largest number that fits. `numbers` ascend; the last one stands for all
    that can be asked, and more. `none` is the probability that no candidate is: nothing of the sort happens. What is
    missing to 1 is the probability that answers don't depend on the number: nothing follows from them."""

    numbers: Numbers
    probability: Fractions
    none: float = 0.0

    @property
    def value(self) -> int:
        """The most probable number."""
        return int(self.numbers[int(np.argmax(self.probability))])

    @property
    def certainty(self) -> float:
        """Probability of the most probable number."""
        return float(self.probability.max())

    @property
    def beyond(self) -> float:
        """Probability that the threshold is not below the largest candidate, or that there is none."""
        return float(self.probability[-1]) + self.none

    def interval(self, confidence: float) -> tuple[int, int]:
        """Numbers between which the threshold lies with such a probability, if there is one (two-sided)."""
        below = self.probability.cumsum() / max(self.probability.sum(), _ROUNDING)
        tail = (1 - confidence) / 2
        low, high = np.searchsorted(below, (tail + _ROUNDING, 1 - tail - _ROUNDING))
        return int(self.numbers[low]), int(self.numbers[min(high, len(self.numbers) - 1)])


_ROUNDING = 1e-9
"""Of sums of probabilities."""


class EpochParams(msgspec.Struct, frozen=True, kw_only=True):
    """How often whole epochs show another threshold than the machine's, all answers of one agreeing.

    `taken`: another user holds a part of the entries, so that fewer are seen (an SMT co-runner, a busy cache). `more`:
    more are seen than there are; nothing known does that, but no model is all there is."""

    taken: float = 0.1
    more: float = 0.01


def over_epochs(epochs: Sequence[Posterior], params: EpochParams | None = None) -> Posterior:
    """One threshold behind the posteriors of several epochs, over the candidates of all. What disturbs an epoch takes
    entries and gives none, so the larger of two numbers is the likelier one."""
    params = params or EpochParams()
    numbers = np.unique(np.concatenate([each.numbers for each in epochs]))
    count = len(numbers)
    logs = np.zeros(count)
    none = 0.0
    for epoch in epochs:
        own = np.zeros(count)
        own[np.searchsorted(numbers, epoch.numbers)] = epoch.probability
        fewer = own.cumsum() / np.arange(1, count + 1)
        more = own[::-1].cumsum()[::-1] / np.arange(count, 0, -1)
        seen = (1 - params.taken - params.more) * own + params.taken * fewer + params.more * more
        # where no threshold shows, any of the candidates may have been missed
        seen += params.more * epoch.none / count
        logs += np.log(seen + 1e-300)
        missing = 1 - epoch.none
        none += float(np.log((1 - params.taken) * epoch.none + params.taken * missing / count + 1e-300))
    top = max(float(logs.max()), none)
    weights, without = np.exp(logs - top), float(np.exp(none - top))
    total = weights.sum() + without
    return Posterior(numbers=numbers, probability=weights / total, none=without / total)
