"""The second data cache: ways by minimal eviction sets, sets by how many random pages are congruent with a victim.

Of lines at one offset of random pages the share that lies in the victim's set is one over the number of sets that the
offset leaves open: sets times line bytes over page bytes, where address bits choose the set. A hash leaves all of them
open, and then lines at other offsets evict the victim as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from setebench.calibration import Levels
from setebench.experiments.chases import Pool
from setebench.experiments.eviction_sets import CacheSet, Evictions, EvictionSet, Lines
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats.decide import at_least, chosen, number_of, summed, unavailable, unresolved, within
from setebench.stats.rounds import commonest

from .capacity import capacities

METHOD = "minimal eviction sets, found by timing"
UNCOUNTED = "its sets were not counted"
UNFOUND = "no minimal eviction set was found"
COUNTED = "ways times sets: the share of random pages that lie in the set of a victim"


@dataclass(frozen=True, kw_only=True)
class Params:
    """How much is searched and counted, and what is believed of numbers of sets."""

    pages: int = 8192  # of the pool: 2 MiB of 16 ways need 512 lines at one offset, and 256 of 8,192 are congruent
    tries: int = 2  # victims of a round until one has a minimal set
    seconds: float = 0.7  # of the user's time for the count of a round, by what the machine says that lines cost
    overhead: int = 100  # loads that a sample costs beside: its flushes and fences
    samples: int = 8  # about so many loads of every line of the ring for a page that is counted
    spread: float = 5.0  # times as many lines at other offsets as hold one of the set where the index is a hash
    count_error: float = 0.03  # relative, of shares beside chance: tests that went wrong
    odd_sets: float = 0.05  # how common 3 and 5 times a power of two sets are beside a power of two
    most_sets_log2: int = 18  # largest number of sets, a power of two
    unclear: tuple[float, float] = (0.3, 0.6)  # shares of rounds that find a hash between which the index is open
    agree: int = 2  # rounds that have to find the same ways; fewer give a bound
    by_curve: float = 0.5  # share of where the level's curve ends that a cache holds at least: others use it


PARAMS = Params()


class EvictionRound(msgspec.Struct, frozen=True, kw_only=True):
    """What one round found: `ways`, 0 where no set was found; of `pages` random ones beside the set and the victim,
    which lie at its offset, `tested` and so many `congruent` ones; and whether lines at other offsets are as well
    (`hashed`)."""

    ways: int = 0
    pages: int = 0
    tested: int = 0
    congruent: int = 0
    hashed: bool = False


def eviction_pool(context: Context, params: Params = PARAMS) -> Pool:
    """The pages that rounds share. Whoever made it closes it."""
    return Pool(context, params.pages)


def measure_eviction(context: Context, pool: Pool, params: Params = PARAMS) -> tuple[EvictionRound, CacheSet | None]:
    """One round: a minimal set of the second cache, and how many pages of the pool are congruent with it."""
    evictions, line = Evictions(context, pool), context.machine.facts.line_size
    for _ in range(params.tries):
        victim, *lines = pool.rng.permutation(pool.pages) + int(pool.rng.integers(TLB_PAGE_BYTES // line)) * line
        if (found := evictions.find(int(victim), np.array(lines))) is not None:
            return _counted(evictions, found, np.array(lines), params)
    return EvictionRound(), None


def _counted(evictions: Evictions, found: EvictionSet, lines: Lines, params: Params) -> tuple[EvictionRound, CacheSet]:
    context, pool = evictions.context, evictions.pool
    ring = np.append(found.lines, found.others)
    steps = params.samples * (len(ring) * found.turns + params.overhead)
    affordable = int(params.seconds * context.machine.facts.lines_per_second / steps)
    further = pool.rng.permutation(np.setdiff1d(lines, ring))
    tested = further[: max(affordable, params.samples)]
    whole = evictions.whole(found, tested)
    congruent, others = len(whole.own) - 1 - len(found.lines), whole.others[len(found.others) :]
    # of others, as many as hold several of the set if all sets are open to them
    share = (len(found.lines) + len(further) * congruent / len(tested)) / (len(found.lines) + len(further))
    wanted = int(params.spread / share)
    page = pool.rng.choice(pool.pages, wanted, replace=wanted > len(pool.pages))
    line = context.machine.facts.line_size
    offset = (found.victim + pool.rng.integers(1, TLB_PAGE_BYTES // line, wanted) * line) % TLB_PAGE_BYTES
    beside = np.setdiff1d(page + offset, ring)
    # one of the set is left out, and another line clears the nearer caches in its place
    hashed = evictions.evicts(found.victim, found.lines[1:], found.others, others[:1], beside)
    counted = EvictionRound(
        ways=len(found.lines), pages=len(further), tested=len(tested), congruent=congruent, hashed=hashed
    )
    return counted, whole


class SecondShape(msgspec.Struct, frozen=True, kw_only=True):
    """What rounds say of the second cache: its `ways` and in how many rounds, whether its index is `hashed` (None where
    rounds differ), and how probable each number of sets is."""

    ways: int
    agreed: int
    hashed: bool | None
    sets: dict[int, float]

    @property
    def lines(self) -> dict[int, float]:
        """How probable each number of lines is."""
        return summed(self.sets, lambda sets: sets * self.ways)


def second_cache_shape(rounds: Sequence[EvictionRound], line: int, params: Params = PARAMS) -> SecondShape | None:
    """The commonest ways, and the sets by the counts of the rounds that found these; None where none found a set."""
    if not (found := [each for each in rounds if each.ways]):
        return None
    ways = commonest([each.ways for each in found])
    own = [each for each in found if each.ways == ways]
    votes = float(np.mean([each.hashed for each in own]))
    hashed = None if params.unclear[0] < votes < params.unclear[1] else votes > params.unclear[0]
    congruent = sum(each.congruent for each in own)
    # the victim's set itself was drawn from the pages, too
    shares = [(ways + each.pages * each.congruent / each.tested) / (ways + each.pages) for each in own]
    open_sets = (1 if hashed else TLB_PAGE_BYTES // line) / np.mean(shares)
    error = np.hypot(max(congruent, 1) ** -0.5, params.count_error)
    weights = {}
    for odd in (1, 3, 5):
        for power in range(params.most_sets_log2 + 1):
            off = np.log(open_sets / (odd << power)) / error
            weights[odd << power] = (1.0 if odd == 1 else params.odd_sets) * float(np.exp(-(off**2) / 2))
    total = sum(weights.values()) if hashed is not None else 0.0
    sets = {each: weight / total for each, weight in weights.items() if weight > 1e-4 * total} if total else {}
    return SecondShape(ways=ways, agreed=len(own), hashed=hashed, sets=sets)


def second_cache_findings(
    rounds: Sequence[EvictionRound], levels: Levels, line: int, params: Params = PARAMS
) -> Iterator[Finding]:
    """Size, ways and index."""
    shape = second_cache_shape(rounds, line, params)
    if shape is None:
        yield from outer_findings("l2", levels, params=params)
        return
    why, sure = "rounds found different numbers of ways", shape.agreed >= min(params.agree, len(rounds))
    if sure and shape.sets:
        size = {lines * line: probability for lines, probability in shape.lines.items()}
        yield number_of("cache.l2.size", size, "bytes", COUNTED)
    else:
        yield size_by_curve("l2", levels, UNCOUNTED if sure else why, params)
    ways = "cache.l2.ways", shape.ways, "ways"
    yield chosen(*ways, METHOD) if sure else at_least(*ways, why, METHOD)
    if shape.hashed is None:
        yield unresolved("cache.l2.index", "string", "some rounds find a hash of address bits, others none", METHOD)
    else:
        yield chosen("cache.l2.index", "hashed" if shape.hashed else "linear", "string", METHOD)


def outer_findings(name: str, levels: Levels, ways: int = 0, params: Params = PARAMS) -> Iterator[Finding]:
    """Of a cache whose sets are not counted: a bound of its size, and its ways where an eviction set shows them."""
    found = f"cache.{name}.ways", "ways"
    yield size_by_curve(name, levels, UNCOUNTED, params)
    yield chosen(found[0], ways, found[1], METHOD) if ways else unresolved(*found, UNFOUND, METHOD)
    yield unavailable(f"cache.{name}.index", "string", "not measured since 0.2", METHOD)


def size_by_curve(name: str, levels: Levels, reason: str, params: Params = PARAMS) -> Finding:
    """A bound of a cache's size from where larger working sets are served by those behind it."""
    if name not in levels.ends_bytes:
        return unresolved(f"cache.{name}.size", "bytes", f"{reason}, and no working set outgrew it", METHOD)
    seen = capacities(levels, name)
    if seen:
        reason += f"; rounds saw {min(seen) / (1 << 20):.3g} to {max(seen) / (1 << 20):.3g} MiB"
    bound = at_least(f"cache.{name}.size", int(params.by_curve * levels.ends_bytes[name]), "bytes", reason, METHOD)
    return within(bound, min(seen), max(seen)) if seen else bound
