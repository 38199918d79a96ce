"""Which policies are worth trying: the model of queues over strategies and distances, fitted to what was seen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from setebench.loops.queues import Core, Queues
from setebench.loops.rates import held_iterations, latency_of, most_iterations
from setebench.loops.records import Loop, Policy, Strategy
from setebench.loops.table import Table


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A policy with what the model expects of it, in cycles per iteration."""

    strategy: Strategy
    policy: Policy
    cycles: float


@dataclass
class Advisor:
    """Expects, is shown what policies take, and expects better. `observed` are cycles per iteration by policy."""

    loop: Loop
    table: Table
    observed: dict[Policy, float] = field(default_factory=dict)
    cores: tuple[Core, ...] = ()

    def __post_init__(self) -> None:
        self._far = latency_of(self.loop, self.table)
        self._queues = Queues(self.loop, self.table)
        self._known: dict[tuple[Core, Policy], float] = {}
        if self.loop.measured_cycles and Policy() not in self.observed:
            self.observed[Policy()] = self.loop.measured_cycles
        self.cores = self._fitted()

    def observe(self, seen: Iterable[tuple[Policy, float]]) -> None:
        """Take in what policies took, and fit the core again."""
        self.observed.update(seen)
        self.cores = self._fitted()

    # -- expecting ---------------------------------------------------------------------------------------------------

    def expected(self, policy: Policy) -> float:
        """Cycles per iteration with a policy: as the model says, times what it was wrong by for the strategy before; no
        less than the loop's work."""
        return max(self.loop.cycles_per_iteration, self._modelled(policy) * self._correction(policy))

    def candidates(self) -> list[Candidate]:
        """Of every strategy and hint the policy that the model likes best, and no prefetching; the fastest first."""
        best = [self._candidate(self._shortest(family)) for family in self.families()]
        return sorted([self._candidate(Policy()), *best], key=lambda candidate: candidate.cycles)

    def choice(self) -> Candidate:
        """The advice: of the candidates that are about as fast as the fastest, the one with the fewest stages; so no
        prefetching where that gains nothing to speak of."""
        found = self.candidates()
        most = found[0].cycles * (1 + self.table.params.least_gain)
        return min((each for each in found if each.cycles <= most), key=lambda each: each.policy.stages)

    def smallest_block(self, candidate: Candidate) -> int:
        """Iterations from which on a loop that is begun anew gains from a policy: those before the furthest distance
        find nothing prefetched, and pay for the prefetches all the same. 0 for a policy that gains nothing."""
        furthest = candidate.policy.furthest
        now, least = self.expected(Policy()), 1 - self.table.params.least_gain
        gained = least * now - candidate.cycles
        if not furthest or gained <= 0:
            return 0
        return math.ceil(furthest * (now + self._queues.instructions(candidate.policy) - candidate.cycles) / gained)

    def further(self, count: int) -> list[Policy]:
        """Policies not seen yet that might be the fastest."""
        unseen = [policy for family in self.families() for policy in family if policy not in self.observed]
        return sorted(unseen, key=self.expected)[:count]

    def neighbours(self) -> list[Policy]:
        """Policies not seen yet that are one step of one distance away from the fastest that was seen."""
        best = min(self.observed, key=lambda policy: self.observed[policy])
        steps = self.table.params.distances
        return [
            policy
            for family in self.families()
            for policy in family
            if family_of(policy) == family_of(best) and policy not in self.observed and _apart(policy, best, steps) == 1
        ]

    def spread(self) -> list[Policy]:
        """A short and a long distance of every single stage, wherever the model may think the best one lies: what is
        tried beside its favourites, for the model may be wrong in the same way about all of them."""
        single = [family for family in self.families() if family[0].stages == 1]
        return [family[len(family) * part // 8] for family in single for part in self.table.params.spread]

    def families(self) -> Iterator[list[Policy]]:
        """The policies of each strategy and hint, by distance."""
        distances = self.table.params.distances
        near_most, far_most = (most_iterations(self.loop, self.table, level) for level in ("l1", "l2"))
        held = max(held_iterations(self.loop, self.table, "l1"), distances[0])
        reach = {"l2": [d for d in distances if d <= far_most] or [distances[0]], "l3": distances}
        alone, paired = ([d for d in distances if d <= most] for most in (held, near_most))
        return staged(self.table.hints(), {"l1": alone, **reach}, paired)

    def _shortest(self, family: list[Policy]) -> Policy:
        """Of the policies that are about as good as the best, the one with the shortest distances; those that are a
        whole latency ahead before others, which are as good only if the core overlaps what it is thought to."""
        best = min(self.expected(policy) for policy in family)
        good = [policy for policy in family if self.expected(policy) <= best * (1 + self.table.params.even)]
        return min(good, key=lambda policy: (not self._in_time(policy), policy.l1_distance + policy.l2_distance))

    def _in_time(self, policy: Policy) -> bool:
        """Whether prefetches are issued as far ahead as their lines are away (Mowry et al. 1992)."""
        cycles = self.expected(policy)
        whole, short = self._far.value, self.table.quantity("latency.l2").value
        if policy.l2_distance and policy.l2_distance * cycles < whole:
            return False
        return policy.l1_distance * cycles >= (short if policy.l2_distance else whole) or not policy.l1_distance

    def _candidate(self, policy: Policy) -> Candidate:
        return Candidate(
            strategy=strategy_of(policy, self.loop, self.table), policy=policy, cycles=self.expected(policy)
        )

    def _modelled(self, policy: Policy) -> float:
        """The geometric mean of what the model says with each core that it may be."""
        logs = [math.log(self._with(core, policy)) for core in self.cores]
        return math.exp(sum(logs) / len(logs))

    def _with(self, core: Core, policy: Policy) -> float:
        if (core, policy) not in self._known:
            self._known[core, policy] = self._queues.cycles(policy, core)
        return self._known[core, policy]

    def _correction(self, policy: Policy) -> float:
        """Seen over modelled, the mean (in logarithms) of what was seen of the same strategy and hints; where nothing
        was, that of no prefetching: what is wrong about the loop's memory is wrong with prefetches too."""
        own = [each for each in self.observed if family_of(each) == family_of(policy)]
        if policy in self.observed:
            own = [policy]
        own = own or [each for each in self.observed if not each.stages]
        logs = [math.log(self.observed[each] / self._modelled(each)) for each in own]
        return math.exp(sum(logs) / len(logs)) if logs else 1.0

    # -- fitting -----------------------------------------------------------------------------------------------------

    def _fitted(self) -> tuple[Core, ...]:
        """The core for which the model comes nearest to what was seen; of two about as near the likelier one. Without
        anything seen, an ordinary core. Where only the loop without prefetches was seen, that often says little (a
        chain takes the same time on any core): then the widest and the narrowest that come as near count too."""
        likely, params = list(cores(self.table)), self.table.params
        if not self.observed:
            return (likely[0],)
        none = {policy: cycles for policy, cycles in self.observed.items() if not policy.stages}
        kept = sorted(likely, key=lambda core: self._away(core, none))[: params.kept_cores] if none else likely
        if len(none) == len(self.observed):
            return self._as_near(likely)
        best, nearest = likely[0], math.inf
        for core in sorted(kept, key=likely.index):
            away = self._away(core, self.observed)
            if away < nearest - params.near * len(self.observed):
                best, nearest = core, away
        return (best,)

    def _as_near(self, likely: list[Core]) -> tuple[Core, ...]:
        away = {core: self._away(core, self.observed) for core in likely}
        near = [core for core in likely if away[core] <= min(away.values()) + self.table.params.near]
        by_window = sorted(near, key=lambda core: core.window)
        return tuple(dict.fromkeys([near[0], by_window[0], by_window[-1]]))

    def _away(self, core: Core, seen: dict[Policy, float]) -> float:
        return sum(abs(math.log(self._with(core, policy) / cycles)) for policy, cycles in seen.items())


def staged(
    hints: Mapping[str, str], reach: Mapping[str, Sequence[int]], paired: Sequence[int]
) -> Iterator[list[Policy]]:
    """Policies of each strategy and hint: one stage by the distances of its level in `reach`, and two, of which that to
    level 1 has the `paired` distances that are shorter."""
    near = hints.get("l1", "")
    if near:
        yield [Policy(l1_distance=d, l1_hint=near) for d in reach["l1"]]
    for level in ("l2", "l3"):
        if level not in hints:
            continue
        yield [Policy(l2_distance=d, l2_hint=hints[level]) for d in reach[level]]
        pairs = [(a, b) for b in reach[level] for a in paired if a < b] if near else []
        if pairs:
            yield [Policy(l1_distance=a, l1_hint=near, l2_distance=b, l2_hint=hints[level]) for a, b in pairs]


def cores(table: Table) -> Iterator[Core]:
    """Cores that may be, the likelier first: what a core overlaps is no finding."""
    params, translated = table.params, table.said("tlb.l1.entries.4k") or table.said("tlb.l1.entries.2m")
    walkers = params.walkers if translated else params.walkers[:1]
    if table.blocking():
        yield from (Core(blocking=True, in_order=True, walkers=number) for number in walkers)
        return
    yield from (Core(window=window, walkers=number) for number in walkers for window in params.windows)
    yield from (Core(window=params.whole_window, in_order=True, walkers=number) for number in walkers)


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
    regular = [stream for stream in loop.prefetched if stream.pattern in ("sequential", "strided")]
    if not regular or len(regular) < len(loop.prefetched):
        return ""
    for name, own in table.prefetchers():
        enough = own.get("streams", len(regular)) >= len(regular)
        if name in ("l2.stream", "l2.stride") and enough and "prefetch" in own.get("trained_by", ()):
            return name
    return ""


def family_of(policy: Policy) -> tuple[str, str]:
    """What policies of one strategy and the same hints have in common."""
    return (policy.l1_hint if policy.l1_distance else "", policy.l2_hint if policy.l2_distance else "")


def _apart(one: Policy, other: Policy, steps: tuple[int, ...]) -> int:
    """Steps between the distances of two policies of a family, both stages together."""
    places = {distance: place for place, distance in enumerate((0, *steps))}
    pairs = ((one.l1_distance, other.l1_distance), (one.l2_distance, other.l2_distance))
    return sum(abs(places[a] - places[b]) for a, b in pairs)
