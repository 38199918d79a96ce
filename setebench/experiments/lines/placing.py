"""Bringing lines to exactly one level of the hierarchy, and timing them there.

A `Place` does it for a group of targets at a time, by means that every machine has: loading (L1), flushing (memory), or
loading and then walking over a working set that the inner level can't hold (the levels between).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setebench.calibration import MEMORY, Walk
from setebench.experiments.lines.layout import Spread, by_windows, group, group_bases, lay
from setebench.machine import Region, Ticks
from setebench.probe import Base, Operand, Probe
from setebench.scenario import Context

SETTLE_CYCLES = 2000
"""Time between flushing a line and loading it again: a flush still under way makes memory look slower, in guests by
hundreds of cycles. And between whatever sets off prefetches and what is timed."""

WALK_STEPS, LEAST_REPETITIONS = 1 << 17, 3
"""Steps to walk in a round before repetitions are saved, and how many there are at least. Each has many targets."""

LONG_WALK = WALK_STEPS // LEAST_REPETITIONS
"""Walks of more steps are done as seldom as possible."""

BASELINE_ADDITIONS = 8
"""Chained additions that a single load is compared with: enough that no bracket hides some of them."""

TARGET_BYTES, TARGET_GROUPS = 32 << 20, 128
"""Memory that groups of targets are drawn from, apart from what is walked over, and how many groups there are."""

TARGETS, WARMERS, WALK = Base("targets"), Base("warmers"), Base("walk")

PLAIN_TURNS = 2
"""How often to walk where only a size is given: a level that replaces at random keeps some lines from one turn."""


class Place:
    """One level's lines for one round: how to bring a group of targets exactly there, and where the groups are.

    Into L1 by loading, to memory by flushing, to the levels between by loading and then walking over a working set that
    the inner level can't hold. The walk is part of the repetition, so little time passes in which a neighbour on the
    same cache could push the targets further out.
    """

    def __init__(self, context: Context, region: Region, level: str, walk: Walk | float) -> None:
        """`walk` is how to walk (`experiments.levels`), or just over how many bytes."""
        if not isinstance(walk, Walk):
            walk = Walk(walk, PLAIN_TURNS)
        self._rng = context.fresh_rng()
        self._region = region
        self._level = level
        self._walk: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._turns = walk.turns
        # apart from each other: a line of both would lead the walk astray
        targets_from = region.size - min(TARGET_BYTES, region.size // 2)
        if level != MEMORY:
            ground = Region(region.address, targets_from, region.page_size, region.line_size)
            self._walk = by_windows(lay(ground, walk.bytes, self._rng), self._rng)
        self.warmup = 0 if self.steps > LONG_WALK else 1  # beside a long walk it matters little what is warm
        spread = Spread.within(region.size - targets_from)
        self._group = group(self._rng, region.line_size, spread)
        self._bases, self._beside = group_bases(region, targets_from, TARGET_GROUPS, self._rng, spread)
        if len(self._walk):
            context.machine.link(region, self._walk)
        context.machine.link(region, (self._bases[:, None] + np.array(self._group.targets)).ravel())

    @property
    def steps(self) -> int:
        """Steps of the walk in one repetition."""
        return len(self._walk) * self._turns

    @property
    def targets(self) -> tuple[Operand, ...]:
        """The targets of a repetition, one in each page of a group, in the order of use."""
        return tuple(TARGETS + offset for offset in self._group.targets)

    @property
    def warmers(self) -> tuple[Operand, ...]:
        """A line of each target's page, by which its TLB entry is warmed."""
        return tuple(WARMERS + offset for offset in self._group.warmers)

    def repetitions(self, wanted: int) -> int:
        """Fewer than wanted where each needs a long walk."""
        return max(LEAST_REPETITIONS, min(wanted, WALK_STEPS // max(self.steps, 1)))

    def placements(self, count: int) -> dict[Base, NDArray[np.int64]]:
        """`count` random groups."""
        groups = self._rng.integers(0, len(self._bases), count)
        walk = self._walk[:1] if len(self._walk) else self._bases[:1]  # memory needs no walk
        return {TARGETS: self._bases[groups], WARMERS: self._beside[groups], WALK: np.repeat(walk, count)}

    def time_singles(self, context: Context, count: int) -> Ticks:
        """Ticks of single 8-byte loads of `count` groups, shape (n,)."""
        placements = self.placements(count + self.warmup)
        return context.machine.run(self.singles(), placements, cpu=context.cpu, warmup=self.warmup).ravel()

    def placed(self) -> Probe:
        """All targets brought to the level (for L1 `ready` does that, right before they are used)."""
        probe = Probe()
        if self._level == "l1":
            return probe
        for offset in self._group.targets:
            probe = probe.flush(TARGETS + offset) if self._level == MEMORY else probe.load(TARGETS + offset)
        if self._level == MEMORY:
            return probe.fence().wait(SETTLE_CYCLES)
        return probe.fence().chase(WALK, self.steps).fence()

    def ready(self, probe: Probe, first: int, count: int) -> Probe:
        """`probe`, then some targets' TLB entries warmed; and the targets themselves brought to L1 if that's the level
        (again: a small L1 can't hold them all). Then a wait: no fence waits for the prefetches that these loads set
        off, and a load that finds the miss queue or the way to the next level taken by them takes longer."""
        for warmer in self._group.warmers[first : first + count]:
            probe = probe.load(WARMERS + warmer)
        if self._level == "l1":
            for target in self._group.targets[first : first + count]:
                probe = probe.load(TARGETS + target)
        return probe.fence().wait(SETTLE_CYCLES)

    def singles(self) -> Probe:
        """Every target placed, then timed on its own."""
        probe = self.placed()
        for number, target in enumerate(self.targets):
            probe = self.ready(probe, number, 1).start(number).load(target).stop(number)
        return probe
