"""Replacement policies of the first and the second cache, and whether the second is exclusive of the first.

In each round random sequences of loads use a few more lines of one set than it has ways. Every load is timed, and the
loads that miss are compared with those that miss under each known policy. The second cache doesn't see loads that hit
the first: so behind each load evictors are traversed, lines that share its set of the first cache only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from scipy import stats

from setebench.experiments.conflicts import FILL_TURNS, MOST_LOADS, Lines, Numbers, Sets, load_cycles, missed
from setebench.experiments.eviction_sets import CacheSet
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.machine import Region
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats.cache_model import POLICIES
from setebench.stats.cache_model import missed as missed_by
from setebench.stats.decide import chosen, unavailable, unresolved
from setebench.stats.estimate import CONFIDENCE

from .first_cache import FirstShape

METHOD = "sequences of loads of lines that share a set"
AROUND = "more lines of a set go round than it has ways"


@dataclass(frozen=True, kw_only=True)
class Params:
    """Which sequences are run, and how well a policy must explain their misses."""

    sequences: int = 4  # random sequences in a round: a dozen distinguish the policies
    repetitions: int = 8  # of each, in other sets: their mean is good to 1/8 of a miss on a clock with long steps
    extra: int = 3  # lines of a sequence above the ways, at most
    sets: int = 12  # sets of a first cache that sequences use
    region_bytes: int = 16 << 20  # memory for the lines of a first cache, in the largest pages
    evictors: float = 2.5  # lines of a group of evictors over the first cache's ways: replacement may be random
    groups: int = 2  # groups of evictors, used in turn: a single one would be kept as lines in use
    error: float = 0.1  # scale of a mean's error besides chance: co-runners' lines, translations
    tail: float = 2.0  # degrees of freedom of the errors' Student's t: some sets are disturbed in all repetitions
    fits: float = 0.05  # largest mean square of residuals, which is about the share of wrong predictions
    fewest: int = 2  # rounds: with fewer, how much rounds vary is unknown
    shared: tuple[float, float] = (0.08, 0.15)  # largest miss rate of a cyclic traversal if exclusive, least if not
    turns: int = 16  # repetitions of the cyclic traversal that decides exclusiveness, in a round


PARAMS = Params()


class Replaced(msgspec.Struct, frozen=True, kw_only=True):
    """One round of random sequences of loads, each on a set of a cache with so many `ways`. `lines` has the set's line
    that each load used, shape (sequences, loads). `late` is how much it missed (0: hit, 1: miss), shape (repetitions,
    sequences, loads). `around` is the miss rate of a cyclic traversal of more lines than the second cache's ways."""

    ways: int
    lines: Lines
    late: Numbers
    around: float = np.nan


def sequences(ways: int, loads: int, rng: np.random.Generator, params: Params = PARAMS) -> Lines:
    """Return random sequences of line numbers, shape (sequences, loads), of a few more lines than `ways`: all lines
    once, then some more often than others, as policies differ in how they keep lines that are used often."""
    rows = []
    for _ in range(params.sequences):
        lines = ways + 1 + int(rng.integers(params.extra))
        weight = rng.dirichlet(np.full(lines, 1.0))
        rows.append(np.append(np.arange(lines), rng.choice(lines, loads - lines, p=0.5 * weight + 0.5 / lines)))
    return np.array(rows)


def _replaced(context: Context, region: Region, sets: Sets, level: int, ways: int) -> Replaced:
    """Run random sequences on sets of the cache number `level` (0 is the first); return which loads missed."""
    lines = sequences(ways, MOST_LOADS, context.fresh_rng())
    cycles = load_cycles(context, region, sets, np.tile(lines, (PARAMS.repetitions, 1)))[:, :-1]
    return Replaced(ways=ways, lines=lines, late=missed(context, cycles, level).reshape(-1, *lines.shape))


def measure_first(context: Context, first: FirstShape) -> Replaced:
    """Measure one round: which loads miss in random sequences, each on one set of a first cache with a linear index."""
    region = context.allocate(PARAMS.region_bytes, max(context.machine.facts.page_sizes))
    try:
        rng, line, ways = context.fresh_rng(), region.line_size, first.ways
        stride, own = max(first.bytes // ways, TLB_PAGE_BYTES), ways + PARAMS.extra
        at = rng.integers(0, stride // line, PARAMS.sets) * line
        lines = np.array([region.address + each + rng.permutation(region.size // stride) * stride for each in at])
        return _replaced(context, region, Sets(lines[:, : own + ways + 1], own), 0, ways)
    finally:
        context.machine.release(region)


def measure_second(context: Context, region: Region, found: CacheSet, first: FirstShape) -> Replaced | None:
    """Measure one round on an eviction set of the second cache (`found`, in `region`); None where it has too few lines,
    or there are too few that evict from the first cache alone."""
    ways, own = found.ways, found.ways + PARAMS.extra
    # lines at one offset lie in so many sets of the first cache: several where a way is larger than a page
    colours = max(1, first.bytes // first.ways // TLB_PAGE_BYTES)
    least = int(PARAMS.evictors * first.ways)
    count = PARAMS.groups * (least + int(stats.nbinom.ppf(CONFIDENCE, least, 1 / colours)))
    others, lines = found.others[:count], found.own[: own + ways + 1]
    if len(lines) < own + ways + 1 or len(others) < count:
        return None
    evictors = others.reshape(PARAMS.groups, -1)
    some = min(ways + max(1, first.ways // 2), len(lines) - 1)
    loads = np.tile(np.arange(MOST_LOADS) % some, (PARAMS.turns, 1))
    around = missed(context, load_cycles(context, region, Sets(lines[None, :], some, evictors[0]), loads), 1)
    whole = _replaced(context, region, Sets(lines[None, :], own, evictors[0], evictors), 1, ways)
    return msgspec.structs.replace(whole, around=float(around[:, some:-1].mean()))


def policy(rounds: Sequence[Replaced], moved: Sequence[bool] = (False,)) -> list[str]:
    """Return the names of the policies that may explain which loads missed, the likeliest first; none where no policy
    does. `moved` says whether a hit moves a line out of the cache, as exclusive ones do; both are tried where unknown.

    Loads of a round are disturbed together, so rounds are the independent samples: a policy is left out where the
    likeliest one explains rounds better by more than their differences vary."""
    ways, lines = rounds[0].ways, np.concatenate([each.lines for each in rounds])
    late = np.concatenate([each.late for each in rounds], axis=1)
    fill = np.resize(np.arange(ways + 1) + lines.max() + 1, (len(lines), FILL_TURNS * (ways + 1)))
    whole = np.concatenate([fill, lines], axis=1)
    candidates = [(each, kind) for kind in moved for each in POLICIES]
    predicted = np.array([missed_by(each, ways, whole, kind) for each, kind in candidates])[..., fill.shape[1] :]
    left = np.clip(late.mean(axis=0), 0.0, 1.0) - predicted
    logs = stats.t.logpdf(left / PARAMS.error, PARAMS.tail).sum(axis=2)
    logs = np.array([each.sum(axis=1) for each in np.split(logs, len(rounds), axis=1)]).T
    best, noise = int(logs.sum(axis=1).argmax()), float(late.var(axis=0).mean())
    if float((left[best] ** 2).mean()) - noise / len(late) > PARAMS.fits or len(rounds) < PARAMS.fewest:
        return []
    ahead = logs[best] - logs
    errors = ahead.std(axis=1, ddof=1) / len(rounds) ** 0.5
    unclear = np.flatnonzero(ahead.mean(axis=1) <= stats.t.ppf(CONFIDENCE, len(rounds) - 1) * errors)
    return list(dict.fromkeys(candidates[each][0].name for each in (best, *unclear)))


def replacement_finding(
    context: Context, level: int, rounds: Sequence[Replaced], moved: Sequence[bool] = (False,)
) -> Finding:
    """Return the finding of the replacement policy of cache number `level` (1 is the first), and store the measured
    sequences as evidence. `moved` says whether a hit moves a line out of the cache; both where unknown."""
    parameter, key = f"cache.l{level}.replacement", f"l{level}_sequences"
    if not rounds:
        return unresolved(parameter, "string", "no lines that share a set were found", METHOD)
    context.evidence[key] = [
        {"ways": each.ways, "lines": each.lines.tolist(), "missed": each.late.mean(axis=0).round(2).tolist()}
        for each in rounds
    ]
    names = policy(rounds, moved)
    if len(names) == 1:
        return chosen(parameter, names[0], "string", METHOD, key)
    several = " or ".join(names) or "no policy that is known"
    return unresolved(parameter, "string", f"{several} may miss these loads", METHOD)


def second_findings(context: Context, rounds: Sequence[Replaced]) -> Iterator[Finding]:
    """Yield the second cache's replacement policy, and whether it is exclusive or inclusive of the first."""
    exclusive = exclusive_of(rounds)
    yield replacement_finding(context, 2, rounds, (False, True) if exclusive is None else (exclusive,))
    context.evidence["l2_around"] = [each.around for each in rounds]
    if exclusive:
        yield chosen("cache.l1.inclusive_in_l2", False, "bool", AROUND, "l2_around")
    else:
        yield unavailable("cache.l1.inclusive_in_l2", "bool", "not measured since 0.2")
    if exclusive is None:
        why = "rounds disagree, or no lines that share a set were found"
        yield unresolved("cache.l2.exclusive_of_l1", "bool", why, AROUND)
    else:
        yield chosen("cache.l2.exclusive_of_l1", exclusive, "bool", AROUND, "l2_around")


def exclusive_of(rounds: Sequence[Replaced], params: Params = PARAMS) -> bool | None:
    """Whether `rounds` show that the second cache is exclusive of the first, None if unclear. If it is, a cyclic
    traversal of a few more lines than its ways hits, as both caches together hold them."""
    share = float(np.median([each.around for each in rounds])) if rounds else np.nan
    return share < params.shared[0] if share < params.shared[0] or share > params.shared[1] else None
