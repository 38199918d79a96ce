"""Small tables beside the TLBs: one of stores' translations, and one of upper levels of the page table.

Each is counted as TLBs are (`tlbs`): how long an entry stays while others come, with one posterior over all tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.translations import Survival, SurvivalParams
from setebench.results import Finding, Outcome
from setebench.stats import decide
from setebench.stats.entries import Samples, find_steps, samples, table
from setebench.stats.estimate import CONFIDENCE, over_epochs
from setebench.stats.threshold import Posterior
from setebench.stats.threshold import over_epochs as over_posteriors

Numbers = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SideParams:
    """How side tables are counted.

    Numbers of other entries grow by `growth`, with `draws` of each, and once more up to `passes` times until the
    ends have errors by which `errors` of them are less than a step; then `rounds` further samples of as many draws
    are taken where candidates disagree, until one number has `certainty`, `least_rounds` at least. A step is at
    least `least_cycles` high, and at least the fraction `least_fraction` of what it should be where that is known:
    what is less is taken for nothing, where the error is no more than a third of it. Whether there is a table at
    all is asked in up to `most_asked` times `draws`, until `errors` standard errors decide it. Stores, timed one by
    one, take `store_draws` times as many draws as chases, walks one in `walk_fraction`, as each costs thousands of
    flushes. TLBs have surely lost a translation after `surely` times the pages after which all but 2 % lost theirs,
    and the first TLB after `surely_first` times: stores find theirs longer. What a miss costs is sampled at ratios
    `around` the number of entries, in `moments` of each look; cycles per tick are known to the fraction
    `calibration`."""

    growth: float = 1.3
    draws: int = 4
    passes: int = 5
    rounds: int = 14
    least_rounds: int = 3
    certainty: float = 0.98
    least_cycles: float = 3.0
    least_fraction: float = 0.5
    store_draws: int = 3
    walk_fraction: int = 2
    around: tuple[float, float] = (0.4, 1.5)
    moments: int = 4
    calibration: float = 0.005
    most_asked: int = 16
    errors: float = 3.0
    surely: float = 1.2
    surely_first: float = 2.0


PARAMS = SideParams()


class SideTable:
    """One table, over all epochs."""

    def __init__(self) -> None:
        """Nothing is measured yet."""
        self._posteriors: list[Posterior] = []
        self._heights: list[float] = []
        self._without: list[bool] = []
        self._guess = 0.0
        self._reach = 0

    def count(self, sample: Callable[[int, int], Numbers], most: int, used: int, least: float) -> None:
        """One look: `sample` gives costs after so many others, in so many draws, of `used` entries that are others to
        each other; a step is as high as `least`."""
        found: dict[int, list[float]] = {}

        def take(others: int) -> Samples:
            found.setdefault(others, []).extend(sample(others, PARAMS.draws).tolist())
            return samples(found, used - 1, lambda _others: 0.0)

        counts = [1]
        while counts[-1] < most:
            counts.append(min(int(counts[-1] * PARAMS.growth) + 1, most))
        self._reach = most + used - 1
        for _ in range(PARAMS.passes):
            for others in counts:
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
        known = table(seen, self._guess, asked)
        for number in range(PARAMS.rounds):
            if number >= PARAMS.least_rounds and known.posterior.certainty >= PARAMS.certainty:
                break
            seen = take(int(asked[np.argmax(known.spread)]) - used + 1)
            known = table(seen, self._guess, asked)
        self._posteriors.append(known.posterior)
        few, many = (int(np.clip(known.step.entries * ratio, 1, most)) for ratio in PARAMS.around)
        for _ in range(PARAMS.moments):
            self._heights.append(float(sample(many, PARAMS.draws).mean() - sample(few, PARAMS.draws).mean()))

    def entries(self, parameter: str, method: str) -> Finding:
        """How many entries there are."""
        if self._without and all(self._without) and not self._posteriors:
            reason = f"no difference up to {self._reach}"
            return Finding(
                parameter=parameter, value=0, unit="entries", outcome=Outcome.ABSENT, method=method, reason=reason
            )
        if not self._posteriors or self._without:
            return decide.unresolved(parameter, "entries", "not seen each time; run again at a quieter time", method)
        numbers = np.unique(np.concatenate([each.numbers for each in self._posteriors]))
        entries = over_posteriors([of_numbers(each, numbers) for each in self._posteriors])
        if entries.certainty >= CONFIDENCE:
            return decide.chosen(parameter, entries.value, "entries", method)
        low, high = entries.interval(CONFIDENCE)
        return Finding(
            parameter=parameter,
            value=entries.at_least(0.5 + CONFIDENCE / 2),
            unit="entries",
            outcome=Outcome.AT_LEAST,
            reason=f"between {low} and {high}; run again at a quieter time",
            method=method,
        )

    def cost(self, parameter: str, method: str) -> Iterator[Finding]:
        """What it costs not to be there, if there is a table in every look."""
        if self._posteriors and not self._without:
            yield decide.measured(parameter, over_epochs(self._heights).doubted(PARAMS.calibration), "cycles", method)


def count_walk_cache(known: SideTable, survival: Survival, others: float) -> None:
    """Upper levels of the page table, in pieces of memory, once more: of pages that `others` pages made TLBs lose."""
    count = int(PARAMS.surely * others)

    def sample(pieces: int, draws: int) -> Numbers:
        return survival.upper(pieces, count, draws // PARAMS.walk_fraction)

    known.count(sample, survival.most_pieces, SurvivalParams().targets, PARAMS.least_cycles)


def count_stores(known: SideTable, survival: Survival, others: float, miss: float) -> bool | None:
    """Translations of stores, once more: after `others` loaded from at most, which made the first TLB of loads lose
    its own, a miss of which costs `miss`. Whether stores have a table apart from loads'; None where that stays open."""
    count = int(PARAMS.surely_first * others)
    found: list[float] = []
    for _ in range(PARAMS.most_asked):
        found += survival.stores(count, PARAMS.draws, after_stores=False).tolist()
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


def of_numbers(posterior: Posterior, numbers: NDArray[np.int64]) -> Posterior:
    """The same posterior, of all of these numbers."""
    probability = np.zeros(len(numbers))
    probability[np.searchsorted(numbers, posterior.numbers)] = posterior.probability
    return Posterior(numbers=numbers, probability=probability)


def _error(errors: Numbers) -> float:
    """Of the mean of these."""
    return float(np.sqrt((errors**2).sum()) / len(errors))
