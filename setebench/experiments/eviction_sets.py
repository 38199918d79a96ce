"""Find eviction sets by timing: minimal sets of lines that are congruent with a victim (lie in its cache set).

A line is evicted by as many congruent lines as its set has ways. If lines that evict it are split into more groups than
that, one group isn't needed and is left out, and so on until few lines are left (group testing: Vila, Köpf and Morales,
S&P 2019). At times a co-runner takes ways, so that too many lines are left out; then some are added again. A set is
accepted only if none of its lines can be left out of a chase that has lines of other sets as well. Bits of addresses
aren't interpreted, so neither an index hash nor page sizes need be known. Every sample times two loads of the victim
after a chase: the second one hits the first cache, so that their difference doesn't depend on the bracket.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.calibrate import cycles_per_tick, step_ticks
from setebench.experiments.chases import Pool
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.probe import Base, Probe
from setebench.scenario import Context

Lines = NDArray[np.int64]
Numbers = NDArray[np.float64]

VICTIM, SPARE, CHASED = Base("victim"), Base("spare"), Base("ring")


@dataclass(frozen=True, kw_only=True)
class EvictionParams:
    """Tunables of the search for an eviction set and of its checks."""

    turns: tuple[int, ...] = (2, 8, 32)  # times round the others: 16 ways that replace at random need 32; few are quick
    most_loads: int = 24_000_000  # of a search, then another victim is tried: one that goes astray seldom comes back
    most_seconds: float = 8.0  # of the user's time for all searches, by what the machine says that lines cost
    most_test: int = 1 << 18  # the same of one decision, in a single turn: it isn't worth more
    most_steps: int = 1 << 16  # loads of a chase of two turns or more: long ones need fewer turns
    first: int = 32  # candidates to begin with, then twice as many each time: few leave the next level's sets alone
    most_ways: int = 40  # largest set; no cache of today has more than 32 ways
    others: int = 16  # lines beside that clear the victim's set of nearer caches: too many fill other sets
    part: float = 1 / 16  # of the time, for reducing candidates to `few` lines: most need so much
    few: int = 128  # lines of which one at a time is left out: a first cache that keeps lines in use needs so many
    further: int = 96  # lines that are tested for lying in other sets than the victim
    shown: int = 80  # lines that are shown to lie in other sets
    cleared: int = 32  # of these, so many go round at first: most first caches lose all other lines by them
    beside: tuple[int, ...] = (4, 8, 12, 16, 24, 32, 64)  # of these so many go round beside a set: the first that do
    samples: int = 2  # repetitions in the same order of lines, the fewest
    most_samples: int = 64  # repetitions of one decision at most
    most_blurred: int = 1024  # the same where a step of the clock is as long as a miss
    sigmas: float = 3.0  # errors between a mean and what is decided
    search_sigmas: float = 2.0  # the same while lines are taken away: errors are mended, and time is lost to co-runners
    groups: int = 8  # of lines, of which one at a time is left out; twice as many where each holds a needed line
    back: float = 0.25  # of the lines as many come back where too many were left out
    mends: int = 12  # times that this happens in a search: then it goes on with more turns
    warmup: int = 2  # repetitions that settle: the set then holds no lines of earlier chases
    far: float = 2.5  # a miss is half-way to the next level, but at most so many times a hit: a level may be hidden
    always: float = 0.8  # share of misses of a victim of whole sets: what evicts less often passes for another set's
    screened: float = 0.25  # share of misses above which a line is tested again: none of another set has so many


PARAMS = EvictionParams()


@dataclass(frozen=True)
class CacheSet:
    """A minimal eviction set of a line, the victim. `own` has addresses of lines in the victim's cache set: the victim,
    the `ways` lines that evict it, and further ones. The victim is evicted when these `ways` lines and `others` are
    traversed `turns` times, but not if one of the `ways` lines is left out. `others` has addresses of lines that share
    the victim's set in nearer caches, but not in this cache."""

    ways: int
    own: Lines
    others: Lines
    turns: int

    @property
    def evictors(self) -> Lines:
        """Addresses of the lines whose chase evicts the victim: the eviction set and `others`."""
        return np.append(self.own[1 : self.ways + 1], self.others)


@cache
def _probe(steps: int) -> Probe:
    """Return the probe of a test: flush and load the victim, chase `steps` loads through the tested lines, time a load
    of the victim (interval 1) and a second one, which hits (interval 2). Interval 0 only warms the timing code. Flushes
    in the victim's page load its translation without training prefetchers."""
    probe = Probe().flush(VICTIM).fence().load(VICTIM).fence().chase(CHASED, steps).fence().start(0).add(1).stop(0)
    for interval in (1, 2):
        probe = probe.flush(SPARE).fence().start(interval).load(VICTIM).stop(interval)
    return probe


class Evictions:
    """Tests whether lines evict a victim from the second-level cache, and finds eviction sets of that cache."""

    def __init__(self, context: Context, pool: Pool, params: EvictionParams = PARAMS) -> None:
        """Derive the times of hits and misses from the levels in `context.calibration`."""
        self.context, self.pool, self.params = context, pool, params
        cycles, pace = list(context.calibration.level_cycles.values()), cycles_per_tick(context)
        hit, far = cycles[1], min((cycles[1] + cycles[2]) / 2, params.far * cycles[1])
        self._near, self._gap = (hit - cycles[0]) / pace, 2 * (far - hit) / pace
        behind = sum(cycles[2:4]) / 2 if len(cycles) > 3 else np.inf
        self._beyond = (behind - hit) / pace / self._gap  # score of a load that misses the third level, too
        self._blur = step_ticks(context) / self._gap / 2**0.5  # error of a score: half a step of each of two readings
        self._most = int(min(params.most_blurred, max(params.most_samples, (4 * params.sigmas * self._blur) ** 2)))
        self._affordable = params.most_seconds * context.machine.facts.lines_per_second
        self.turns, self._loads, self._stop = params.turns[0], 0, 0.0

    def missed(self, victims: Lines, chased: Lines) -> Numbers:
        """Return a miss score, shape (victims,), of loads of `victims` (addresses) after a chase through the addresses
        `chased`: about 0 for a hit and 1 for a miss, with more noise on coarser clocks."""
        return np.asarray(np.clip(self._scores(victims, chased), -1.0 - 2 * self._blur, 1.0 + 2 * self._blur))

    def _scores(self, victims: Lines, chased: Lines) -> Numbers:
        """Return the scores of `missed`, shape (victims,), without limits: loads from memory score more than 1."""
        machine, cpu, warmup = self.context.machine, self.context.cpu, self.params.warmup
        machine.link(self.pool.region, chased)
        turns = min(self.turns, max(2, self.params.most_steps // len(chased)))
        self._loads += turns * len(chased) * len(victims)
        victims = np.concatenate([victims[:1].repeat(warmup), victims])
        places = {VICTIM: victims, SPARE: victims ^ (TLB_PAGE_BYTES // 2), CHASED: chased[:1].repeat(len(victims))}
        ticks = machine.run(_probe(turns * len(chased)), places, cpu=cpu, warmup=warmup)
        return np.asarray((ticks[:, 1] - ticks[:, 2] - self._near) / self._gap)

    def fraction(self, victim: int, *chased: Lines, limit: float = 0.5, sigmas: float = PARAMS.sigmas) -> float:
        """Return the share of repetitions in which a chase through all arrays of lines in `chased` evicts the victim.
        The first array is shuffled before each repetition, others follow in their order. Repetitions end when the share
        is `sigmas` standard errors from `limit`, or at a maximum."""
        around, found = np.concatenate(chased), np.zeros(0)
        most = min(self._most * (sigmas / self.params.sigmas) ** 4, self.params.most_test / max(len(around), 1))
        while len(around) and len(found) < max(most, 2 * self.params.samples):
            # another order each time: pseudo-LRU evicts in some orders what it keeps in others
            around = np.append(self.pool.rng.permutation(around[: len(chased[0])]), around[len(chased[0]) :])
            found = np.append(found, self.missed(np.full(max(self.params.samples, len(found)), victim), around))
            error = max(float(found.std()), self._blur, self.params.screened) / len(found) ** 0.5
            if len(found) > self.params.samples and abs(found.mean() - limit) > sigmas * error:
                break
        return float(found.mean()) if len(found) else 0.0

    def evicts(self, victim: int, *chased: Lines) -> bool:
        """Return whether a chase through the arrays `chased` evicts the victim in more than half of the repetitions."""
        return self.fraction(victim, *chased) > 0.5

    def congruent(self, lines: Lines, chased: Lines) -> NDArray[np.bool_]:
        """Return a mask, shape (lines,), of those `lines` that a chase through `chased` evicts: in a first test of all
        lines, and then in a longer test of those that the first one found."""
        if not len(lines):
            return np.zeros(0, dtype=np.bool_)
        few = max(2 * self.params.samples, int((4 * self._blur) ** 2))
        shares = self.missed(np.tile(lines, few), chased).reshape(few, -1).mean(axis=0)
        found: NDArray[np.bool_] = shares > self.params.screened
        if found.any():
            again = self.missed(np.tile(lines[found], 4 * few), chased).reshape(4 * few, -1).mean(axis=0)
            found[found] = again > 0.5
        return found

    def find(self, victim: int, candidates: Lines) -> CacheSet | None:
        """Return a minimal eviction set for a victim, from candidates (addresses in random order) that share its sets
        in nearer caches; None if these don't evict the victim, or if tests keep contradicting each other."""
        self._stop = min(self._loads + self.params.most_loads, self._affordable)
        for turns in self.params.turns:
            self.turns = turns
            if self._loads > self._stop or not len(lines := self._reduced(victim, candidates)):
                return None
            if found := self._minimal(victim, lines, candidates):
                return found
        return None

    def whole(self, found: CacheSet, lines: Lines) -> CacheSet:
        """Return the set with further `lines` added: to `own` those that the set evicts, to `others` the rest."""
        self.turns = found.turns
        same = self.congruent(lines, found.evictors)
        own, others = np.append(found.own, lines[same]), np.append(found.others, lines[~same])
        return replace(found, own=own, others=others)

    def _reduced(self, victim: int, candidates: Lines) -> Lines:
        """Return few lines that together evict the victim, taken from the candidates; none where too many are needed.
        Where tests that a co-runner disturbed removed lines that were needed, others are added again."""
        rest, count = self.pool.rng.permutation(candidates), self.params.first
        # in a set that replaces at random, a few lines less than it has ways evict the victim half of the time
        limit = 0.5 if self.turns == self.params.turns[0] else self.params.always
        sigmas = self.params.search_sigmas
        while self.fraction(victim, rest[:count], limit=limit, sigmas=sigmas) < limit:
            if count >= len(rest):
                return rest[:0]
            count *= 2
        lines, rest, parts, mends = rest[:count], rest[count:], self.params.groups, self.params.mends
        stop = self._loads + min(self.params.most_loads / 2, self._affordable * self.params.part)
        while len(lines) > self.params.most_ways // 2 and self._loads < stop:
            groups = np.array_split(self.pool.rng.permutation(lines), parts)
            for number, group in enumerate(groups):
                fewer = np.concatenate(groups[:number] + groups[number + 1 :])
                if self.fraction(victim, fewer, limit=limit, sigmas=sigmas) > limit:
                    lines, rest = fewer, np.append(rest, group)
                    break
            else:
                back = int(self.params.back * len(lines)) + 1
                if parts == self.params.groups:
                    parts *= 2
                elif len(lines) <= self.params.few:
                    return np.append(lines, rest[:back])
                elif mends and self.fraction(victim, lines, limit=limit) < limit:
                    lines, rest, mends = np.append(lines, rest[:back]), rest[back:], mends - 1
                else:
                    break
        return lines if len(lines) <= self.params.few else lines[:0]

    def _minimal(self, victim: int, lines: Lines, candidates: Lines) -> CacheSet | None:
        """Return the minimal set that is left once every line that isn't needed was removed, tested beside lines that
        were shown to lie in other sets; None where it doesn't evict the victim, or evicts others too."""
        always = self.params.always
        while self.fraction(victim, lines, limit=always) < always:
            if self.turns == self.params.turns[-1]:
                return None
            self.turns = min(each for each in self.params.turns if each > self.turns)
        further = self.pool.rng.permutation(np.setdiff1d(candidates, lines))[: self.params.further]
        shown = further[~self.congruent(further, lines)][: self.params.shown]
        lines = self._needed(victim, lines, shown, self.params.groups, self.params.search_sigmas)
        self.turns = self.params.turns[-1]
        for count in (self.params.cleared, len(shown)):  # twice, as what disturbs a test leaves a line in
            lines = self._needed(victim, lines, shown[:count], len(lines), self.params.sigmas)
        if self._loads > self._stop or len(lines) > self.params.most_ways or self.evicts(victim, shown):
            return None
        for turns, count in itertools.product(self.params.turns[1:], self.params.beside):
            self.turns = turns
            few, rest = np.split(self.pool.rng.permutation(shown), [count])
            evicted = self.fraction(victim, lines, few, limit=always) > always
            if evicted and not self._evicts_here_only(victim, np.append(lines, few)):
                return None
            if evicted and len(rest) and not self.congruent(rest, np.append(lines, few)).any():
                return CacheSet(len(lines), np.append(victim, lines), few, self.turns)
        return None

    def _needed(self, victim: int, lines: Lines, beside: Lines, parts: int, sigmas: float) -> Lines:
        """Return the `lines` that are needed to evict the victim together with the lines `beside`. Others are left out:
        one of so many `parts` at a time, then one of twice as many, down to single lines."""
        # relative to the whole set, which a co-runner keeps below 1; one line too few of a set that replaces at random
        # still evicts the victim in more than half of the repetitions
        limit = self.params.always * min(self.fraction(victim, lines, beside), 1.0)
        if not len(lines) or limit < self.params.always / 2:
            return lines[:0]
        while parts <= len(lines) and self._loads < self._stop:
            for group in np.array_split(self.pool.rng.permutation(lines), parts):
                fewer = np.setdiff1d(lines, group)
                if len(fewer) and self.fraction(victim, fewer, beside, limit=limit, sigmas=sigmas) > limit:
                    lines = fewer
            parts *= 2
        return lines

    def _evicts_here_only(self, victim: int, chased: Lines) -> bool:
        """Return whether a chase in this order evicts the victim from this cache only: a load of it then hits the next
        level. Otherwise the chase evicts from the next level, too, which may be inclusive."""
        late = self._scores(np.full(self.params.most_samples, victim), chased)
        evicted = float(np.minimum(late, 1.0).mean()) > 0.5
        return evicted and float(np.mean(late > self._beyond)) < self.params.always
