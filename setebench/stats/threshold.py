"""The largest number that still fits: a posterior over that threshold, and the questions that settle it soonest.

Entries of a queue or a table, ways of a set, streams of a prefetcher, accesses before one: up to a number all is well,
beyond it something fails, more and more often. `search` asks one number at a time, always the one whose answer is
expected to decide most, and stops as soon as one number has the wanted posterior probability, or the end of the range
has: then there is a bound. So a clear machine costs few questions and a hard one as many as are allowed.

A response model says how probable an answer is for each candidate. `Trials` here is for counts of failures: the psi
method (Kontsevich and Tyler 1999, Vision Research 39:2729) with nuisances integrated out (Prins 2013, J. Vision 13:3),
after QUEST (Watson and Pelli 1983). `setebench.stats.jump` is for times that jump where a queue is full. Anything with
`add`, `question` and `posterior` will do.

Measured on synthetic thresholds of 1 to 256 of 300 candidates, 16 trials a question (`tests/stats/test_threshold.py`):
of sharp ones, with up to 20 % of failures before and 10 % of successes behind, 120 of 120 right after 8 questions on
average; of gradual ones (behind the threshold T failures grow as 1 - exp(-(n - T) / 0.3 T)) with as many, 27 in 40 are
decided, all right, after 32, and the 95 % interval holds all but 2 in 40 of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import special

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

    def at_least(self, confidence: float) -> int:
        """The largest candidate that the threshold reaches or passes with such a probability (one-sided)."""
        reaches = self.none + self.probability[::-1].cumsum()[::-1] >= confidence - _ROUNDING
        return int(self.numbers[np.flatnonzero(reaches)[-1]]) if reaches.any() else int(self.numbers[0])

    def interval(self, confidence: float) -> tuple[int, int]:
        """Numbers between which the threshold lies with such a probability, if there is one (two-sided)."""
        below = self.probability.cumsum() / max(self.probability.sum(), _ROUNDING)
        tail = (1 - confidence) / 2
        low, high = np.searchsorted(below, (tail + _ROUNDING, 1 - tail - _ROUNDING))
        return int(self.numbers[low]), int(self.numbers[min(high, len(self.numbers) - 1)])


_ROUNDING = 1e-9
"""Of sums of probabilities."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a search ends with. `decided`: one number, or the end of the range, has the wanted probability."""

    posterior: Posterior
    decided: bool
    questions: int


class SearchParams(msgspec.Struct, frozen=True, kw_only=True):
    """When a search stops.

    `certainty` is the posterior probability of one number that is enough: 0.99, as findings are reported with 0.95 and
    the model of the answers is never quite right. `least` questions are asked before any is trusted: with fewer, one
    disturbed batch decides. `most` questions bound its cost."""

    certainty: float = 0.99
    least: int = 6
    most: int = 60


Answer = TypeVar("Answer")
Contravariant = TypeVar("Contravariant", contravariant=True)


class Responses(Protocol[Contravariant]):
    """A model of the answers to questions, and what they have been so far."""

    def add(self, number: int, answer: Contravariant) -> None:
        """Take note of the answer for a number."""
        ...

    def question(self) -> int:
        """The number to ask next."""
        ...

    def posterior(self) -> Posterior:
        """What is known of the threshold."""
        ...


def search(ask: Callable[[int], Answer], responses: Responses[Answer], params: SearchParams) -> Found:
    """Ask until the threshold is decided or questions are spent. `responses` may know earlier answers."""
    for count in range(1, params.most + 1):
        number = responses.question()
        responses.add(number, ask(number))
        found = responses.posterior()
        if count >= params.least and max(found.certainty, found.beyond) >= params.certainty:
            return Found(posterior=found, decided=True, questions=count)
    return Found(posterior=responses.posterior(), decided=False, questions=params.most)


class TrialsParams(msgspec.Struct, frozen=True, kw_only=True):
    """What answers in trials may look like, each grid with equal weights, integrated out.

    Behind threshold T a trial at n fails with probability 1 - exp(-(n - T) / (width T)): at once where `width` is 0 (a
    table that replaces the oldest), gradually where it replaces at random. `strays` fail before the threshold (lines
    pushed out by others), `lapses` succeed behind it (lines that a prefetcher brought). `disturbed` batches say
    nothing: one batch of trials is one layout at one time, and something may go wrong with all of it. Against all
    thresholds together stand answers that don't depend on the number, with one of the rates `flat`; `doubt` is their
    probability beforehand. Of numbers spread over the posterior `asked` are considered for the next question."""

    widths: tuple[float, ...] = (0.0, 0.05, 0.15, 0.4, 1.0)
    strays: tuple[float, ...] = (0.005, 0.05, 0.2)
    lapses: tuple[float, ...] = (0.005, 0.05, 0.2)
    disturbed: float = 0.02
    flat: tuple[float, ...] = (0.3, 0.4, 0.5, 0.6, 0.7)
    doubt: float = 0.01
    asked: int = 9


class Trials:
    """Responses that are counts: (failures, trials) of a number, as a pair."""

    def __init__(self, numbers: Sequence[int], params: TrialsParams | None = None) -> None:
        """`numbers` are the candidates for the largest number that fits, ascending; every one may be asked. The last
        is taken for "or more". Smaller ones are likelier beforehand, as scales are (a decade is a decade)."""
        self.params = params or TrialsParams()
        self.numbers = np.asarray(numbers, dtype=np.int64)
        grids = np.meshgrid(self.params.widths, self.params.strays, self.params.lapses, indexing="ij")
        self._width, self._stray, self._lapse = (each.ravel()[None, :] for each in grids)
        gaps = np.diff(np.log1p(self.numbers.astype(np.float64)), append=np.nan)
        gaps[-1] = gaps[:-1].mean() if len(gaps) > 1 else 1.0
        nuisances = self._width.shape[1]
        self._log = np.repeat(np.log(gaps / gaps.sum() / nuisances)[:, None], nuisances, axis=1)
        self._flat = np.full(len(self.params.flat), -np.log(len(self.params.flat)))
        self.asked: list[tuple[int, int, int]] = []

    def _failing(self, number: int) -> Fractions:
        """Probability that a trial fails, shape (candidates, nuisances)."""
        behind = np.maximum(number - self.numbers, 0)[:, None].astype(np.float64)
        scale = np.maximum(self._width * np.maximum(self.numbers, 1)[:, None], _ROUNDING)
        rise = -np.expm1(-behind / scale)
        chance: Fractions = self._stray + (1 - self._stray - self._lapse) * rise
        return chance

    def add(self, number: int, answer: tuple[int, int]) -> None:
        """Take note of (failures, trials) of a number."""
        failures, trials = answer
        self.asked.append((number, failures, trials))
        if trials == 0:
            return
        self._log += self._likelihood(self._failing(number), failures, trials)
        self._flat += self._likelihood(np.array(self.params.flat), failures, trials)

    def _likelihood(self, chance: Fractions, failures: int, trials: int) -> Fractions:
        """Logarithm of the probability of such an answer where each trial fails with `chance`."""
        ways = special.gammaln(trials + 1) - special.gammaln(failures + 1) - special.gammaln(trials - failures + 1)
        own = np.exp(ways + special.xlogy(failures, chance) + special.xlog1py(trials - failures, -chance))
        found: Fractions = np.log((1 - self.params.disturbed) * own + self.params.disturbed / (trials + 1))
        return found

    def _joint(self) -> Fractions:
        weights = np.exp(self._log - self._log.max())
        joint: Fractions = weights / weights.sum()
        return joint

    def posterior(self) -> Posterior:
        """Over the candidates, nuisances integrated out."""
        depends, doubt = special.logsumexp(self._log), special.logsumexp(self._flat)
        trusted = special.expit(depends - doubt + special.logit(1 - self.params.doubt))
        return Posterior(numbers=self.numbers, probability=self._joint().sum(axis=1) * trusted)

    def question(self) -> int:
        """Of numbers spread over the posterior, the one whose answer is expected to say most of the threshold."""
        joint = self._joint()
        marginal = joint.sum(axis=1)
        below = marginal.cumsum()
        at = np.searchsorted(below, np.linspace(_ROUNDING, 1 - _ROUNDING, self.params.asked))
        near = np.unique(np.clip(np.concatenate([at, at + 1]), 0, len(self.numbers) - 1))
        return max((int(self.numbers[one]) for one in near), key=lambda number: self._information(number, joint))

    def _information(self, number: int, joint: Fractions) -> float:
        """Mutual information of the threshold and one trial's outcome."""
        chance = self._failing(number)
        marginal = joint.sum(axis=1)
        own = np.divide((joint * chance).sum(axis=1), marginal, out=np.zeros_like(marginal), where=marginal > 0)
        return float(_entropy(np.array(marginal @ own)) - marginal @ _entropy(own))


def _entropy(chance: Fractions) -> Fractions:
    found: Fractions = special.entr(chance) + special.entr(1 - chance)
    return found


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
