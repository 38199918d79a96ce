"""Small tables beside the TLBs: one of stores' translations, and one of upper levels of the page table.

Each is counted as TLBs are (`tlbs`): how long an entry stays while others come, with one posterior over all tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.experiments.translations import Survival, SurvivalParams
from setebench.results import Finding
from setebench.stats import decide
from setebench.stats.entries import Samples, find_steps, samples

from .counting import COUNTING, Counted, Until, counted

Numbers = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SideParams:
    """How side tables are counted, beside what is the same for all tables (`counting`).

    All numbers are sampled once more up to `passes` times until the ends have errors by which `errors` of them are less
    than a step, and no more than `rounds` further samples are taken. A step is at least the fraction `least_fraction`
    of what it should be where that is known: what is less is taken for nothing, where the error is no more than a third
    of it. Whether there is a table at all is asked up to `most_asked` times, until `errors` standard errors decide it.
    Stores, timed one by one, take `store_draws` times as many draws as chases, walks one in `walk_fraction`, as each
    costs thousands of flushes. TLBs have surely lost a translation after `surely` times the pages after which all but 2
    % lost theirs, and the first TLB after `surely_first` times: stores find theirs longer. What a miss costs is sampled
    at ratios `around` the number of entries, in `moments` of each look."""

    passes: int = 5
    rounds: int = 14
    least_fraction: float = 0.5
    store_draws: int = 3
    walk_fraction: int = 2
    around: tuple[float, float] = (0.4, 1.5)
    moments: int = 4
    most_asked: int = 16
    errors: float = 3.0
    surely: float = 1.2
    surely_first: float = 2.0


PARAMS = SideParams()


class SideTable:
    """One table, over all epochs."""

    def __init__(self) -> None:
        """Nothing is measured yet."""
        self._counted = Counted()
        self._without: list[bool] = []
        self._guess = 0.0
        self._reach = 0

    def count(self, sample: Callable[[int, int], Numbers], most: int, used: int, least: float) -> None:
        """One look: `sample` gives costs after so many others, in so many draws, of `used` entries that are others to
        each other; a step is as high as `least`."""
        found: dict[int, list[float]] = {}

        def take(others: int) -> Samples:
            found.setdefault(others, []).extend(sample(others, COUNTING.draws).tolist())
            return samples(found, used - 1, lambda _others: 0.0)

        self._reach = most + used - 1
        for _ in range(PARAMS.passes):
            for others in COUNTING.numbers(1, most):
                seen = take(others)
            third = len(seen.counts) // 3
            error = float(np.hypot(_error(seen.errors[:third]), _error(seen.errors[-third:])))
            if error <= least / PARAMS.errors:
                break
        steps = find_steps(seen, (least,))
        if not steps:
            self._without.append(error <= least / PARAMS.errors)
            return
        self._guess = self._guess or steps[0].entries
        asked = np.arange(used, self._reach + 1)
        known = counted(seen, lambda count: take(count - used + 1), self._guess, asked, Until(PARAMS.rounds))
        self._counted.posteriors.append(known.posterior)
        few, many = (int(np.clip(known.step.entries * ratio, 1, most)) for ratio in PARAMS.around)
        for _ in range(PARAMS.moments):
            heights = (float(sample(others, COUNTING.draws).mean()) for others in (many, few))
            self._counted.costs.append(next(heights) - next(heights))

    def entries(self, parameter: str, method: str) -> Finding:
        """How many entries there are."""
        seen = self._counted.posteriors
        if self._without and all(self._without) and not seen:
            absent = decide.absent(parameter, 0, "entries", method)
            return msgspec.structs.replace(absent, reason=f"no difference up to {self._reach}")
        if not seen or self._without:
            return decide.unresolved(parameter, "entries", "not seen each time; run again at a quieter time", method)
        return self._counted.finding(parameter, method)

    def cost(self, parameter: str, method: str) -> Iterator[Finding]:
        """What it costs not to be there, if there is a table in every look."""
        if self._counted.posteriors and not self._without:
            yield decide.measured(parameter, self._counted.cost, "cycles", method)


def count_walk_cache(known: SideTable, survival: Survival, others: float) -> None:
    """Upper levels of the page table, in pieces of memory, once more: of pages that `others` pages made TLBs lose."""
    count = int(PARAMS.surely * others)

    def sample(pieces: int, draws: int) -> Numbers:
        return survival.upper(pieces, count, draws // PARAMS.walk_fraction)

    known.count(sample, survival.most_pieces, SurvivalParams().targets, COUNTING.least_cycles)


def count_stores(known: SideTable, survival: Survival, others: float, miss: float) -> bool | None:
    """Translations of stores, once more: after `others` loaded from at most, which made the first TLB of loads lose
    its own, a miss of which costs `miss`. Whether stores have a table apart from loads'; None where that stays open, or
    memory has too few pages for it."""
    count = int(PARAMS.surely_first * others)
    if count > survival.most:
        return None
    found: list[float] = []
    for _ in range(PARAMS.most_asked):
        found += survival.stores(count, COUNTING.draws, after_stores=False).tolist()
        error = float(np.std(found, ddof=1)) / np.sqrt(len(found))
        if abs(np.mean(found) - miss / 2) > PARAMS.errors * error:
            break
    else:
        return None
    if np.mean(found) > miss / 2:
        return False

    def sample(stored: int, draws: int) -> Numbers:
        return survival.stores(stored, PARAMS.store_draws * draws, after_stores=True)

    known.count(sample, count, SurvivalParams().stored, PARAMS.least_fraction * miss)
    return True


def _error(errors: Numbers) -> float:
    """Of the mean of these."""
    return float(np.sqrt((errors**2).sum()) / len(errors))
