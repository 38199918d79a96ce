"""Which line of a set gives way, and what the second cache does with lines of the first: from sequences on a set.

In each round random sequences of loads of a few more lines than fit are run, every load is timed, and which of them
miss is compared with what each policy would have missed. The second cache sees nothing of what the first one still
holds: lines that share sets of the first, but not of the second, are traversed behind each load and push its line out
there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from scipy import stats

from setebench.experiments.conflicts import FILL_TURNS, MOST_LOADS, Lines, Numbers, Sets, load_cycles, missed
from setebench.experiments.eviction_sets import CacheSet, Evictions
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
    """Which sequences are run, and what is believed of their misses."""

    sequences: int = 4  # of random loads in a round; a dozen distinguishes the policies
    repetitions: int = 8  # of each, in other sets: their mean is known to an eighth of a miss on a clock in long steps
    extra: int = 3  # lines more than fit, at most
    sets: int = 12  # of a first cache that sequences use
    region_bytes: int = 16 << 20  # addresses of the lines of a first cache, in the largest pages
    evictors: float = 2.5  # times the ways of the first cache, which may replace at random
    groups: int = 2  # of evictors, by turns: one group would become lines in use
    error: float = 0.1  # of a mean of repetitions, beside what these differ by: others' lines, translations
    tail: float = 2.0  # degrees of freedom of the errors' Student's t: some sets are disturbed in all repetitions
    fits: float = 0.05  # mean square of what a policy leaves: the same as a share of its predictions that are wrong
    fewest: int = 2  # rounds, or nothing is known of how they vary
    shared: tuple[float, float] = (0.08, 0.15)  # misses of an exclusive cache at most, and of another at least
    turns: int = 16  # repetitions of lines that go round, in a round


PARAMS = Params()


class Replaced(msgspec.Struct, frozen=True, kw_only=True):
    """One round on sets of so many `ways`: the sequences, shape (sequences, loads), and how much each load missed,
    shape (repetitions, sequences, loads)."""

    ways: int
    lines: Lines
    late: Numbers


class SecondReplaced(Replaced, frozen=True, kw_only=True):
    """The same of the second cache; how many loads missed of more lines than it holds, not pushed out of the first."""

    around: float


def sequences(ways: int, loads: int, rng: np.random.Generator, params: Params = PARAMS) -> Lines:
    """Random sequences, shape (sequences, loads): all lines once, then some more often than others, or policies that
    keep what was used would show nothing."""
    rows = []
    for _ in range(params.sequences):
        lines = ways + 1 + int(rng.integers(params.extra))
        weight = rng.dirichlet(np.full(lines, 1.0))
        rows.append(np.append(np.arange(lines), rng.choice(lines, loads - lines, p=0.5 * weight + 0.5 / lines)))
    return np.array(rows)


def _replaced(context: Context, region: Region, sets: Sets, level: int, ways: int) -> Replaced:
    """Sequences on sets of the cache with that number, counted from 0."""
    lines = sequences(ways, MOST_LOADS, context.fresh_rng())
    cycles = load_cycles(context, region, sets, np.tile(lines, (PARAMS.repetitions, 1)))[:, :-1]
    return Replaced(ways=ways, lines=lines, late=missed(context, cycles, level).reshape(-1, *lines.shape))


def measure_first(context: Context, first: FirstShape) -> Replaced:
    """One round on sets of a first cache whose index is address bits."""
    region = context.allocate(PARAMS.region_bytes, max(context.machine.facts.page_sizes))
    try:
        rng, line, ways = context.fresh_rng(), region.line_size, first.ways
        stride, own = max(first.bytes // ways, TLB_PAGE_BYTES), ways + PARAMS.extra
        at = rng.integers(0, stride // line, PARAMS.sets) * line
        lines = np.array([region.address + each + rng.permutation(region.size // stride) * stride for each in at])
        return _replaced(context, region, Sets(lines[:, : own + ways + 1], own), 0, ways)
    finally:
        context.machine.release(region)


def measure_second(evictions: Evictions, found: CacheSet, first: FirstShape) -> SecondReplaced | None:
    """One round on a set of the second cache; None where memory holds too few lines of its set, or beside it."""
    context, region, ways, own = evictions.context, evictions.pool.region, found.ways, found.ways + PARAMS.extra
    # of pages at one offset not all share a set where a way is larger than a page
    colours = max(1, first.bytes // first.ways // TLB_PAGE_BYTES)
    least = int(PARAMS.evictors * first.ways)
    count = PARAMS.groups * (least + int(stats.nbinom.ppf(CONFIDENCE, least, 1 / colours)))
    evictions.turns = found.turns
    others, lines = evictions.resident(found.others, count), found.own[: own + ways + 1]
    if len(lines) < own + ways + 1 or len(others) < count:
        return None
    evictors = others.reshape(PARAMS.groups, -1)
    some = min(ways + max(1, first.ways // 2), len(lines) - 1)
    loads = np.tile(np.arange(MOST_LOADS) % some, (PARAMS.turns, 1))
    around = missed(context, load_cycles(context, region, Sets(lines[None, :], some, evictors[0]), loads), 1)
    whole = _replaced(context, region, Sets(lines[None, :], own, evictors[0], evictors), 1, ways)
    share = float(around[:, some:-1].mean())
    return SecondReplaced(ways=ways, lines=whole.lines, late=whole.late, around=share)


def policy(rounds: Sequence[Replaced], moved: Sequence[bool] = (False,)) -> list[str]:
    """The names of the policies that may be behind what loads missed, the likeliest first, in the model of a cache that
    moves lines that hit, or doesn't; none where no policy that is known misses these loads.

    Loads of a round are disturbed together, so it is rounds that differ by chance: the likeliest policy stands alone
    where it explains them better than each other one by more than these differences vary."""
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
    """Which line the cache with that number, counted from 1, replaces."""
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


def second_findings(context: Context, rounds: Sequence[SecondReplaced]) -> Iterator[Finding]:
    """Replacement of the second cache, and what it does with lines of the first."""
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


def exclusive_of(rounds: Sequence[SecondReplaced], params: Params = PARAMS) -> bool | None:
    """Whether lines that go round in both caches fit into both together, which are more than fit into the second; None
    where that is not clear."""
    share = float(np.median([each.around for each in rounds])) if rounds else np.nan
    return share < params.shared[0] if share < params.shared[0] or share > params.shared[1] else None
