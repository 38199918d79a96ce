"""Bringing lines to exactly one level of the hierarchy, and timing them there.

A `Place` does it for a group of targets at a time, by means that every machine has: loading (L1), flushing (memory), or
loading and then walking over a working set that the inner level can't hold (the levels between). Whether it worked is
never assumed: the two ways in which its lines are timed must agree, and so must the lines among each other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setebench.calibration import Walk
from setebench.infer.ticks import mean_ticks
from setebench.machine import Region
from setebench.measure.layout import (
    BOX_LINES,
    DENSE,
    GROUP_PAGES,
    LONG_GROUPS,
    REPEATED_SHIFTS,
    Group,
    by_windows,
    group,
    group_bases,
    lay,
    no_like_neighbours,
    repeated_bases,
)
from setebench.measure.timed import Timed
from setebench.probe import Base, Operand, Probe
from setebench.scenario import Context

SETTLE_CYCLES = 2000
"""Time between flushing a line and loading it again: a flush still under way makes memory look slower, in guests by
hundreds of cycles. And between whatever sets off prefetches and what is timed."""

WALK_STEPS, LEAST_REPETITIONS = 1 << 17, 3
"""Steps to walk in a round before repetitions are saved, and how many there are at least. Each has many targets."""

JUDGED_TURNS = 4
"""Each line that is timed again and again gets so many turns, however long the walk: half of them judge the other half,
and on a coarse clock one reading judges nothing."""

LONG_WALK = WALK_STEPS // LEAST_REPETITIONS
"""Walks of more steps are done as seldom as possible."""

BASELINE_ADDITIONS = 8
"""Chained additions that a single load is compared with: enough that no bracket hides some of them."""

SHORT_CHAIN, LONG_CHAIN = 8, 16
CHAINS = (LONG_CHAIN, SHORT_CHAIN, LONG_CHAIN, SHORT_CHAIN, SHORT_CHAIN, SHORT_CHAIN)
"""Steps of the chains that one group of targets is cut into; the difference of the two lengths is timed. Each chain
stays in few enough pages for the first TLB of any core of the last twenty years."""

MIXED_CHAINS = (16, *(2, 4, 2, 8) * 2, 2, 4, 2, 4, 2, 2)
REPEATED_CHAINS = (8, 2, 4, 2)
"""The same in many lengths, of which `stats.served` takes the slope; of those behind small walks only half of the
targets are used."""

REPEATED_PAGES = 32
"""Pages of targets that are used again and again: twice as many as their chains need, as a cache of few ways loses the
lines of some pages to the walk, always of the same ones."""

TARGET_BYTES, TARGET_GROUPS = 32 << 20, 128
"""Memory that groups of targets are drawn from, apart from what is walked over, and how many groups there are."""

TARGETS, WARMERS, WALK = Base("targets"), Base("companions"), Base("walk")


PLAIN_TURNS = 2
"""How often to walk where only a size is given: a level that replaces at random keeps some lines from one turn."""


def _turns_of(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each entry how often the same number came before it."""
    order = np.argsort(groups, kind="stable")
    first = np.searchsorted(groups[order], groups[order], side="left")
    turn = np.empty(len(groups), dtype=np.int64)
    turn[order] = np.arange(len(groups)) - first
    return turn


class Place:
    """One level's lines for one round: how to bring a group of targets exactly there, and where the groups are.

    Into L1 by loading, to memory by flushing, to the levels between by loading and then walking over a working set that
    the inner level can't hold. The walk is part of the repetition, so little time passes in which a neighbour on the
    same cache could push the targets further out.
    """

    def __init__(self, context: Context, region: Region, level: str, walk: Walk | float) -> None:
        """`walk` is how to walk (`sweep.find_walks`), or just over how many bytes (`sweep.find_levels`)."""
        if not isinstance(walk, Walk):
            walk = Walk(walk, PLAIN_TURNS)
        self._rng = context.fresh_rng()
        self._region = region
        self.level = level
        self._walk: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._turns = walk.turns
        self.repeated = walk.repeated
        # apart from each other: a line of both would lead the walk astray
        targets_from = region.size - min(TARGET_BYTES, region.size // 2)
        if level != "memory":
            ground = Region(region.address, targets_from, region.page_size, region.line_size)
            layout = lay(ground, walk.bytes, self._rng, DENSE if walk.repeated else BOX_LINES)
            # all over where whole pages are walked: else region prefetchers learn that whole pages are used, and what
            # each load of a chain then sets off holds up the next one
            self._walk = self._rng.permutation(layout.lines.ravel()) if walk.repeated else by_windows(layout, self._rng)
            context.machine.link(region, self._walk)
        self.long = self.steps > LONG_WALK
        # a repeated line settles in a level that replaces at random only after it was used; beside a long walk it
        # matters little what is warm
        self.warmup = REPEATED_SHIFTS if walk.repeated else 0 if self.long else 1
        self._settling = max(walk.settling - self.warmup, 0)
        groups = LONG_GROUPS if self.long else 1
        pages = REPEATED_PAGES if walk.repeated else groups * GROUP_PAGES
        self.chain_lengths = REPEATED_CHAINS if walk.repeated else groups * MIXED_CHAINS
        self._group = group(self._rng, region.line_size, pages)
        if walk.repeated:
            self._bases, self._beside = repeated_bases(region, targets_from, pages, self._rng)
        else:
            self._bases, self._beside = group_bases(region, targets_from, TARGET_GROUPS, self._rng, pages)
        self._link(context)

    def settle(self, context: Context) -> None:
        """Link the lines again, which other places may have used meanwhile, and bring them in the first time."""
        if len(self._walk):
            context.machine.link(self._region, self._walk)
        self._link(context)
        self._settle(context)

    def _settle(self, context: Context) -> None:
        if self._settling:
            context.machine.run(self.placed(), self.placements(self._settling), cpu=context.cpu)
            self._settling = 0

    @property
    def steps(self) -> int:
        """Steps of the walk in one repetition."""
        return len(self._walk) * self._turns

    def _link(self, context: Context) -> None:
        targets = self._bases[:, None] + np.array(self._group.targets)
        context.machine.link(self._region, targets.ravel())

    def prefer(self, context: Context, seen: Timed) -> None:
        """Take targets from now on in the order of how fast `seen` found those of their page, so that chains are made
        of lines that the level holds."""
        pages = len(self._group.targets)
        page = seen.line % pages
        means = np.bincount(page, weights=seen.loads, minlength=pages) / np.bincount(page, minlength=pages)
        order = np.argsort(means, kind="stable")
        for half in (slice(0, pages // 2), slice(pages // 2, None)):  # the faster ones stay in front
            order[half] = order[half][no_like_neighbours(np.array(self._group.targets)[order[half]])]
        targets, warmers = np.array(self._group.targets)[order], np.array(self._group.warmers)[order]
        self._group = Group(tuple(targets.tolist()), tuple(warmers.tolist()))
        self._link(context)

    @property
    def line_size(self) -> int:
        """Bytes of a line."""
        return self._region.line_size

    @property
    def targets(self) -> tuple[Operand, ...]:
        """The targets of a repetition, one in each page of a group, in the order of use; `GROUP_PAGES` at most."""
        return tuple(TARGETS + offset for offset in self._group.targets[:GROUP_PAGES])

    @property
    def warmers(self) -> tuple[Operand, ...]:
        """A line of each target's page, by which its TLB entry is warmed."""
        return tuple(WARMERS + offset for offset in self._group.warmers[:GROUP_PAGES])

    def repetitions(self, wanted: int, effort: int = 1) -> int:
        """Fewer than wanted where each needs a long walk; `effort` times as many of those as usual."""
        # one turn of a repeated line is judged by the others (`fastest_lines`)
        least = JUDGED_TURNS * REPEATED_SHIFTS if self.repeated else LEAST_REPETITIONS
        return max(least, min(wanted, effort * WALK_STEPS // max(self.steps, 1)))

    def placements(self, count: int) -> dict[Base, NDArray[np.int64]]:
        """`count` random groups."""
        return self._table(self._groups(count))

    def _groups(self, count: int) -> NDArray[np.int64]:
        """Numbers of `count` random groups, where they are repeated never the same twice running."""
        if not self.repeated:
            return self._rng.integers(0, len(self._bases), count)
        rounds = -(-count // REPEATED_SHIFTS)
        return np.concatenate([self._rng.permutation(REPEATED_SHIFTS) for _ in range(rounds)])[:count]

    def _table(self, groups: NDArray[np.int64]) -> dict[Base, NDArray[np.int64]]:
        walk = self._walk[:1] if len(self._walk) else self._bases[:1]  # memory needs no walk
        # where groups are repeated, a TLB-warming line that was always the same would foretell its target
        beside = self._rng.integers(0, len(self._beside), len(groups)) if self.repeated else groups
        return {TARGETS: self._bases[groups], WARMERS: self._beside[beside], WALK: np.repeat(walk, len(groups))}

    def time_singles(self, context: Context, count: int) -> Timed:
        """Single 8-byte loads of `count` groups, and additions in the same places."""
        self._settle(context)
        chosen = self._groups(count + self.warmup)
        ticks = context.machine.run(self.singles(8), self._table(chosen), cpu=context.cpu, warmup=self.warmup)
        chosen = chosen[self.warmup :]
        loads, additions = ticks[:, ::2], ticks[:, 1::2]
        targets = loads.shape[1]
        line = chosen[:, None] * targets + np.arange(targets)[None, :]
        return Timed(loads.ravel(), additions.ravel(), line.ravel(), np.repeat(_turns_of(chosen), targets), targets)

    def placed(self) -> Probe:
        """All targets brought to the level (for L1 `ready` does that, right before they are used)."""
        probe = Probe()
        if self.level == "l1":
            return probe
        for offset in self._group.targets:
            probe = probe.flush(TARGETS + offset) if self.level == "memory" else probe.load(TARGETS + offset)
        if self.level == "memory":
            return probe.fence().wait(SETTLE_CYCLES)
        return probe.fence().chase(WALK, self.steps).fence()

    def ready(self, probe: Probe, first: int, count: int, settle_cycles: int = SETTLE_CYCLES) -> Probe:
        """`probe`, then some targets' TLB entries warmed; and the targets themselves brought to L1 if that's the level
        (again: a small L1 can't hold them all). Then a wait: no fence waits for the prefetches that these loads set
        off, and a load that finds the miss queue or the way to the next level taken by them takes longer."""
        for warmer in self._group.warmers[first : first + count]:
            probe = probe.load(WARMERS + warmer)
        if self.level == "l1":
            for target in self._group.targets[first : first + count]:
                probe = probe.load(TARGETS + target)
        probe = probe.fence()
        return probe.wait(settle_cycles) if settle_cycles else probe

    def singles(self, size: int) -> Probe:
        """Every target placed, then timed on its own, each followed by a few additions; where there are too many
        targets for that, additions take the place of every other one. Even intervals are loads, odd ones additions.

        The additions are the baseline: what a bracket costs depends on what comes right before it (a fence, on some
        cores), so it is measured in the same place."""
        probe = self.placed()
        interval = 0
        for number, target in enumerate(self.targets):
            if self.repeated or number % 2 == 0:
                probe = self.ready(probe, number, 1).start(interval).load(target, size).stop(interval)
                interval += 1
            if self.repeated or number % 2:
                probe = self.ready(probe, number, 1).start(interval).add(BASELINE_ADDITIONS).stop(interval)
                interval += 1
        return probe

    def chains(self, size: int, lengths: tuple[int, ...] = CHAINS, settle_cycles: int = 0) -> Probe:
        """Every target placed, then timed in chains of dependent loads of these `lengths`."""
        return self._chained(self.placed(), 0, size, lengths, settle_cycles)

    def _chained(self, probe: Probe, interval: int, size: int, lengths: tuple[int, ...], settle_cycles: int) -> Probe:
        """`probe`, then chains, the first of which is timed as `interval`."""
        first = 0
        for number, steps in enumerate(lengths, interval):
            begin = TARGETS + self._group.targets[first]
            probe = self.ready(probe, first, steps, settle_cycles).start(number).chase(begin, steps, size).stop(number)
            first += steps
        return probe

    def time_chains(self, context: Context, count: int) -> dict[int, NDArray[np.int64]]:
        """Ticks of chains of dependent 8-byte loads of `count` groups, by length in steps, shape (n,) each.

        Additions are timed first and forgotten: the first interval behind a walk takes a cycle longer than those after
        it, and that would count as a part of the steps of whichever chain comes first."""
        probe = self.ready(self.placed(), 0, 0).start(0).add(BASELINE_ADDITIONS).stop(0)
        probe = self._chained(probe, 1, 8, self.chain_lengths, SETTLE_CYCLES)
        ticks = context.machine.run(probe, self.placements(count + self.warmup), cpu=context.cpu, warmup=self.warmup)[
            :, 1:
        ]
        lengths = np.array(self.chain_lengths)
        return {int(steps): ticks[:, lengths == steps].ravel() for steps in np.unique(lengths)}

    def fenced(self, sizes: tuple[int, ...]) -> tuple[Probe, int]:
        """Every target placed, then timed in intervals of loads of `sizes` in turn, a fence behind each load; and how
        many loads an interval has.

        A fence waits until the value is in its register, so what one size takes longer than another needs no transfer
        between registers, and no overhead is left in the difference."""
        probe = self.placed()
        each = len(self.targets) // len(sizes)
        for number, size in enumerate(sizes):
            probe = self.ready(probe, number * each, each).start(number)
            for target in self.targets[number * each : (number + 1) * each]:
                probe = probe.load(target, size).fence("l")
            probe = probe.stop(number)
        return probe, each


def single_cycles(loads: NDArray[np.int64], additions: NDArray[np.int64], step: float, cycles_per_tick: float) -> float:
    """Cycles of a load, from the ticks of loads and of the additions timed in the same place."""
    return (mean_ticks(loads, step) - mean_ticks(additions, step)) * cycles_per_tick + BASELINE_ADDITIONS
