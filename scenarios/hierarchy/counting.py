"""Counting the entries of tables of translations: TLBs (`tlbs`), and small tables beside them, one of stores'
translations and one of upper levels of the page table.

How long an entry stays while others come, with one posterior over all tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.experiments.translations import Survival, SurvivalParams
from setebench.results import Finding
from setebench.stats import decide
from setebench.stats.entries import Samples, Step, Table, find_steps, samples, table
from setebench.stats.estimate import CONFIDENCE, Estimate, over_epochs
from setebench.stats.threshold import Posterior
from setebench.stats.threshold import over_epochs as over_posteriors

Numbers = NDArray[np.float64]


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


@dataclass(frozen=True, kw_only=True)
class SideParams:
    """How side tables are counted, beside what is the same for all tables (`counting`).

    All numbers are sampled once more up to `passes` times until the ends have errors by which `errors` of them are less
    than a step, and no more than `rounds` further samples are taken. A step is at least the fraction `least_fraction`
    of what it should be where that is known: what is less is taken for nothing, where the error is no more than a third
    of it. Whether there is a table at all is asked up to `most_asked` times, until `errors` standard errors decide it.
    Stores, timed one by one, take `store_draws` times as many draws as chases, walks one in `walk_fraction`, as each
    costs thousands of flushes. TLBs have surely lost a translation after `surely` times the pages after which the
    fraction `all_lost` is lost: of dozens that ask for upper levels none may do without. The first TLB has after
    `surely_first` times those after which all but 2 % are: stores find theirs longer. What a walk without
    a table's entry costs is sampled at ratios `around` the number of entries, in `moments` of each look."""

    passes: int = 5
    rounds: int = 14
    least_fraction: float = 0.5
    store_draws: int = 3
    walk_fraction: int = 2
    around: tuple[float, float] = (0.4, 1.5)
    moments: int = 4
    most_asked: int = 16
    errors: float = 3.0
    all_lost: float = 0.999
    surely: float = 1.2
    surely_first: float = 2.0


SIDE = SideParams()


@dataclass
class SideTable(Counted):
    """A small table, over all epochs: also about how many entries it seemed to have at first, of each look without a
    step whether that is clear, and up to how many entries were asked for."""

    guess: float = 0.0
    without: list[bool] = field(default_factory=list)
    reach: int = 0

    def count(self, sample: Callable[[int, int], Numbers], most: int, used: int, least: float) -> Step | None:
        """One look: `sample` gives costs after so many others, in so many draws, of `used` entries that are others to
        each other; a step is as high as `least`. Its step, if there is one."""
        found: dict[int, list[float]] = {}

        def take(others: int) -> Samples:
            found.setdefault(others, []).extend(sample(others, COUNTING.draws).tolist())
            return samples(found, used - 1, lambda _others: 0.0)

        self.reach = most + used - 1
        for _ in range(SIDE.passes):
            for others in COUNTING.numbers(1, most):
                seen = take(others)
            third = len(seen.counts) // 3
            error = float(np.hypot(_error(seen.errors[:third]), _error(seen.errors[-third:])))
            if error <= least / SIDE.errors:
                break
        steps = find_steps(seen, (least,))
        if not steps:
            self.without.append(error <= least / SIDE.errors)
            return None
        self.guess = self.guess or steps[0].entries
        asked = np.arange(used, self.reach + 1)
        known = counted(seen, lambda count: take(count - used + 1), self.guess, asked, Until(SIDE.rounds))
        self.posteriors.append(known.posterior)
        return known.step

    def entries_finding(self, parameter: str, method: str) -> Finding:
        """How many entries there are."""
        if self.without and all(self.without) and not self.posteriors:
            absent = decide.absent(parameter, 0, "entries", method)
            return msgspec.structs.replace(absent, reason=f"no difference up to {self.reach}")
        if not self.posteriors or self.without:
            return decide.unresolved(parameter, "entries", "not seen each time; run again at a quieter time", method)
        return self.finding(parameter, method)


def count_walk_cache(known: SideTable, survival: Survival, others: float) -> None:
    """Upper levels of the page table, in pieces of memory, once more: of pages that `others` pages made TLBs lose."""
    count = int(SIDE.surely * others)

    def sample(pieces: int, draws: int) -> Numbers:
        return survival.upper(pieces, count, draws // SIDE.walk_fraction)

    step = known.count(sample, survival.most_pieces, survival.targets, COUNTING.least_cycles)
    if step is None:
        return
    few, many = (int(np.clip(step.entries * ratio, 1, survival.most_pieces)) for ratio in SIDE.around)
    for _ in range(SIDE.moments):
        more, less = (float(sample(pieces, COUNTING.draws).mean()) for pieces in (many, few))
        known.costs.append(more - less)


def count_stores(known: SideTable, survival: Survival, others: float, miss: float) -> bool | None:
    """Translations of stores, once more: after `others` loaded from at most, which made the first TLB of loads lose
    its own, a miss of which costs `miss`. Whether stores have a table apart from loads'; None where that stays open, or
    memory has too few pages for it."""
    count = int(SIDE.surely_first * others)
    if count > survival.most:
        return None
    found: list[float] = []
    for _ in range(SIDE.most_asked):
        found += survival.stores(count, COUNTING.draws, after_stores=False).tolist()
        error = float(np.std(found, ddof=1)) / np.sqrt(len(found))
        if abs(np.mean(found) - miss / 2) > SIDE.errors * error:
            break
    else:
        return None
    if np.mean(found) > miss / 2:
        return False

    def sample(stored: int, draws: int) -> Numbers:
        return survival.stores(stored, SIDE.store_draws * draws, after_stores=True)

    known.count(sample, count, SurvivalParams().stored, SIDE.least_fraction * miss)
    return True


def _error(errors: Numbers) -> float:
    """Of the mean of these."""
    return float(np.sqrt((errors**2).sum()) / len(errors))
