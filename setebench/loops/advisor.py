"""Which policies are worth timing, from two formulas.

A prefetch is issued its latency ahead, which in iterations is latency over iteration time (Mowry, Lam and Gupta 1992,
section 2.3.2). An iteration is no faster than its work, and no faster than the entries for misses let its lines through
(Little's law): lines times latency over entries. So a distance never asks for more lines than there are entries for.
What is right is decided by timing; these only say where to begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from setebench.loops.rates import (
    REGULAR,
    dropped_part,
    latency_of,
    lines_of,
    most_iterations,
    sharers,
)
from setebench.loops.records import Loop, Policy, Strategy, Stream
from setebench.loops.table import Table


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A policy with what the formulas, or a measurement, say of it, in cycles per iteration."""

    strategy: Strategy
    policy: Policy
    cycles: float


@dataclass(frozen=True)
class Advisor:
    """Policies for a loop on the machine of a table."""

    loop: Loop
    table: Table

    def candidates(self) -> list[Candidate]:
        """One policy of every strategy and hint, at the distances of the formulas, the fastest first."""
        policies = [Policy(), *self._starts()]
        found = [
            Candidate(strategy=strategy_of(each, self.loop, self.table), policy=each, cycles=self.expected(each))
            for each in policies
        ]
        return sorted(found, key=lambda each: (each.cycles, each.policy.stages))

    def choice(self) -> Candidate:
        """The advice: the fewest stages that are about as good as the best; no prefetching where that gains little."""
        found = self.candidates()
        most = found[0].cycles * (1 + self.table.params.least_gain)
        return min((each for each in found if each.cycles <= most), key=lambda each: each.policy.stages)

    def expected(self, policy: Policy) -> float:
        """Cycles per iteration: the work, or the lines through the entries that they hold; what is dropped takes what
        it takes without prefetches."""
        if not policy.stages:
            return self._without()
        loop, latency, short = self.loop, latency_of(self.loop, self.table).value, self._short
        by_hardware = bool(follower(loop, self.table)) and not policy.l2_distance
        bounds = [self._work(policy), self._through("l2", latency)]
        if policy.l1_distance:
            bounds.append(self._through("l1", short if policy.l2_distance or by_hardware else latency))
        cycles = max(bounds)
        if not policy.l1_distance:  # every line is still fetched from level 2
            cycles = max(cycles, self._work(policy) + self._stall(short))
        dropped = dropped_part(loop, self.table)
        return dropped * self._without() + (1 - dropped) * cycles

    def start(self, near: str, far: str) -> Policy:
        """The policy with these hints ("" for none) at Mowry's distances."""
        latency = latency_of(self.loop, self.table).value
        wanted = {"l1": self._short if far else latency, "l2": latency}
        policy = Policy(
            l1_distance=int(bool(near)), l1_hint=near or "t0", l2_distance=int(bool(far)), l2_hint=far or "t1"
        )
        cycles = self.expected(policy)
        ahead = {
            level: min(
                int(wanted[level] / cycles) + 1, most_iterations(self.loop, self.table, level, not (near and far))
            )
            for level in wanted
        }
        return msgspec.structs.replace(
            policy, l1_distance=ahead["l1"] if near else 0, l2_distance=ahead["l2"] if far else 0
        )

    def spread(self) -> list[Policy]:
        """A short and a long distance of every single stage, as the formulas may be wrong about all of them."""
        params = self.table.params
        return [
            policy
            for family in self.families(params.spread)
            for policy in family
            if policy.stages == 1 and policy not in self._starts()
        ]

    def around(self, policy: Policy) -> Iterator[Policy]:
        """Half and twice each distance, and the stage that is missing."""
        hints = self.table.hints()
        for name, level in (("l1_distance", "l1"), ("l2_distance", "l2")):
            distance = getattr(policy, name)
            most = most_iterations(self.loop, self.table, level, policy.stages == 1)
            for other in (distance // 2, distance * 2):
                if distance and 0 < other <= most:
                    yield msgspec.structs.replace(policy, **{name: other})
        if policy.stages == 1 and {"l1", "l2"} <= hints.keys():
            own = "l1_distance" if policy.l1_distance else "l2_distance"
            both = self.start(hints["l1"], hints["l2"])
            yield msgspec.structs.replace(both, **{own: min(getattr(policy, own), both.furthest)})

    def families(self, distances: Sequence[int]) -> Iterator[list[Policy]]:
        """The policies of each hint, and of each pair of hints, at these distances, as far as a level holds what is
        prefetched; of two stages that to level 1 is the shorter one."""
        hints = self.table.hints()
        most = {level: most_iterations(self.loop, self.table, level, True) for level in hints}
        reach = {level: [d for d in distances if d <= most[level]] or [distances[0]] for level in hints}
        paired = most_iterations(self.loop, self.table, "l1", False)
        near = hints.get("l1", "")
        if near:
            yield [Policy(l1_distance=d, l1_hint=near) for d in reach["l1"]]
        for level in (each for each in hints if each != "l1"):
            yield [Policy(l2_distance=d, l2_hint=hints[level]) for d in reach[level]]
            pairs = [(a, b) for b in reach[level] for a in reach.get("l1", []) if a < b and a <= paired]
            if pairs:
                yield [Policy(l1_distance=a, l1_hint=near, l2_distance=b, l2_hint=hints[level]) for a, b in pairs]

    def _starts(self) -> list[Policy]:
        hints = self.table.hints()
        if dropped_part(self.loop, self.table) > 0.99 or not self.loop.prefetched:
            return []
        single = [self.start(hint, "") if level == "l1" else self.start("", hint) for level, hint in hints.items()]
        return single + ([self.start(hints["l1"], hints["l2"])] if {"l1", "l2"} <= hints.keys() else [])

    # -- the formulas ------------------------------------------------------------------------------------------------

    @property
    def _short(self) -> float:
        return self.table.quantity("latency.l2").value

    def _work(self, policy: Policy) -> float:
        """Cycles of an iteration on data in level 1, with the instructions of prefetching."""
        each = sum(stream.address_cycles * max(1.0, stream.lines_per_iteration) for stream in self.loop.prefetched)
        return self.loop.cycles_per_iteration + policy.stages * each * self.table.params.prefetch_cycles

    def _through(self, level: str, latency: float) -> float:
        """Cycles that an iteration's lines take through a level's entries."""
        return lines_of(self.loop) * latency / (self.table.entries(level).value / sharers(self.loop, self.table, level))

    def _stall(self, latency: float) -> float:
        """Cycles of an iteration's misses that loads wait for: a core overlaps those of some iterations."""
        loop, lines = self.loop, lines_of(self.loop)
        if loop.dependent or self.table.blocking():
            return lines * latency
        chain = max(stream.steps for stream in loop.prefetched or loop.streams)
        entries = self.table.demand("l1").value / sharers(loop, self.table, "l1")
        return lines * latency / max(1.0, min(entries, self.table.params.window * lines / chain))

    def _without(self) -> float:
        """Cycles of an iteration without software prefetches: as it was timed, or by the same formulas."""
        if self.loop.measured_cycles:
            return self.loop.measured_cycles
        latency, work = latency_of(self.loop, self.table).value, self.loop.cycles_per_iteration
        followed = [covering(stream, self.loop, self.table) for stream in self.loop.prefetched]
        if followed and all(followed):
            near = 0.0 if all(name.startswith("l1.") for name in followed) else self._stall(self._short)
            return max(work, self._through("l2", latency), near)
        stall = self._stall(latency)
        return work + stall if self.loop.dependent or self.table.blocking() else max(work, stall)


def strategy_of(policy: Policy, loop: Loop, table: Table) -> Strategy:
    """What the paper calls a policy: level-1 prefetches count as a second stage behind the hardware where a prefetcher
    of level 2 follows them on streams that all are regular."""
    if not policy.stages:
        return "hardware" if policy.hardware else "none"
    if policy.stages == 2:
        return "two_stage_sw"
    if policy.l2_distance:
        return "l2_sw"
    return "two_stage_hw_sw" if follower(loop, table) and policy.hardware else "l1_sw"


def follower(loop: Loop, table: Table) -> str:
    """The level-2 prefetcher that goes on for software prefetches of this loop's streams, "" where none does."""
    regular = [stream for stream in loop.prefetched if stream.pattern in REGULAR]
    if not regular or len(regular) < len(loop.prefetched):
        return ""
    for name, own in table.prefetchers():
        enough = own.get("streams", len(regular)) >= len(regular)
        if name in ("l2.stream", "l2.stride") and enough and "prefetch" in own.get("trained_by", ()):
            return name
    return ""


def covering(stream: Stream, loop: Loop, table: Table) -> str:
    """A hardware prefetcher that follows the stream by itself among all of the loop's, "" where none does."""
    regular = sum(each.pattern in REGULAR for each in loop.streams)
    cause = "store" if stream.writes and stream.pattern == "sequential" else "load"
    present = dict(table.prefetchers())
    for kind in ("l1.stride", "l1.stream", "l2.stream", "l2.stride") if stream.pattern in REGULAR else ():
        own = present.get(kind)
        if own is not None and cause in own.get("trained_by", (cause,)) and own.get("streams", regular) >= regular:
            return kind
    return ""
