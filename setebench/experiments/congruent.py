"""Lines that share a set of a cache, found by timing: eviction sets.

A line is pushed out of its set by as many others as the set has ways. So of candidates in any order the fewest first
ones that push a line out end with one of its set, which a binary search finds; that one is put in front of all, and the
search goes on among those before it, until the ones in front are enough (Vila, Köpf and Morales, S&P 2019; binary
search: Zhao et al., ASPLOS 2024). What the search passed over between two of them lies in other sets. Nothing is asked
of addresses, so it finds what hashes, slices and pages do. Lines that share a set of a nearer cache as well stay in
none of that.

Candidates start in flushed sets, which take new lines into empty ways whatever they replace later: fewer than the ways
never push a line out, and going round several times does so under any policy once there are enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.calibrate import quick_cycles_per_tick, step_ticks
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.experiments.lines.placing import BASELINE_ADDITIONS
from setebench.machine import Region
from setebench.probe import Base, Probe
from setebench.scenario import Context
from setebench.stats.ticks.location import mean_ticks

Lines = NDArray[np.int64]
Numbers = NDArray[np.float64]

TARGET, SPARE, RING = Base("target"), Base("spare"), Base("ring")


@dataclass(frozen=True, kw_only=True)
class SearchParams:
    """Others pass as often as the first of `rounds` that makes it clear: as many as the ways push a line out `surely`,
    and one less in no more than `never` of the repetitions, which is what disturbances do, if they pass as often as the
    last one. A random replacement of 16 ways loses a line to 16 others in 0.2, 0.65 and 0.98 of them. A line counts as
    pushed out that is missing in `gone` of the repetitions; these are `repetitions` at a time until the mean lies
    `sigmas` errors from what is asked, `most` at most; on a clock whose step is as long as a miss, where few of them
    are read alike whatever they are, as many as distinguish `never` from none, `most_blurred` at most. A set has up to
    `most_ways`.

    Further lines are asked for `batch` at a time, so that no more are asked than needed: all with `repetitions`, and
    those that may be in the set with `most`. Candidates are `first` and then twice as many each time, until a
    `fraction` of them pushes a line out, so that there are more. There are no more of them than can be searched in
    `seconds` of the user's time with `loads` for each: of 16 ways the first takes some 13 halvings among all candidates
    and each other one among half of what that leaves, eight times each."""

    rounds: tuple[int, ...] = (2, 8, 32)
    surely: float = 0.8
    never: float = 0.1
    gone: float = 0.5
    repetitions: int = 4
    most: int = 64
    most_blurred: int = 1024
    sigmas: float = 3.0
    most_ways: int = 32
    batch: int = 128
    first: int = 64
    seconds: float = 6.0
    loads: int = 300
    fraction: float = 0.3


PARAMS = SearchParams()


class Gap(NamedTuple):
    """Cycles of a load that a cache serves, and of one that it misses."""

    hit: float
    miss: float


class SameSet(NamedTuple):
    """What a search found: the ways of a set, lines that are in it, lines that are in others, and candidates of which
    nothing is known."""

    ways: int
    own: Lines
    others: Lines
    further: Lines


class Search:
    """Searches for lines of one set of a cache among `pool` (addresses, in random order, one to a page). So many
    `evictors` clear the set that all of them share in the caches before."""

    def __init__(self, context: Context, region: Region, pool: Lines, gap: Gap, evictors: int) -> None:
        self._context, self._region, self._pool, self._gap = context, region, pool, gap
        self._evictors, self._pace, self._rounds = evictors, quick_cycles_per_tick(context), PARAMS.rounds[0]
        # at most half a step each, of a load's time and of that of additions
        self._blur = step_ticks(context) * self._pace / (gap.miss - gap.hit) / 2**0.5
        blurred = min(PARAMS.most_blurred, int((PARAMS.sigmas * self._blur / PARAMS.never) ** 2))
        self._most = max(PARAMS.most, blurred)

    def enough(self, fraction: float) -> bool:
        """Whether such a fraction of the pool pushes its first line out."""
        return self._pushed_out(self._pool[1 : max(2, int(fraction * len(self._pool)))])

    def find(self) -> SameSet | None:
        """A set's ways and so many lines beside the pool's first one, which the whole pool pushes out; None where no
        number of ways that a set may have is clearly enough."""
        for self._rounds in PARAMS.rounds:
            everything = self._pool[1:]
            own = others = everything[:0]
            first = fewest = self._fewest(own, everything, others)
            rest = everything[:first]
            if self._fraction(rest, PARAMS.surely, PARAMS.most // 2) < PARAMS.surely:
                continue
            while fewest and len(own) < PARAMS.most_ways:
                own, rest = np.append(own, rest[fewest - 1]), rest[: fewest - 1]
                fewest = self._fewest(own, rest, others)
                others = np.append(others, rest[fewest:])
            if not fewest and self._kept_beside(np.append(own[1:], others[: self._evictors])):
                return SameSet(len(own), np.append(self._pool[:1], own), others, everything[first:])
        return None

    def _kept_beside(self, ring: Lines) -> bool:
        """Whether a ring doesn't push the pool's first line out, however often it goes round."""
        rounds, self._rounds = self._rounds, PARAMS.rounds[-1]
        kept = self._fraction(ring, PARAMS.never, PARAMS.most // 2) < PARAMS.never
        self._rounds = rounds
        return kept

    def _fewest(self, own: Lines, rest: Lines, others: Lines) -> int:
        """How many first ones of the rest are enough behind those in front, if all are."""
        low, high = -1, len(rest)
        while high - low > 1:
            middle = (low + high) // 2
            enough = self._pushed_out(np.concatenate([own, rest[:middle], others[: self._evictors]]))
            low, high = (low, middle) if enough else (middle, high)
        return high

    def more(self, found: SameSet, wanted: int) -> SameSet:
        """The same with so many lines of the set in all, or as many as there are."""
        own, others, further = found.own, found.others, found.further
        ring = np.append(own[1 : 1 + found.ways], self.resident(others, self._evictors))
        self._prepare(ring)
        while len(own) < wanted and len(further):
            some, further = further[: PARAMS.batch], further[PARAMS.batch :]
            maybe = self._gone_often(some, ring, PARAMS.repetitions) > PARAMS.gone / 2
            others, some = np.append(others, some[~maybe]), some[maybe]
            if len(some):
                own = np.append(own, some[self._gone_often(some, ring, PARAMS.most) > PARAMS.gone])
        return SameSet(found.ways, own, others, further)

    def resident(self, lines: Lines, wanted: int) -> Lines:
        """So many of these lines that the cache holds all of them at once, or as many as there are."""
        own = lines[:1]
        for line in lines[1:]:
            if len(own) >= wanted:
                break
            self._context.machine.link(self._region, own)
            if self._gone(np.full(PARAMS.repetitions, line), own).mean() < PARAMS.gone / 2:
                own = np.append(own, line)
        return own

    def _gone_often(self, lines: Lines, ring: Lines, repetitions: int) -> Numbers:
        mean: Numbers = self._gone(np.tile(lines, repetitions), ring).reshape(repetitions, -1).mean(axis=0)
        return mean

    def _prepare(self, ring: Lines) -> None:
        """Link a ring, and take all candidates out of every cache."""
        self._context.machine.link(self._region, ring)
        self._context.machine.run(Probe().flush(TARGET), {TARGET: self._pool}, cpu=self._context.cpu)

    def _pushed_out(self, ring: Lines) -> bool:
        """Whether a ring pushes out the pool's first line."""
        return len(ring) > 0 and self._fraction(ring, PARAMS.gone, PARAMS.repetitions) > PARAMS.gone

    def _fraction(self, ring: Lines, limit: float, least: int) -> float:
        """In what fraction of repetitions a ring pushes out the pool's first line: of `least` of them, and as many more
        as show whether that is above the limit."""
        self._prepare(ring)
        found = np.zeros(0)
        while len(found) < self._most:
            targets = np.full(PARAMS.repetitions if len(found) else least, self._pool[0])
            found = np.append(found, self._gone(targets, ring))
            # few loads on a coarse clock are all read as the same number
            error = max(float(found.std()), self._blur) / len(found) ** 0.5
            if abs(found.mean() - limit) > PARAMS.sigmas * error:
                break
        return float(found.mean())

    def _gone(self, targets: Lines, ring: Lines) -> Numbers:
        """How much each load of these lines was a miss after a ring went round, shape (targets,)."""
        gap, spare = self._gap.miss - self._gap.hit, targets ^ (TLB_PAGE_BYTES // 2)
        places = {TARGET: targets, SPARE: spare, RING: np.full(len(targets), ring[0])}
        ticks = self._context.machine.run(_probe(self._rounds * len(ring)), places, cpu=self._context.cpu)
        base = mean_ticks(ticks[:, 1], step := step_ticks(self._context))
        cycles = (ticks[:, 0] - base) * self._pace + BASELINE_ADDITIONS
        # a stall is a miss: on a coarse clock one may seem to take a step longer
        found: Numbers = np.minimum((cycles - self._gap.hit) / gap, 1.0 + step * self._pace / gap)
        return found


@cache
def _probe(steps: int) -> Probe:
    """Load a line that no cache has, as some keep those longer that are used again, then others, then time it, and
    additions; what is flushed in its page warms the translation."""
    probe = Probe().flush(TARGET).fence().load(TARGET).fence().chase(RING, steps).fence()
    probe = probe.flush(SPARE).fence().start(0).load(TARGET).stop(0)
    return probe.flush(SPARE).fence().start(1).add(BASELINE_ADDITIONS).stop(1)


class Sets:
    """Sets of one cache after another, nearest first: lines that share one of each, in pages of a region."""

    def __init__(self, context: Context, region: Region, rng: np.random.Generator) -> None:
        self._context, self._region, self._rng = context, region, rng
        offset = int(rng.integers(TLB_PAGE_BYTES // region.line_size)) * region.line_size
        most = PARAMS.seconds * context.machine.facts.lines_per_second / PARAMS.loads
        pages = np.arange(min(region.size // TLB_PAGE_BYTES, int(most)))
        self._pages: Lines = region.address + pages * TLB_PAGE_BYTES + offset
        self._search: Search | None = None
        self.found: SameSet | None = None

    def next(self, gap: Gap, evictors: int) -> SameSet | None:
        """Of the next cache: a set's lines, among those that share a set of all caches before; None where none are
        found within memory and time."""
        count, searched = PARAMS.first, 0
        while True:
            pool, beyond = self._sharing(count)
            search, last = Search(self._context, self._region, pool, gap, evictors), len(pool) < count
            enough = len(pool) > searched and search.enough(1.0 if last else PARAMS.fraction)
            if enough and (found := search.find()) is not None:
                self._search, self.found = search, found._replace(further=np.append(found.further, beyond))
                return self.found
            if last:
                return None
            count, searched = 2 * count, len(pool)

    def more(self, wanted: int) -> SameSet:
        """So many lines of the set that was found last, or as many as there are."""
        assert self._search is not None
        assert self.found is not None
        self.found = self._search.more(self.found, wanted)
        return self.found

    def beside(self, wanted: int) -> Lines:
        """So many lines that share a set of all caches before the last one, but not of that, which holds all of them at
        once, or as many as there are."""
        assert self._search is not None
        assert self.found is not None
        return self._search.resident(self.found.others, wanted)

    def prepare(self, ring: Lines) -> None:
        """Link a ring, and take all lines that share the set out of every cache."""
        assert self.found is not None
        self._context.machine.link(self._region, ring)
        self._context.machine.run(Probe().flush(TARGET), {TARGET: self.found.own}, cpu=self._context.cpu)

    def _sharing(self, count: int) -> tuple[Lines, Lines]:
        """So many lines that share a set of all caches before, near each other so that they lie in few large pages,
        and others that are known to."""
        lines = self._pages if self._search is None else self.more(count).own
        return self._rng.permutation(lines[:count]), lines[count:]
