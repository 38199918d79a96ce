"""The second cache: ways from minimal eviction sets, number of sets from the share of random pages that is congruent.

Take lines at one offset in random pages. Where address bits choose the set, the share of them in the victim's set is
one over the number of sets that the offset leaves open: sets times line bytes over page bytes. A hash of bits of the
offset and the page doubles that number for each hashed bit of the offset (Zen 4 has some), and lines whose offset
differs in it evict the victim, too. Sizes of further caches are only bounded, by working sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import special

from setebench.calibration import MEMORY, Levels
from setebench.experiments.chases import Pool
from setebench.experiments.eviction_sets import CacheSet, Evictions, Lines
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats.decide import at_least, chosen, number_of, unavailable, unresolved, within
from setebench.stats.rounds import commonest

METHOD = "minimal eviction sets, found by timing"
UNCOUNTED = "its sets were not counted"
COUNTED = "ways times sets: the share of random pages that lie in the set of a victim"


@dataclass(frozen=True, kw_only=True)
class Params:
    """How much is searched and counted, and the prior probabilities of numbers of sets."""

    pages: int = 8192  # pages of the pool: 2 MiB of 16 ways need 512 at one offset, and 256 of 8,192 are congruent
    tries: int = 4  # victims tried in a round until one has a minimal eviction set
    seconds: float = 1.5  # time budget for counting in a round, as estimated from `Facts.lines_per_second`
    overhead: int = 100  # loads that take as long as a sample's flushes and fences
    samples: int = 8  # about how often a test of one page loads each line of the chase
    seen: float = 6.0  # congruent lines to expect per round at an offset that differs in a hashed bit: rounds add up
    stray: float = 0.1  # share of these that tests wrongly find where the bit isn't hashed
    count_error: float = 0.03  # relative error of shares besides chance: tests that went wrong
    odd_sets: float = 0.05  # prior of 3 and 5 times a power of two sets, relative to a power of two
    curve_error: float = 0.25  # standard error of log(end of the level's curve / size), if it ends beyond the size
    taken: float = 0.5  # the same if it ends earlier: conflicts and co-runners take up to half of a cache
    most_sets_log2: int = 18  # log2 of the largest number of sets that is considered
    unclear: float = 0.05  # probability that a bit is hashed, and that it isn't, above which the index is unresolved
    clear: int = 3  # rounds that end the search if all agree: others would cost time
    sure: float = 0.99  # probability of the number of sets that ends the search
    agree: int = 2  # rounds that have to find the same ways; fewer give a bound
    by_curve: float = 0.5  # least size, relative to where the level's curve ends: others use a shared cache


PARAMS = Params()


class EvictionRound(msgspec.Struct, frozen=True, kw_only=True):
    """What one round found of the second cache. `ways` is the size of the eviction set (0: none was found). Of the
    random `pages` outside it, `tested` were tried with their line at the victim's offset, and `congruent` of these
    lines are in the victim's cache set. For each bit of a line's number in its page, `elsewhere` lines whose number
    differs in it were tried, and `mixed` of them are in the victim's set: none unless the index hashes the bit."""

    ways: int = 0
    pages: int = 0
    tested: int = 0
    congruent: int = 0
    elsewhere: int = 0
    mixed: tuple[int, ...] = ()


def measure_eviction(
    context: Context, pool: Pool, earlier: Sequence[EvictionRound] = ()
) -> tuple[EvictionRound, CacheSet | None]:
    """Measure one round: find an eviction set of the second cache, and count the pages of `pool` outside it whose line
    at the victim's offset is in the same cache set. Return the round and that set; an empty round and None if no
    eviction set was found. If several `earlier` rounds found none either, only one victim is tried."""
    evictions, line, params = Evictions(context, pool), context.line_size, PARAMS
    hopeful = len(earlier) < params.agree or any(each.ways for each in earlier)
    for _ in range(params.tries if hopeful else 1):
        victim, *rest = pool.rng.permutation(pool.pages) + int(pool.rng.integers(TLB_PAGE_BYTES // line)) * line
        lines = np.array(rest)
        if (found := evictions.find(int(victim), lines)) is not None:
            counted = _counted(evictions, found, lines, params)
            if counted[0].congruent:  # a set that evicts nothing but this victim is no eviction set
                return counted
    return EvictionRound(), None


def _counted(evictions: Evictions, found: CacheSet, lines: Lines, params: Params) -> tuple[EvictionRound, CacheSet]:
    context, pool = evictions.context, evictions.pool
    steps = params.samples * (len(found.evictors) * found.turns + params.overhead)
    # half of the time for the victim's offset, half for others
    affordable = max(int(params.seconds / 2 * context.machine.facts.lines_per_second / steps), params.samples)
    further = pool.rng.permutation(np.setdiff1d(lines, found.evictors))
    tested = further[:affordable]
    whole = evictions.whole(found, tested)
    congruent = len(whole.own) - len(found.own)
    bits = (TLB_PAGE_BYTES // context.line_size).bit_length() - 1
    wanted = min(affordable // bits, int(params.seen * len(tested) / max(congruent, 1)))
    clear = found.ways + evictions.params.others
    wanted = max(min(wanted, len(whole.others) - clear), 0)  # lines that aren't there must not count as tested
    every = [1 << bit for bit in range(bits)] if congruent else []
    return EvictionRound(
        ways=found.ways,
        pages=len(further),
        tested=len(tested),
        congruent=congruent,
        elsewhere=wanted,
        mixed=tuple(_elsewhere(evictions, whole, changed, (clear, wanted)) for changed in every),
    ), whole


def _elsewhere(evictions: Evictions, whole: CacheSet, changed: int, counts: tuple[int, int]) -> int:
    """Return how many lines lie in the victim's set although their number in the page differs in the bits `changed`, of
    `counts[1]` that are tested. The set evicts them with `counts[0]` lines that clear nearer caches, but the latter
    alone don't. The lines' pages have no line of the set at the victim's offset: a prefetcher could load it, too."""
    pages = evictions.pool.rng.permutation(whole.others)[: sum(counts)]
    clearing, lines = np.split(pages ^ changed * evictions.context.line_size, [counts[0]])
    evicted = lines[evictions.congruent(lines, np.append(whole.own[1 : whole.ways + 1], clearing))]
    return len(evicted) - int(evictions.congruent(evicted, clearing).sum())


class SecondShape(msgspec.Struct, frozen=True, kw_only=True):
    """What rounds say of the second cache. `ways` is the commonest number of ways, and `agreed` the number of rounds
    that found it. `hashed` is how many bits of a line's number within its page the index hashes (None: unclear). `sets`
    maps possible numbers of sets to their probability."""

    ways: int
    agreed: int
    hashed: int | None
    sets: dict[int, float]


def second_cache_shape(
    rounds: Sequence[EvictionRound], line: int, end_bytes: float, params: Params = PARAMS
) -> SecondShape | None:
    """Infer ways (the commonest answer of rounds) and a posterior of the number of sets, from the counts of congruent
    lines of `line` bytes and the capacity `end_bytes` (0 if unknown). None if no round found an eviction set."""
    if not (found := [each.ways for each in rounds if each.ways]):
        return None
    ways = commonest(found)
    own = [each for each in rounds if each.ways == ways]
    # the pages of the set itself count too: they come from the same random pages
    drawn = sum(ways + each.pages for each in own)
    hits = sum(ways + each.pages * each.congruent / each.tested for each in own)
    elsewhere, bits = sum(each.elsewhere for each in own), (TLB_PAGE_BYTES // line).bit_length() - 1
    seen = np.array([each.mixed or (0,) * bits for each in own]).sum(axis=0)
    chances = _mixed_chances(seen, elsewhere * hits / drawn, params)
    mixed, sure = np.ones(1), chances > 1 - params.unclear
    for chance in chances:
        mixed = np.convolve(mixed, [1 - chance, chance])
    share = (hits + seen[sure].sum()) / (drawn + sure.sum() * elsewhere)
    error = float(np.hypot(max(sum(each.congruent for each in own) + seen[sure].sum(), 1) ** -0.5, params.count_error))
    weights = dict[int, float]()
    for odd in (1, 3, 5):
        for power in range(params.most_sets_log2 + 1):
            sets = odd << power
            off = np.log((TLB_PAGE_BYTES // line) / share / 2.0 ** np.arange(len(mixed)) / sets) / error
            beyond = np.log(end_bytes / (sets * ways * line)) if end_bytes else 0.0
            curve = beyond / (params.curve_error if beyond > 0 else params.taken)
            weight = float((mixed * np.exp(-(off**2) / 2)).sum() * np.exp(-(curve**2) / 2))
            weights[sets] = weight * (1.0 if odd == 1 else params.odd_sets)
    total = sum(weights.values())
    likely = {each: weight / total for each, weight in weights.items() if weight > 1e-4 * total} if total else {}
    hashed = None if ((chances > params.unclear) & ~sure).any() else int(sure.sum())
    return SecondShape(ways=ways, agreed=found.count(ways), hashed=hashed, sets=likely)


def clear(rounds: Sequence[EvictionRound], line: int, end_bytes: float, params: Params = PARAMS) -> bool:
    """Whether more rounds would hardly change the answer of `second_cache_shape` (arguments as there), as all agree."""
    shape = second_cache_shape(rounds, line, end_bytes, params)
    agreed = shape is not None and params.clear <= shape.agreed == len(rounds) and shape.hashed is not None
    return bool(agreed and shape and max(shape.sets.values(), default=0.0) > params.sure)


def _mixed_chances(seen: NDArray[np.int64], expected: float, params: Params) -> NDArray[np.float64]:
    """Return the probability that the index hashes each bit of a line's number, shape (bits,). `seen` are counts of
    congruent lines: about `expected` of a hashed bit, and of others a few `stray` ones."""
    if not expected:
        return np.full(len(seen), 0.5)
    return np.asarray(special.expit(-seen * np.log(params.stray) - (1 - params.stray) * expected))


def second_cache_findings(
    rounds: Sequence[EvictionRound], levels: Levels, line: int, params: Params = PARAMS
) -> Iterator[Finding]:
    """Yield the second cache's size, ways, and whether its index is hashed, by rounds on lines of `line` bytes."""
    shape = second_cache_shape(rounds, line, levels.ends_bytes.get("l2", 0.0), params)
    agreed = shape is not None and shape.agreed >= min(params.agree, len(rounds))
    none = "no minimal eviction set was found"
    if shape is not None and agreed and shape.sets:
        sizes = {sets * shape.ways * line: likely for sets, likely in shape.sets.items()}
        yield number_of("cache.l2.size", sizes, "bytes", COUNTED)
    else:
        yield size_by_curve("l2", levels, params)
    if shape is None:
        yield unresolved("cache.l2.ways", "ways", none, METHOD)
    elif agreed:
        yield chosen("cache.l2.ways", shape.ways, "ways", METHOD)
    else:
        yield at_least("cache.l2.ways", shape.ways, "ways", "rounds found different numbers of ways", METHOD)
    if shape is None or shape.hashed is None:
        why = "some rounds find a hash of address bits, others none" if shape else none
        yield unresolved("cache.l2.index", "string", why, METHOD)
    else:
        yield chosen("cache.l2.index", "hashed" if shape.hashed else "linear", "string", METHOD)


def further_findings(levels: Levels) -> Iterator[Finding]:
    """Yield for each cache behind the second a lower bound of its size by the capacity curve (`levels`), and findings
    that say that its ways, index, policy and inclusion are not measured."""
    for number, name in enumerate(levels.caches[2:]):
        yield size_by_curve(name, levels)
        for parameter, unit in (
            (f"cache.{name}.ways", "ways"),
            (f"cache.{name}.index", "string"),
            (f"cache.{name}.replacement", "string"),
            (f"cache.{levels.caches[number + 1]}.inclusive_in_{name}", "bool"),
        ):
            yield unavailable(parameter, unit, "not measured since 0.2")


def capacities(levels: Levels, name: str) -> list[float]:
    """Return for each round the working set in bytes (interpolated on a logarithmic scale) at which a load costs the
    mean of the latencies of cache `name` and of the next level. Rounds that never cross that latency are left out."""
    behind = [*levels.caches, MEMORY][levels.caches.index(name) + 1]
    half = (levels.cycles[name] + levels.cycles[behind]) / 2
    sizes, found = np.log(levels.sweep.get("size_bytes", [])), []
    for cycles in levels.sweep.get("rounds", []):
        row = np.fmax.accumulate(np.array(cycles, dtype=np.float64))
        if row[0] <= half < row[-1]:
            found.append(float(np.exp(np.interp(half, row, sizes))))
    return found


def size_by_curve(name: str, levels: Levels, params: Params = PARAMS) -> Finding:
    """Return a lower bound of cache `name`'s size: half the working set at which outer levels serve half the loads."""
    if name not in levels.ends_bytes:
        return unresolved(f"cache.{name}.size", "bytes", f"{UNCOUNTED}, and no working set outgrew it", METHOD)
    reason, seen = UNCOUNTED, capacities(levels, name)
    if seen:
        reason += f"; rounds saw {min(seen) / (1 << 20):.3g} to {max(seen) / (1 << 20):.3g} MiB"
    bound = at_least(f"cache.{name}.size", int(params.by_curve * levels.ends_bytes[name]), "bytes", reason, METHOD)
    return within(bound, min(seen), max(seen)) if seen else bound
