"""Bringing lines to exactly one level of the hierarchy, and timing them there.

A `Place` does it for a group of targets at a time, by means that every machine has: loading (L1), flushing (memory), or
loading and then walking over a working set that the inner level can't hold (the levels between). Whether it worked is
never assumed: the two ways in which its lines are timed must agree, and so must the lines among each other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setebench.infer.ticks import mean_ticks
from setebench.layout import by_windows, group, group_bases, lay
from setebench.machine import Region
from setebench.probe import Base, Operand, Probe
from setebench.scenario import Context

SETTLE_CYCLES = 2000
"""Time between flushing a line and loading it again: a flush still under way makes memory look slower, in guests by
hundreds of cycles."""

WALK_STEPS, LEAST_REPETITIONS = 1 << 17, 3
"""Steps to walk in a round before repetitions are saved, and how many there are at least. Each has many targets."""

BASELINE_ADDITIONS = 8
"""Chained additions that a single load is compared with: enough that no bracket hides some of them."""

SHORT_CHAIN, LONG_CHAIN = 8, 16
CHAINS = (LONG_CHAIN, SHORT_CHAIN, LONG_CHAIN, SHORT_CHAIN, SHORT_CHAIN, SHORT_CHAIN)
"""Steps of the chains that one group of targets is cut into; the difference of the two lengths is timed. Each chain
stays in few enough pages for the first TLB of any core of the last twenty years."""

TARGET_BYTES, TARGET_GROUPS = 32 << 20, 128
"""Memory that groups of targets are drawn from, apart from what is walked over, and how many groups there are."""

TARGETS, COMPANIONS, WALK = Base("targets"), Base("companions"), Base("walk")


class Place:
    """One level's lines for one round: how to bring a group of targets exactly there, and where the groups are.

    Into L1 by loading, to memory by flushing, to the levels between by loading and then walking over a working set that
    the inner level can't hold. The walk is part of the repetition, so little time passes in which a neighbour on the
    same cache could push the targets further out.
    """

    def __init__(self, context: Context, region: Region, level: str, walk_bytes: float) -> None:
        context.known["layouts"] = context.known.get("layouts", 0) + 1
        self._rng = np.random.default_rng((context.seed, context.known["layouts"]))
        self._region = region
        self._level = level
        self._walk: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        # apart from each other: a line of both would lead the walk astray
        targets_from = region.size - min(TARGET_BYTES, region.size // 2)
        if level != "memory":
            ground = Region(region.address, targets_from, region.page_size, region.line_size)
            self._walk = by_windows(lay(ground, walk_bytes, self._rng), self._rng)
            context.machine.link(region, self._walk)
        self._group = group(self._rng, region.line_size)
        self._bases, self._beside = group_bases(region, targets_from, TARGET_GROUPS, self._rng)
        targets = self._bases[:, None] + np.array(self._group.targets)
        context.machine.link(region, targets.ravel())

    @property
    def line_size(self) -> int:
        """Bytes of a line."""
        return self._region.line_size

    @property
    def targets(self) -> tuple[Operand, ...]:
        """The targets of a repetition, one in each page of a group, in the order of use."""
        return tuple(TARGETS + offset for offset in self._group.targets)

    def repetitions(self, wanted: int) -> int:
        """Fewer than wanted where each needs a long walk."""
        return max(LEAST_REPETITIONS, min(wanted, WALK_STEPS // max(len(self._walk), 1)))

    def placements(self, count: int) -> dict[Base, NDArray[np.int64]]:
        """`count` random groups."""
        walk = self._walk[:1] if len(self._walk) else self._bases[:1]  # memory needs no walk
        chosen = self._rng.integers(0, len(self._bases), count)
        return {TARGETS: self._bases[chosen], COMPANIONS: self._beside[chosen], WALK: np.repeat(walk, count)}

    def placed(self) -> Probe:
        """All targets brought to the level (for L1 `ready` does that, right before they are used)."""
        probe = Probe()
        if self._level == "l1":
            return probe
        for offset in self._group.targets:
            probe = probe.flush(TARGETS + offset) if self._level == "memory" else probe.load(TARGETS + offset)
        if self._level == "memory":
            return probe.fence().wait(SETTLE_CYCLES)
        return probe.fence().chase(WALK, len(self._walk)).fence()

    def ready(self, probe: Probe, first: int, count: int) -> Probe:
        """`probe`, then some targets' TLB entries warmed; and the targets themselves brought to L1 if that's the level
        (again: a small L1 can't hold them all)."""
        for companion in self._group.companions[first : first + count]:
            probe = probe.load(COMPANIONS + companion)
        if self._level == "l1":
            for target in self._group.targets[first : first + count]:
                probe = probe.load(TARGETS + target)
        return probe.fence()

    def singles(self, size: int) -> Probe:
        """Every target placed, then every other one timed on its own, and after each a few additions.

        The additions are the baseline: what a bracket costs depends on what comes right before it (a fence, on some
        cores), so it is measured in the same place."""
        probe = self.placed()
        for number, target in enumerate(self._group.targets):
            probe = self.ready(probe, number, 1).start(number)
            probe = probe.add(BASELINE_ADDITIONS) if number % 2 else probe.load(TARGETS + target, size)
            probe = probe.stop(number)
        return probe

    def chains(self, size: int) -> Probe:
        """Every target placed, then timed in `CHAINS` of dependent loads."""
        probe = self.placed()
        first = 0
        for number, steps in enumerate(CHAINS):
            begin = TARGETS + self._group.targets[first]
            probe = self.ready(probe, first, steps).start(number).chase(begin, steps, size).stop(number)
            first += steps
        return probe


def single_cycles(loads: NDArray[np.int64], additions: NDArray[np.int64], step: float, cycles_per_tick: float) -> float:
    """Cycles of a load, from the ticks of loads and of the additions timed in the same place."""
    return (mean_ticks(loads, step) - mean_ticks(additions, step)) * cycles_per_tick + BASELINE_ADDITIONS
