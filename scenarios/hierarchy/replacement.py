"""Which line of a set gives way: sequences of loads of lines that share a set, compared with what each policy does.

Sequences are chosen among many random ones by how many misses they separate the candidates, begin in an empty set, and
are compared by likelihood. An outer cache sees nothing of what those before it still hold: lines that share the set of
the cache before, but not of this one, are traversed behind each load and push its line out there. In half of the
sequences of the second cache none are, which shows whether both caches hold the same lines or different ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from setebench.experiments.chases import Pool
from setebench.experiments.conflicts import Congruent, sequence_excess
from setebench.experiments.eviction_sets import Evictions
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.machine import Region
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats.cache_model import EXCLUSIVE, INCLUSIVE, KEPT, OF_VICTIMS, POLICIES, Cache, Policy, hits, served
from setebench.stats.decide import one_of, summed
from setebench.stats.estimate import CONFIDENCE

Numbers = NDArray[np.float64]
Lines = NDArray[np.int64]

SEQUENCES = "short sequences of loads of lines that share a set"
UNKNOWN = "no policy that was thought of costs this"


@dataclass(frozen=True, kw_only=True)
class Params:
    """Which sequences are asked, and what is believed of errors.

    `sequences` of `trials` (`outer_trials` where both of two caches are modelled), of `length_per_way` timed loads
    behind `before_per_way` others, over up to `extra` lines more than fit, each `repetitions` times; `little` (misses
    squared) keeps a pair that no sequence distinguishes yet from counting for all. What is left to chance is drawn
    `draws` times (`trial_draws` of outer caches while sequences are chosen). Behind the first cache `evictors` times
    the ways of the cache before of other lines follow each load, twice as many where that may replace at random, in
    `pool` groups by turns; of outer caches each sequence is timed `outer_repetitions` times, as a miss there costs more
    than what disturbs.

    Errors: `count_error` of the misses of a sequence and `cycles` of it; with the heavy tail of Student's t of `tail`
    degrees of freedom, for disturbed samples. What a miss costs is a nuisance: what levels lie apart within the ratio
    `gap_ratio` (rows of memory that are open answer sooner), in `gaps` steps. Errors are larger than thought where the
    `typical` quantile of sequences is more than one off under the best candidate, which is none of them where it is
    `most_left` off. Up to `victims` are tried until one has a minimal eviction set, and `searched` candidates tested
    for lines of that."""

    victims: int = 4
    searched: int = 4096
    sequences: int = 12
    trials: int = 300
    outer_trials: int = 60
    length_per_way: float = 4.0
    before_per_way: int = 4
    extra: int = 3
    repetitions: int = 64
    outer_repetitions: int = 24
    little: float = 0.5
    draws: int = 12
    trial_draws: int = 3
    evictors: float = 1.25
    pool: int = 3
    count_error: float = 0.015
    cycles: float = 2.0
    tail: float = 2.0
    gap_ratio: float = 1.5
    gaps: int = 25
    typical: float = 0.75
    most_left: float = 2.0


class KnownCache(NamedTuple):
    """A cache whose sets are of address bits: its sets, ways, and policy as a number in `POLICIES`; -1 where that is
    asked."""

    sets: int
    ways: int
    policy: int = -1


def fitting(policies: Iterable[int], ways: int) -> list[int]:
    """Those that a set of so many ways may have: no one builds a tree with fewer leaves than places."""
    return [each for each in policies if POLICIES[each].name != "tree_plru" or not ways & (ways - 1)]


def _trials(ways: int, count: int, params: Params, rng: np.random.Generator) -> list[Lines]:
    timed, before = int(params.length_per_way * ways), params.before_per_way * ways
    trials = []
    for _ in range(count):
        lines = ways + 1 + int(rng.integers(params.extra))
        # some lines are used more than others, or policies that keep what was used would show nothing
        weight = rng.dirichlet(np.full(lines, 1.0))
        own = rng.choice(lines, timed, p=0.5 * weight + 0.5 / lines)
        trials.append(np.concatenate([np.arange(lines), ways + params.extra + np.arange(before) % (ways + 1), own]))
    return trials


def chosen(missed: Numbers, params: Params) -> list[int]:
    """Sequences that distinguish candidates, by the misses of each under each, shape (sequences, candidates, runs):
    runs differ where a policy has a part of chance."""
    found: list[int] = []
    means = missed.mean(axis=2)
    apart = (means[:, :, None] - means[:, None, :]) ** 2  # (trials, candidates, candidates)
    total = np.eye(means.shape[1])
    for _ in range(params.sequences):  # each time the one that helps most where least is known
        gain = (apart / (params.little + total) ** 2).sum(axis=(1, 2))
        gain[found] = 0.0
        found.append(int(gain.argmax()))
        total += apart[found[-1]]
    return found


def posterior(excess: Numbers, missed: Numbers, gaps: Numbers, params: Params) -> tuple[Numbers, float]:
    """How probable each candidate is by what sequences cost above their controls, if a miss costs one of the `gaps`;
    and how many errors a typical sequence is off under the best."""
    mean, runs = missed.mean(axis=2), missed.shape[2]
    # neither what was measured nor what is predicted is the mean of more than some runs
    spread = missed.std(axis=2) * (1 / params.repetitions + 1 / runs) ** 0.5
    scale = 1.0
    for _ in range(2):  # where even the best is not quite explained, errors are larger than thought
        far, likely = [], []
        for each in gaps:
            error = scale * np.hypot(each * np.hypot(spread, params.count_error * mean), params.cycles)
            left = (excess[:, None] - each * mean) / error
            far.append(np.quantile(np.abs(left), params.typical, axis=0))
            likely.append(-((params.tail + 1) / 2 * np.log1p(left**2 / params.tail) + np.log(error)).sum(axis=0))
        best = np.unravel_index(int(np.argmax(likely)), np.shape(likely))
        scale *= max(1.0, float(far[best[0]][best[1]]))
    weights = np.exp(np.max(likely, axis=0) - np.max(likely))
    return weights / weights.sum(), scale


# -- the first cache ---------------------------------------------------------------------------------------------------


def first_replacement(context: Context, region: Region, first: KnownCache) -> tuple[dict[int, float], str]:
    """The posterior of policies, by number, of a first cache whose index is address bits, and why there is none."""
    params, rng, ways = Params(), context.rng(42), first.ways
    places = _places(region, first.sets, params.draws, context.rng(43))
    rivals = fitting(range(len(POLICIES)), ways)
    near, behind, *_ = context.calibration.level_cycles.values()
    timed = int(params.length_per_way * ways)
    trials = _trials(ways, params.trials, params, rng)
    missed = np.array([[_runs(each, POLICIES[one], ways, timed, params) for one in rivals] for each in trials])
    picked = chosen(missed, params)
    sequences = [trials[each] for each in picked]
    excess = sequence_excess(context, places, sequences, [timed] * len(picked), params.repetitions)
    gaps = (behind - near) * params.gap_ratio ** np.linspace(-1.0, 1.0, params.gaps)
    found, off = posterior(excess, missed[picked], gaps, params)
    context.evidence["l1_sequences"] = {
        "excess": excess.tolist(),
        "misses": missed[picked].mean(axis=2).tolist(),
        "candidates": rivals,
        "off": round(off, 2),
    }
    if off > params.most_left:
        return {}, UNKNOWN
    return dict(zip(rivals, found.tolist(), strict=True)), ""


def _places(region: Region, sets: int, draws: int, rng: np.random.Generator) -> list[Congruent]:
    """Sets of a first cache whose index is address bits."""
    stride, line = max(sets * region.line_size, TLB_PAGE_BYTES), region.line_size
    first = rng.integers(0, stride // line, draws) * line
    return [Congruent(region.address + each + rng.permutation(region.size // stride) * stride) for each in first]


def _runs(sequence: Lines, policy: Policy, ways: int, timed: int, params: Params) -> list[int]:
    """Timed loads that miss, of several runs that chance makes different, in a set that is empty at first."""
    return [timed - int(hits(policy, ways, sequence, run)[-timed:].sum()) for run in range(1, params.draws + 1)]


# -- the caches behind it ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OuterFound:
    """Posteriors of the policy's name and of whether the cache holds only what the one before it gave up; or why there
    are none. `ways` of its set, 0 where none was found, and its policy, if that is known, as a number in `POLICIES`."""

    names: dict[str, float] = field(default_factory=dict)
    exclusive: dict[bool, float] = field(default_factory=dict)
    reason: str = ""
    ways: int = 0
    policy: int = -1

    def findings(self, level: int) -> Iterator[Finding]:
        """Of a cache with that number."""
        yield one_of(f"cache.l{level}.replacement", self.names, "string", SEQUENCES, self.reason)
        if level == 2:
            yield one_of("cache.l2.exclusive_of_l1", self.exclusive, "bool", SEQUENCES, self.reason)


class OuterCaches:
    """Asks the same of one cache after another, all but the first: lines of a set of each are searched among those that
    share a set of all caches before. `inner` is the cache before the next one, the first one to begin with."""

    def __init__(self, context: Context, pool: Pool, inner: KnownCache) -> None:
        self._context, self._pool, self._inner, self._level = context, pool, inner, 2
        line = context.machine.facts.line_size
        offset = int(pool.rng.integers(TLB_PAGE_BYTES // line)) * line
        self._candidates: Lines = pool.rng.permutation(pool.pages) + offset
        # of pages at one offset, which all candidates have, not all share a set where a way is larger than a page
        self._colours = max(1, inner.sets * line // TLB_PAGE_BYTES)

    def next(self, cycles: tuple[float, float, float]) -> OuterFound:
        """The posterior of the next cache, `cycles` being those of a load from the one before it, from it, and from
        behind it."""
        params, inner, rng = Params(), self._inner, self._pool.rng
        by_chance = inner.policy < 0 or POLICIES[inner.policy].by_chance
        enough = int(params.evictors * inner.ways * (1 + by_chance))
        # lines fall into sets of the inner cache by chance
        evictors = enough + int(stats.nbinom.ppf(CONFIDENCE, enough, 1 / self._colours))
        evictions, victims = Evictions(self._context, self._pool, self._level - 1), self._candidates[: params.victims]
        tries = (evictions.find(int(one), self._candidates[self._candidates != one]) for one in victims)
        if (found := next((each for each in tries if each), None)) is None:
            return OuterFound(reason="no lines that share a set were found")
        ways, candidates, evictions.turns = len(found.lines), self._candidates, evictions.params.turns[-1]
        near = (cycles[1] - cycles[0]) / (cycles[2] - cycles[1])
        asked = _Asked.of(inner, ways, (self._level, self._colours), near)
        ring, needed = np.append(found.lines, found.others), params.pool * evictors
        rest = np.setdiff1d(candidates, np.append(ring, found.victim))[: params.searched]
        same = evictions.congruent(rest, ring) if len(rest) else np.zeros(0, dtype=np.bool_)
        own = np.concatenate([[found.victim], found.lines, rng.permutation(rest[same])])
        others = evictions.resident(np.append(found.others, rng.permutation(rest[~same])), needed + asked.own)
        evictors_of, control = np.split(others, [needed])
        answer = OuterFound(reason="too few lines that share a set, or don't, fit into memory", ways=ways)
        if len(own) >= asked.own == len(control):
            self._context.machine.link(self._pool.region, evictors_of)
            places = Congruent(own[: asked.own], evictors_of.reshape(params.pool, evictors), control)
            answer = self._compared(asked, places, cycles[2] - cycles[1])
        self._candidates = own
        self._inner, self._colours = KnownCache(1, ways, answer.policy), 1
        self._level += 1
        return answer

    def _compared(self, asked: _Asked, places: Congruent, gap: float) -> OuterFound:
        context, params = self._context, Params()
        sequences, predicted = asked.sequences(params, context.rng(45))
        last = [asked.last(each) for each in sequences]
        excess = sequence_excess(context, [places], sequences, last, params.outer_repetitions)
        gaps = gap * params.gap_ratio ** np.linspace(-1.0, 1.0, params.gaps)
        weights, off = posterior(excess, predicted, gaps, replace(params, repetitions=params.outer_repetitions))
        context.evidence[f"l{self._level}_sequences"] = {
            "ways": asked.ways,
            "excess": excess.round(1).tolist(),
            "misses": predicted.mean(axis=2).round(2).tolist(),
            "candidates": asked.rivals,
            "off": round(off, 2),
        }
        if off > params.most_left:
            return OuterFound(reason=UNKNOWN, ways=asked.ways)
        likely = dict(zip(asked.rivals, weights.tolist(), strict=True))
        policies = summed(likely, lambda each: each[0])
        best = max(policies, key=lambda each: policies[each])
        return OuterFound(
            summed(likely, lambda each: POLICIES[each[0]].name),
            summed(likely, lambda each: each[1] == EXCLUSIVE),
            ways=asked.ways,
            policy=best if policies[best] >= CONFIDENCE else -1,
        )


class _Asked(NamedTuple):
    """Two caches, of which the outer one has so many `ways`; the candidates for it, policies and what it does with the
    inner one's lines; how many lines sequences have of their own, and how many of these are timed; whether evictors
    stand behind the lines of all sequences; and what a line costs that the inner cache lost besides, in misses."""

    inner: Cache
    ways: int
    rivals: list[tuple[int, int]]
    own: int
    timed: int
    always: bool
    near: float

    @staticmethod
    def of(inner: KnownCache, ways: int, where: tuple[int, int], near: float) -> _Asked:
        """What is asked of a cache with so many ways; `where` is its number, and how many sets of the inner one all
        lines lie in. What the first cache keeps is known only as that of the cache right behind it."""
        params, (level, sets) = Params(), where
        kinds = (KEPT, INCLUSIVE, EXCLUSIVE) if level == 2 else (KEPT, EXCLUSIVE, OF_VICTIMS)
        rivals = list(itertools.product(fitting(range(len(POLICIES)), ways), kinds))
        first = Cache(POLICIES[max(0, inner.policy)], inner.ways)
        own, timed = 2 * ways + params.extra + 1, int(params.length_per_way * ways)
        return _Asked(first, ways, rivals, own, timed, level > 2 or sets > 1 or inner.policy < 0, near)

    def sequences(self, params: Params, rng: np.random.Generator) -> tuple[list[Lines], Numbers]:
        """Those that distinguish the candidates, and what misses under each."""
        trials = _trials(self.ways, params.outer_trials, params, rng)
        step = 1 if self.always else 2
        for number, each in enumerate(trials[::step]):
            trials[step * number] = np.column_stack([each, self.own + np.arange(len(each)) % params.pool]).ravel()
        picked = [trials[each] for each in chosen(self._missed(trials, params.trial_draws), params)]
        return picked, self._missed(picked, params.draws)

    def last(self, sequence: Lines) -> int:
        """How many of its last parts are timed."""
        return self.timed * (1 + self._cleared(sequence))

    def _cleared(self, sequence: Lines) -> bool:
        """Whether evictors stand behind each line."""
        return bool(sequence.max() >= self.own)

    def _missed(self, asked: list[Lines], draws: int) -> Numbers:
        return np.array([[self._runs(each, one, draws) for one in self.rivals] for each in asked])

    def _runs(self, sequence: Lines, rival: tuple[int, int], draws: int) -> list[float]:
        """Timed loads that miss, of several runs that chance makes different, in sets that are empty at first."""
        outer, cleared = Cache(POLICIES[rival[0]], self.ways, rival[1]), self._cleared(sequence)
        # a group of evictors clears the inner cache, as one line does one of a single way
        inner = Cache(POLICIES[0], 1) if cleared else self.inner
        runs, counted = [], (self.own, self.last(sequence))
        for run in range(1, draws + 1):
            near, beyond = served(inner, outer, sequence, counted, run)
            usual = near if cleared else served(inner, outer._replace(kind=KEPT), sequence, counted, run)[0]
            runs.append(beyond + self.near * (usual - near))
        return runs
