"""Counting the entries of a table over several looks, the same for TLBs and for small tables beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setebench.results import Finding
from setebench.stats import decide
from setebench.stats.entries import Samples, Table, table
from setebench.stats.estimate import CONFIDENCE, Estimate, over_epochs
from setebench.stats.threshold import Posterior
from setebench.stats.threshold import over_epochs as over_posteriors


@dataclass(frozen=True, kw_only=True)
class CountingParams:
    """Numbers of others grow by `growth`, with `draws` of each, until steps show; then samples are taken where
    candidates disagree most, `least_rounds` of them at least, until one number has `certainty`: more than the 0.95 of a
    finding, since to end when it happens to be sure is to choose by chance. No table answers sooner than `least_cycles`
    after the one before it. Cycles per tick are known to the fraction `calibration`."""

    growth: float = 1.3
    draws: int = 4
    least_rounds: int = 3
    certainty: float = 0.98
    least_cycles: float = 3.0
    calibration: float = 0.005

    def numbers(self, first: int, most: int) -> list[int]:
        """That grow, the last one `most`."""
        found = [first]
        while found[-1] < most:
            found.append(min(int(found[-1] * self.growth) + 1, most))
        return found


COUNTING = CountingParams()


class Until(NamedTuple):
    """When further rounds end at the latest, and whether it does that a table is known to have all but a sharp step."""

    rounds: int
    sharp: bool = False


def counted(
    seen: Samples, take: Callable[[int], Samples], guess: float, asked: NDArray[np.int64], until: Until
) -> Table:
    """What samples say of a table of about `guess` entries; `take` gives them with further ones at one of the counts
    `asked`."""
    found = table(seen, guess, asked)
    for number in range(until.rounds):
        sure = max(found.posterior.certainty, found.sharp if until.sharp else 0.0)
        if number >= COUNTING.least_rounds and sure >= COUNTING.certainty:
            break
        found = table(take(int(asked[np.argmax(found.spread)])), guess, asked)
    return found


@dataclass
class Counted:
    """One table: the posterior of its entries in each look, and what it costs not to be there in each sample."""

    posteriors: list[Posterior] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)

    @property
    def entries(self) -> Posterior:
        """Over all epochs."""
        return over_posteriors(self.posteriors)

    @property
    def cost(self) -> Estimate:
        """Of a miss."""
        return over_epochs(self.costs).doubted(COUNTING.calibration)

    def finding(self, parameter: str, method: str, doubt: str = "") -> Finding:
        """How many entries there are; a bound where that is not sure, or for `doubt`."""
        entries = self.entries
        if entries.certainty >= CONFIDENCE and not doubt:
            return decide.chosen(parameter, entries.value, "entries", method)
        low, high = entries.interval(CONFIDENCE)
        reason = f"the step lies between {low} and {high} entries" if low < high or not doubt else doubt
        reason = f"{reason}; run again at a quieter time"
        return decide.at_least(parameter, entries.at_least(0.5 + CONFIDENCE / 2), "entries", reason, method)
