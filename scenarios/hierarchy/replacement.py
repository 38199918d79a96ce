"""Which line of a set gives way, and what a cache does with lines of the one before it: from sequences on a set.

Random sequences of loads of a few more lines than fit are run, every load is timed, and which of them miss is compared
with what each policy would have missed. An outer cache sees nothing of what those before it still hold: lines that
share the sets of the caches before, but not of this one, are traversed behind each load and push its line out there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy import stats

from setebench.calibration import Levels
from setebench.experiments.chases import Pool
from setebench.experiments.conflicts import FILL_TURNS, MOST_LOADS, Lines, Numbers, Sets, load_cycles, missed
from setebench.experiments.eviction_sets import CacheSet, Evictions
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.machine import Region
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats import cache_model
from setebench.stats.cache_model import EXCLUSIVE, KEPT, OF_VICTIMS, POLICIES, PUBLISHED
from setebench.stats.decide import backed, chosen, one_of, summed, unresolved
from setebench.stats.estimate import CONFIDENCE
from setebench.stats.pairs import interquartile_mean

from .eviction_sets import outer_findings

METHOD = "sequences of loads of lines that share a set"
AROUND = "more lines of a set go round than it has ways"
TOUCHED = "loads of a line in use between loads of others of its set"
NO_SET = "no lines that share a set were found"
NO_EVICTORS: Lines = np.zeros((0, 1), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class Params:
    """Which sequences are run, and what is believed of their misses."""

    sequences: int = 24  # of random loads; a dozen distinguishes published policies, more their variants
    repetitions: int = 8  # of each, in other sets: their mean is known to an eighth of a miss on a clock in long steps
    extra: int = 3  # lines more than fit, at most
    sets: int = 12  # of a first cache that sequences use
    region_bytes: int = 16 << 20  # addresses of the lines of a first cache, in the largest pages
    evictors: float = 1.25  # times the ways of the cache before, and twice as many where that may replace at random
    groups: int = 2  # of evictors, by turns: one group would become lines in use
    victims: int = 4  # tried behind the second cache until one has a minimal eviction set
    searched: int = 2048  # candidates tested for lines of such a set
    first_stage: int = 4  # sequences by which all candidates are compared; the `kept` best go on with all
    kept: int = 48
    error: float = 0.1  # of a mean of repetitions, beside what these differ by: others' lines, translations
    tail: float = 2.0  # degrees of freedom of the errors' Student's t: some sets are disturbed in all repetitions
    published: float = 1e3  # times as likely beforehand as a variant that nobody has published: some behave alike
    fits: float = 0.05  # mean square of what a policy leaves: the same as a share of its predictions that are wrong
    misfits: float = 0.1  # the same from which it is none of them
    noisy: float = 0.1  # variance of repetitions above which nothing is said to be none of them
    shared: tuple[float, float] = (0.08, 0.15)  # misses of an exclusive cache at most, and of another at least
    touches: int = 96  # repetitions of loads of a line in use
    by_chance: float = 0.6  # of a line in use, how often an inclusive cache that replaces at random loses it per pass
    most: float = 1.3  # the same of any
    strays: float = 0.08  # error of how often it is lost, beside what repetitions differ by
    other: float = 0.02  # how likely it is that neither explains the losses


PARAMS = Params()


class KnownCache(NamedTuple):
    """A cache whose sets are of address bits: its sets, ways, and whether it replaces at random, None if not known."""

    sets: int
    ways: int
    by_chance: bool | None = None


@dataclass(frozen=True)
class Replaced:
    """Posteriors of the policy's name and of whether chance has a part in it; or why there are none."""

    names: dict[str, float] = field(default_factory=dict)
    by_chance: bool | None = None
    reason: str = ""

    def finding(self, level: int) -> Finding:
        """Of a cache with that number."""
        parameter = f"cache.l{level}.replacement"
        return backed(one_of(parameter, self.names, "string", METHOD, self.reason), f"l{level}_sequences")


def sequences(ways: int, loads: int, rng: np.random.Generator, params: Params = PARAMS) -> Lines:
    """Random sequences, shape (sequences, loads): all lines once, then some more often than others, or policies that
    keep what was used would show nothing."""
    rows = []
    for _ in range(params.sequences):
        lines = ways + 1 + int(rng.integers(params.extra))
        weight = rng.dirichlet(np.full(lines, 1.0))
        rows.append(np.append(np.arange(lines), rng.choice(lines, loads - lines, p=0.5 * weight + 0.5 / lines)))
    return np.array(rows)


def policy(late: Numbers, lines: Lines, ways: int, kinds: Sequence[int], params: Params = PARAMS) -> Replaced:
    """The policy that explains which loads were `late`, shape (repetitions, sequences, loads), by the model."""
    mean, noise = np.clip(late.mean(axis=0), 0.0, 1.0), float(late.var(axis=0).mean())
    fill = np.resize(np.arange(ways + 1) + lines.max() + 1, (len(lines), FILL_TURNS * (ways + 1)))
    whole = np.concatenate([fill, lines], axis=1)

    def left(candidate: tuple[int, int], count: int) -> Numbers:
        predicted = cache_model.missed(POLICIES[candidate[0]], ways, whole[:count], candidate[1])
        return np.asarray(mean[:count] - predicted[:, fill.shape[1] :])

    every = [(number, kind) for kind in kinds for number in range(len(POLICIES))]
    likely = sorted(every, key=lambda each: float((left(each, params.first_stage) ** 2).mean()))[: params.kept]
    rest = {each: left(each, len(lines)) for each in likely}
    scale = np.hypot(params.error, (noise / len(late)) ** 0.5)
    logs = np.array([stats.t.logpdf(each / scale, params.tail).sum() for each in rest.values()])
    logs += np.log([params.published if number < len(PUBLISHED) else 1.0 for number, _ in rest])
    weights = np.exp(logs - logs.max())
    best = likely[int(logs.argmax())]
    off = float((rest[best] ** 2).mean()) - noise / len(late)
    if off > params.fits:
        clear = off > params.misfits and noise < params.noisy
        return Replaced({"other": 1.0}) if clear else Replaced(reason="no policy that is known misses these loads")
    posterior = dict(zip(likely, (weights / weights.sum()).tolist(), strict=True))
    chance = summed(posterior, lambda each: POLICIES[each[0]].by_chance)
    sure = max(chance, key=lambda each: chance[each])
    return Replaced(
        summed(posterior, lambda each: POLICIES[each[0]].name), sure if chance[sure] >= CONFIDENCE else None
    )


def _compared(context: Context, region: Region, sets: Sets, where: tuple[int, int], kinds: Sequence[int]) -> Replaced:
    """What sequences on sets of a cache say of its policy; `where` is its level, counted from 0, and its ways."""
    level, ways = where
    lines = sequences(ways, MOST_LOADS, context.rng(f"sequences {level}"))
    cycles = load_cycles(context, region, sets, np.tile(lines, (PARAMS.repetitions, 1)))[:, :-1]
    late = missed(context, cycles, level).reshape(PARAMS.repetitions, *lines.shape)
    context.evidence[f"l{level + 1}_sequences"] = {
        "ways": ways,
        "lines": lines.tolist(),
        "missed": late.mean(axis=0).round(2).tolist(),
        "variance": round(float(late.var(axis=0).mean()), 4),
    }
    return policy(late, lines, ways, kinds)


def first_policy(context: Context, first: KnownCache) -> Replaced:
    """Which line of a set a first cache replaces whose index is address bits."""
    region = context.machine.allocate(PARAMS.region_bytes, max(context.machine.facts.page_sizes))
    try:
        rng, line, ways = context.fresh_rng(), region.line_size, first.ways
        stride, own = max(first.sets * line, TLB_PAGE_BYTES), ways + PARAMS.extra
        at = rng.integers(0, stride // line, PARAMS.sets) * line
        lines = np.array([region.address + each + rng.permutation(region.size // stride) * stride for each in at])
        sets = Sets(lines[:, : own + ways + 1], own)
        return _compared(context, region, sets, (0, ways), (KEPT,))
    finally:
        context.machine.release(region)


class OuterSet:
    """A set of a cache behind the first, counted from 0, behind the cache `inner`: lines of its own, groups of evictors
    of the cache before, and control lines that share only that one's set."""

    def __init__(self, evictions: Evictions, found: CacheSet, level: int, inner: KnownCache) -> None:
        """Choose the lines; `enough` says whether there are as many as sequences need."""
        self.context, self.region, self.level = evictions.context, evictions.pool.region, level
        self.ways, self.inner_ways, needed = found.ways, inner.ways, 2 * found.ways + PARAMS.extra + 1
        least = int(PARAMS.evictors * inner.ways * (1 if inner.by_chance is False else 2))
        # of pages at one offset not all share a set where a way is larger than a page
        colours = max(1, inner.sets * self.region.line_size // TLB_PAGE_BYTES)
        count = PARAMS.groups * (least + int(stats.nbinom.ppf(CONFIDENCE, least, 1 / colours)))
        evictions.turns = found.turns
        controls = found.ways + PARAMS.extra + 1
        others = evictions.resident(found.others, count + controls)
        self.own, (evictors, self.control) = found.own[:needed], np.split(others, [min(count, len(others))])
        self.enough = len(self.own) == needed and len(self.control) == controls
        self.evictors = evictors.reshape(PARAMS.groups, -1) if self.enough else NO_EVICTORS

    def _sets(self, lines: Lines, loaded: int, evictors: Lines) -> Sets:
        """One set of which the first so many lines are loaded."""
        return Sets(lines[None, :], loaded, self.evictors[0], evictors)

    def replaced(self, kinds: Sequence[int]) -> Replaced:
        """Which line gives way, if the cache is of one of these kinds (`stats.cache_model`)."""
        sets = self._sets(self.own, self.ways + PARAMS.extra, self.evictors)
        return _compared(self.context, self.region, sets, (self.level, self.ways), kinds)

    def exclusive(self) -> bool | None:
        """Whether lines that go round in both caches fit into both together, which are more than fit into this one;
        None where that is not clear."""
        lines = min(self.ways + max(1, self.inner_ways // 2), len(self.own) - 1)
        around = np.tile(np.arange(MOST_LOADS) % lines, (PARAMS.touches, 1))
        cycles = load_cycles(self.context, self.region, self._sets(self.own, lines, self.evictors[:0]), around)
        share = float(missed(self.context, cycles[:, lines:-1], self.level).mean())
        self.context.evidence[f"l{self.level + 1}_misses_of_both"] = round(share, 3)
        return None if PARAMS.shared[0] < share < PARAMS.shared[1] else share < PARAMS.shared[0]

    def losses(self, evictors: Lines) -> Losses:
        """How often a line is lost that the cache before keeps, as it is loaded after every load of another line of its
        set. `evictors` push it out of the caches before that, so that the cache before sees its use."""
        around = np.zeros(MOST_LOADS, dtype=np.int64)
        around[1::2] = 1 + np.arange(MOST_LOADS // 2) % (self.ways + 1)
        several, sure = [], []
        for lines in (self.own, self.control):
            sets = self._sets(lines, self.ways + PARAMS.extra, evictors)
            cycles = load_cycles(self.context, self.region, sets, np.tile(around, (PARAMS.touches, 1)))
            late = [missed(self.context, cycles, level) for level in (self.level, self.level - 1)]
            several.append([each[:, 2:-1:2].mean(axis=1) for each in late])
            sure.append(late[1][:, -1].mean() if self.level == 1 else 0.0)  # what hits may be late as well
        (lost, nearer), (strays, _) = (np.array(each) * (self.ways + 1) for each in several)
        error = float(np.hypot(lost.std(), strays.std())) / PARAMS.touches**0.5
        given_up = interquartile_mean(nearer - lost) - float(np.mean(sure)) * (self.ways + 1)
        return Losses(interquartile_mean(lost) - interquartile_mean(strays), error, max(0.0, given_up))


class Losses(NamedTuple):
    """Of a line in use, for as many loads of others as push it out: how often it was lost, the error of that, and how
    often the cache before gave it up by itself."""

    lost: float
    error: float
    given_up: float


def inclusion_posterior(counted: Losses, params: Params = PARAMS) -> dict[bool | None, float]:
    """Whether lines are taken along; None for neither that nor kept.

    An inclusive cache takes a line in use along once in so many loads (at random a little less often), unless the cache
    before gave it up meanwhile: then its use is seen, and it stays. Another takes none; but of lines that the cache
    before gives up some are gone here too, if none was given up for so long. Giving up is taken as a Poisson process,
    of which noise may be a part."""
    given, gone = counted.given_up, counted.given_up + max(counted.lost, 0.0)
    taken = params.by_chance * (given / np.expm1(given) if given else 1.0)
    off = {True: max(taken - counted.lost, counted.lost - params.most, 0.0)}
    off[False] = max(-counted.lost, counted.lost - gone * float(np.exp(-gone)), 0.0)
    error = float(np.hypot(counted.error, params.strays))
    likely: dict[bool | None, float] = {each: float(np.exp(-((far / error) ** 2) / 2)) for each, far in off.items()}
    likely[None] = params.other
    return {each: value / sum(likely.values()) for each, value in likely.items()}


def inclusive(outer: OuterSet | None, evictors: Lines, level: int, reason: str) -> Finding:
    """Whether the cache with that number takes lines that it loses out of the one before."""
    parameter = f"cache.l{level - 1}.inclusive_in_l{level}"
    if outer is None:
        return unresolved(parameter, "bool", reason, TOUCHED)
    counted = outer.losses(evictors)
    outer.context.evidence[f"l{level}_losses"] = [round(each, 3) for each in counted]
    reason = (
        f"a line in use is lost {counted.lost:.2f} times per pass, give or take {2 * counted.error:.2f}, and given up "
        f"{counted.given_up:.2f} times by the cache before"
    )
    found = one_of(parameter, inclusion_posterior(counted), "bool", TOUCHED)
    return backed(found, f"l{level}_losses") if found.value is not None else unresolved(parameter, "bool", reason)


def outer_caches(
    context: Context, pool: Pool, first: KnownCache | None, second: CacheSet | None, levels: Levels
) -> Iterator[Finding]:
    """Replacement of all caches behind the first, what they do with lines of the one before, and ways of those behind
    the second: a set of each is searched among lines of a set of the one before."""
    inner, found, evictors = first, second, NO_EVICTORS
    reason = "which lines push others out of the first cache is not known" if first is None else NO_SET
    for level, name in enumerate(levels.caches[1:], 1):
        context.progress(f"which lines level {level + 1} replaces")
        evictions, outer = Evictions(context, pool, level), None
        candidates = found.own[: PARAMS.searched] if found else pool.rng.permutation(pool.pages)
        if inner and (found is None or level > 1):
            found = evictions.search(candidates, PARAMS.victims)
            reason = "" if found else NO_SET
        if inner and found:
            outer = OuterSet(evictions, found, level, inner)
            if not outer.enough:
                outer, reason = None, "too few lines that share a set, or don't, fit into memory"
        exclusive = outer.exclusive() if outer and level == 1 else None
        replaced = Replaced(reason=reason)
        if outer:
            kinds = (KEPT, EXCLUSIVE, OF_VICTIMS) if level > 1 else (KEPT, EXCLUSIVE)
            replaced = outer.replaced(kinds if exclusive is None else (kinds[exclusive],))
        yield replaced.finding(level + 1)
        if level == 1:
            yield exclusive_finding(exclusive, reason)
        else:
            yield from outer_findings(name, levels, found.ways if found and replaced.names else 0)
        yield inclusive(outer, evictors, level + 1, reason)
        evictors = outer.evictors if outer and level == 1 else evictors
        inner = KnownCache(1, found.ways, replaced.by_chance) if inner and found else None


def exclusive_finding(exclusive: bool | None, reason: str) -> Finding:
    """Whether the second cache holds only what the first one gave up."""
    parameter = "cache.l2.exclusive_of_l1"
    if exclusive is None:
        return unresolved(
            parameter, "bool", reason or "some lines that go round fit into both caches, others don't", AROUND
        )
    return chosen(parameter, exclusive, "bool", AROUND)
