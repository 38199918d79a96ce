"""What answers behind walks of growing size: levels seen line by line, also those that no working set of a sweep shows.

A level that is little larger than the one before it, or has few ways, or replaces at random, never serves a whole
working set alone, so its latency is nowhere a plateau of a sweep. But some lines it does serve, behind a walk that the
inner level just can't hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from setebench.calibration import Walk
from setebench.infer.levels import SAME_LEVEL_RATIO, Answer
from setebench.infer.ticks import dominant, groups, mean_ticks
from setebench.machine import Region
from setebench.measure.calibrate import quick_cycles_per_tick, step_ticks
from setebench.measure.candidates import AS_SLOW_RATIO, MOSTLY_SHARE, SEEN_SHARE, Candidate, jump, steadiest
from setebench.measure.layout import span_bytes
from setebench.measure.placing import BASELINE_ADDITIONS, Place, single_cycles
from setebench.measure.timed import Timed
from setebench.scenario import Context

FINE_STEP_CYCLES = 2.0
"""A clock whose step is no longer than this parts neighbouring levels sample by sample."""

FIRST_RATIO, WALK_RATIO = 1.5, 1.5
"""The smallest walk exceeds the inner level by so much, and each further one the one before."""

FINER_RATIO = 1.15
"""Where the coarse walks leave it open whether a level answers, further ones are so far apart."""

ONE_TURN_RATIO = 4.0
"""A walk so much larger than the inner level needs to go round only once, which is quickest."""

SURVIVING = 0.02
MOST_TURNS, FURTHER_TURNS = 5, 2
"""A walk goes round so often that an inner level that replaces at random keeps no more than `SURVIVING` of its lines,
but for a level search's further walks, whose inner level is what shall be found out."""

DENSER_WALKS, SURELY_SECOND_RATIO = 3, 2.0
"""Further walks behind which the second level is looked for, which together exceed the first by `layout.BOX_LINES`
times `FIRST_RATIO`, or nearly; and how much slower than the first level lines are that no first level serves."""

REPEATED_BYTES = 512 << 10
"""Behind walks up to this size the same few lines are timed again and again."""

REPEATED_ROUNDS, WALK_REPETITIONS = 96, 3

CAREFUL = 6
"""Walks behind which the second level is looked for are repeated so many times more often: they are short, and on a
clock whose step is longer than a load few loads show no level from a mixture."""

VAIN_LOOKS, MOST_SETTLING = 2, 16
"""Whether more lines stay in their level now that the walk has been gone before is looked at until it was in vain so
often in a row, or the walk has been gone so often."""

GONE_SHARE = 0.8
"""With so many lines in memory there is nothing left to be seen of any level."""


def turns(ratio: float) -> int:
    """How often to walk over `ratio` times what a level holds until it keeps less than `SURVIVING`, if it replaces at
    random. In steady state a share h of the walk still hits, with h = exp(-ratio * (1 - h)), and so does every line."""
    hits = 0.5
    for _ in range(60):
        hits = math.exp(-ratio * (1.0 - hits))
    return int(min(MOST_TURNS, max(1.0, math.ceil(math.log(SURVIVING) / math.log(hits)))))


def walk_beyond(inner_end: float, end: float) -> Walk:
    """A walk that the level up to `inner_end` bytes doesn't hold, whatever it replaces; the one up to `end` does."""
    room = end / inner_end
    ratio = ONE_TURN_RATIO if room >= 2 * ONE_TURN_RATIO else max(math.sqrt(room), FIRST_RATIO)
    size = ratio * inner_end
    # where there is that much room new lines push no others out; and a repeated walk is dense, while prefetchers may
    # have made the levels' ends, found with sparse walks, look up to `layout.BOX_LINES` times nearer: all of that ratio
    return Walk(size, turns(ratio), repeated=size <= REPEATED_BYTES and ratio < ONE_TURN_RATIO)


STAYED_SHARE = 0.98
"""With so many lines left where they should be, there is no need to search a less evicting walk."""

SPARED_SHARE = 0.25
"""A longer walk may cost so many lines more: what is lost to memory is seen and left out, and just costs samples, but
what is left in the level before can't be distinguished on a coarse clock, and lowers the mean."""

LONGER_RATIOS, GENTLEST_ROUNDS = (1.0, 1.6), 2
"""Walks so many times the shortest are tried, so often."""


@dataclass(frozen=True)
class MemoryLoads:
    """What loads of flushed lines take, cycles: on average, and the fastest fiftieth of them."""

    cycles: float
    fast_cycles: float


class LevelSearch:
    """Walks of growing size behind a first level that ends at `first_end` bytes, with memory at `memory` cycles."""

    def __init__(self, context: Context, region: Region, first_end: float, memory: MemoryLoads) -> None:
        self._context, self._region, self.memory = context, region, memory.cycles
        self._fast_memory = memory.fast_cycles
        self._step, self._per_tick = step_ticks(context), quick_cycles_per_tick(context)
        self._first_end = first_end
        self.fine = self._step * self._per_tick < FINE_STEP_CYCLES

    def first(self, first_cycles: float) -> Candidate:
        """What answers once the first level is just outgrown, which takes `first_cycles`: the second, whatever else.

        A sweep's sparse lines fill sets unevenly, and prefetchers conflict them further: the first level appears
        smaller than it is to a walk over whole pages, which may then leave lines in it. So longer walks follow, up to
        where a third level shows, and what answers is reported where it stays the same from walk to walk."""
        candidates = [self._candidate(self._walk(0), CAREFUL)]
        for number in range(1, DENSER_WALKS + 1):
            further = self._candidate(replace(self._walk(number), turns=turns(FIRST_RATIO)), CAREFUL)
            # taken for granted (docs/method.md, Limits): no second level is so small that the second walk outgrows it,
            # so what that shows anew is no third one
            surely_second = number > 1 and candidates[-1].fastest_cycles >= SURELY_SECOND_RATIO * first_cycles
            if further.share < SEEN_SHARE or (surely_second and jump(candidates[-1], further)):
                break
            candidates.append(further)
        if len(candidates) > 1 and jump(candidates[0], candidates[1]):  # so the first one left lines in the first level
            candidates = candidates[1:]
        return steadiest(candidates, first_cycles)

    def rise(self) -> list[Candidate]:
        """All walks from the first on, until nearly all lines are in memory or memory for the walk runs out."""
        found: list[Candidate] = []
        while span_bytes(self._walk(len(found)).bytes, self._region.line_size) < self._region.size // 2:
            found.append(self._candidate(self._walk(len(found))))
            if found[-1].share < 1 - GONE_SHARE:
                break
        return found

    def shorter(self) -> Candidate:
        """A walk before the first, as large as the first level appears: a second level of few ways loses fewer lines to
        it. It may leave some in the first level, so it is for clocks that part levels load by load."""
        return self._candidate(self._walk(-1))

    def between(self, candidates: list[Candidate]) -> list[Candidate]:
        """`candidates` with further walks from before the slowest cache's to the end, each going round once: a level
        that holds little more than the one before it gives way to memory so soon that no two of the coarse walks show
        it."""
        seen = [number for number, candidate in enumerate(candidates) if candidate.share >= SEEN_SHARE]
        if not seen:
            return candidates
        slowest = max(seen, key=lambda number: candidates[number].cycles)
        begin, end = (
            candidates[max(slowest - 1, 0)].walk.bytes,
            candidates[min(slowest + 1, len(candidates) - 1)].walk.bytes,
        )
        sizes = [begin * FINER_RATIO**n for n in range(1, int(math.log(end / begin, FINER_RATIO)) + 1)]
        finer = [self._candidate(Walk(size, 1, repeated=False)) for size in sizes]
        return sorted([*candidates, *finer], key=lambda candidate: candidate.walk.bytes)

    def bears_out(self, walk: Walk, cycles: float) -> bool:
        """Whether the lines that a walk leaves in a cache take as long as a plateau of the sweep says (`cycles`).

        Where a neighbour takes a part of a shared cache, the sweep can look flat between this cache and memory: there
        every working set is a mixture of both. Single loads, which memory can be distinguished from, then say what the
        cache takes. Where hardly any line is left in a cache, nothing speaks against the sweep."""
        candidate = self._candidate(walk)
        return candidate.share < SEEN_SHARE or candidate.cycles > cycles / SAME_LEVEL_RATIO

    def least_evicting(self, walk: Walk, shortest_bytes: float, cycles: float) -> tuple[Walk, float] | None:
        """Of `walk` and others from `shortest_bytes` on, the one that leaves the most lines in the level, and in how
        many cycles these answer. None where nothing answers about as slowly as the level should (`cycles`).

        A cache that others use too loses lines while the walk goes on, so the walk should be no longer than it must. A
        shorter one doesn't count if it leaves lines in the level before, which would be faster; nor does `walk` itself,
        should it be shorter than that."""
        candidate = self._candidate(walk, settle=True)
        all_there = candidate.share >= STAYED_SHARE and candidate.cycles > cycles / AS_SLOW_RATIO
        if walk.repeated or (walk.bytes >= shortest_bytes and all_there):
            return candidate.walk, candidate.cycles
        others = [Walk(shortest_bytes * ratio, turns) for ratio in LONGER_RATIOS for turns in (1, FURTHER_TURNS)]
        walks = [walk, *(each for each in others if each.bytes > min(walk.bytes, REPEATED_BYTES))]
        # all in turn, so that what comes and goes falls on all alike
        candidates = [[self._candidate(each, settle=True) for each in walks]]
        for _ in range(1, GENTLEST_ROUNDS):
            candidates.append([self._candidate(each.walk) for each in candidates[0]])
        share = np.array([[candidate.share for candidate in own] for own in candidates])
        means = (share * [[candidate.cycles for candidate in own] for own in candidates]).sum(axis=0) / np.maximum(
            share.sum(axis=0), 1e-9
        )
        stayed = share.mean(axis=0)
        seen = (stayed >= SEEN_SHARE) & (means > cycles / SAME_LEVEL_RATIO)
        if not seen.any():
            return None
        # the slowest counts as far as it is sure: where few lines are left in a cache their mean says little
        errors = (
            np.linalg.norm([[candidate.error_cycles for candidate in own] for own in candidates], axis=0)
            / GENTLEST_ROUNDS
        )
        alike = seen & (means > (means - errors)[seen].max() / AS_SLOW_RATIO)
        # of those that don't cost too many lines the longest: it leaves the fewest in the level before
        most = stayed[alike].max()
        gentle = alike & (stayed >= max(most - SPARED_SHARE, min(most, MOSTLY_SHARE)))
        best = int(np.argmax(np.where(gentle, [each.bytes * each.turns for each in walks], 0.0)))
        settling = max(own[best].walk.settling for own in candidates)
        return replace(walks[best], settling=settling), float(means[best])

    def _walk(self, number: int) -> Walk:
        size = FIRST_RATIO * self._first_end * WALK_RATIO**number
        return Walk(size, turns(FIRST_RATIO) if number <= 0 else FURTHER_TURNS, repeated=size <= REPEATED_BYTES)

    def _memory_from(self) -> float:
        """Ticks above the additions from which on a load came from memory: a clock step before memory's own, with a
        tenth for its spread, or more where flushed lines spread further: memory's fast tail is no level."""
        step = self._step * self._per_tick
        cycles = max(min(0.9 * self.memory, self._fast_memory) - step, 0.6 * self.memory) - BASELINE_ADDITIONS
        return cycles / self._per_tick

    def _settled(self, place: Place, count: int, settling: int) -> tuple[Timed, int]:
        """`count` groups of single loads once lines stay where they should be, and how many repetitions that took:
        `settling` if those that are known to be needed were enough.

        Lines that the outer level never held can only come into it in place of others. Where programs beside this one
        use it too, these are not the oldest: the first walks find most of their own lines, and the targets, gone. Lines
        that are already there just change places with the inner level's."""
        timed = place.time_singles(self._context, count)
        done, vain = settling + count + place.warmup, 0
        while not place.repeated and vain < VAIN_LOOKS and done <= MOST_SETTLING:
            if self._cached(timed).mean() >= STAYED_SHARE:
                break
            again = place.time_singles(self._context, count)
            if self._cached(again).mean() > self._cached(timed).mean():
                timed, settling, vain = again, done, 0
            else:
                vain += 1
            done += count + place.warmup
        return timed, settling

    def _cached(self, timed: Timed) -> NDArray[np.bool_]:
        """Which single loads didn't come from memory, shape (n,)."""
        return timed.loads < mean_ticks(timed.additions, self._step) + self._memory_from()

    def _candidate(self, walk: Walk, effort: int = 1, *, settle: bool = False) -> Candidate:
        """What answers behind a walk; with `settle` once lines stay, which is only for a level that is there for sure:
        the look at which the most of them seem to stay may be the one at which memory seemed the fastest."""
        place = Place(self._context, self._region, "walk", walk)
        count = place.repetitions(REPEATED_ROUNDS if walk.repeated else WALK_REPETITIONS, effort)
        if settle:
            timed, settling = self._settled(place, count, walk.settling)
            walk = replace(walk, settling=settling)
        else:
            timed = place.time_singles(self._context, count)
        alike = timed.alike_ticks(self._step)
        near = self._cached(timed)
        if near.any():  # a few that were disturbed, or nearly as slow as memory, would carry the mean
            near[near] = dominant(timed.loads[near], self._step, alike)
        share = float(near.mean())
        if not near.any():
            return Candidate(walk, self.memory, 0.0, self.memory, [])
        cycles = single_cycles(timed.loads[near], timed.additions, self._step, self._per_tick)
        fast = near & timed.fastest(self._step) if walk.repeated else near
        chosen = fast if fast.any() else near
        fastest = single_cycles(timed.loads[chosen], timed.additions, self._step, self._per_tick)
        found = []
        for group in groups(timed.loads, self._step, alike) if self.fine else []:
            own = single_cycles(timed.loads[group], timed.additions, self._step, self._per_tick)
            error = float(timed.loads[group].std()) / max(float(group.sum()) - 1.0, 1.0) ** 0.5 * self._per_tick
            found.append(
                Answer(own, float(group.mean()), 0, error, timed.excess_ticks2(group, self._step) * self._per_tick**2)
            )
        error, fastest_error = (
            float(timed.loads[own].std()) / float(own.sum()) ** 0.5 * self._per_tick for own in (near, chosen)
        )
        return Candidate(walk, cycles, share, fastest, found, error, fastest_error)
