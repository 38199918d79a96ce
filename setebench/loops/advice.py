"""Advice for a loop: where to begin, from two formulas over the measured table, and what is advised in the end, with
its reasons.

A prefetch is issued its latency ahead, which in iterations is latency over iteration time (Mowry, Lam and Gupta 1992,
section 2.3.2). An iteration is no faster than its work, and no faster than the entries for misses let its lines through
(Little's law): lines times latency over entries. So a distance never needs more lines than there are entries for.
What is right is decided by timing, which the scenario `advise-prefetch` does; these formulas only say where to begin.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

import msgspec

from setebench.errors import UsageError
from setebench.loops.records import PAGE_BYTES, Loop, Policy, Strategy
from setebench.results import Document, Finding, Outcome
from setebench.text import visible

START = (
    "This is a start from the table alone: nothing was timed. Time half and twice the distance, and the loop without "
    "prefetches, before you keep it."
)

PLAUSIBLE = {
    # for what nobody measured; published tables of Skylake, Golden Cove and Zen 2 to Zen 5
    "latency.l2": 14.0,
    "latency.l3": 50.0,
    "latency.memory": 350.0,
    "mshr.l1.prefetch": 12.0,
    "mshr.l2.prefetch": 32.0,
    "cache.l2.size": 1048576.0,
}

MEANT_FILLS = {"t0": "l1", "t1": "l2"}
"""What a hint is meant to fill (x86 manuals), where nobody found it out."""

BUILTINS = {"t0": "0, 3", "t1": "0, 2", "t2": "0, 1", "nta": "0, 0", "w": "1, 3"}
"""The second and third argument of `__builtin_prefetch` for each hint, as gcc and clang translate them on x86-64."""


@dataclass(frozen=True, kw_only=True)
class AdviceParams:
    """What turns a table of findings into advice."""

    least_gain: float = 0.02  # share of the time that prefetches must gain, by the formulas or timed, to be advised
    window: float = 8.0  # iterations that a core overlaps by itself: 200 to 500 instructions over loops of 25 to 60
    furthest: int = 256  # iterations: a few hundred cover memory's latency in the shortest loops


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """Advice for a loop. `why` are sentences, `needs` is what is missing in the result, with the reason."""

    loop: str
    unit: str
    strategy: str
    policy: Policy
    why: tuple[str, ...]
    needs: dict[str, str]


def prefetch_advice(result: Document, loop: Loop | Mapping[str, Any]) -> Advice:
    """Advice for a loop from a result document. `loop` is a `Loop`, or its fields as a mapping.

    Without `measured_cycles` in it (what an iteration takes now) it is guessed how much of the misses the core overlaps
    by itself. Raises `UsageError` for a loop that makes no sense."""
    advisor = Advisor(loop_of(loop), {finding.parameter: finding for finding in result.findings})
    return advisor.advice(advisor.choice(), START)


def loop_of(fields: Loop | Mapping[str, Any]) -> Loop:
    """A loop from its fields, as a TOML file has them. Raises `UsageError`."""
    try:
        return msgspec.convert(msgspec.to_builtins(fields), type=Loop)
    except msgspec.ValidationError as error:
        raise UsageError(f"the loop's description: {error}") from error


@dataclass(frozen=True)
class Advisor:
    """Policies for a loop on the machine of these findings, by parameter. `missing` collects what was needed and isn't
    there, with the reason."""

    loop: Loop
    findings: Mapping[str, Finding]
    params: AdviceParams = AdviceParams()
    missing: dict[str, str] = field(default_factory=dict)

    # -- the table ---------------------------------------------------------------------------------------------------

    def _value(self, parameter: str) -> Any:
        """The value of a parameter, None where there is none."""
        finding = self.findings.get(parameter)
        return None if finding is None else finding.value

    def _missing(self, parameter: str) -> None:
        """Note that a parameter is not known, and why."""
        finding = self.findings.get(parameter)
        self.missing[parameter] = (finding and finding.reason) or "not in the result"

    def _number(self, parameter: str) -> float:
        """A number that the advice needs; what wasn't measured is plausible, and noted as missing."""
        value = self._value(parameter)
        if isinstance(value, int | float) and value:
            return float(value)
        self._missing(parameter)
        return PLAUSIBLE[parameter]

    def _entries(self, level: str) -> float:
        """Misses of a level that software prefetches of one thread can have in flight."""
        parameter = f"mshr.{level}.prefetch"
        if parameter in self.findings and self.findings[parameter].outcome is Outcome.ABSENT:
            return math.inf
        own_pool = self._value(f"mshr.{level}.shared_by_smt") is False
        return self._number(parameter) / (1 if own_pool else self.loop.threads_per_core)

    @cached_property
    def hints(self) -> dict[str, str]:
        """For every level that software prefetches can fill, the plainest hint that does. What is open of a hint is
        taken for what it is meant to do: trials show the rest."""
        found: dict[str, str] = {}
        for hint in ("t0", "t1", "t2", "nta"):
            finding = self.findings.get(parameter := f"software_prefetch.fills.{hint}")
            level = finding and finding.value
            if hint in MEANT_FILLS and (finding is None or finding.outcome is Outcome.UNRESOLVED):
                self._missing(parameter)
                level = MEANT_FILLS[hint]
            if level in ("l1", "l2", "l3"):
                found.setdefault(str(level), hint)
        return found

    def _follows(self, level: str, accesses: str) -> bool:
        """Whether a prefetcher of a level that these accesses train goes on with the loop's streams, all regular."""
        regular = bool(self.loop.prefetched) and all(stream.regular for stream in self.loop.prefetched)
        own = (f"prefetcher.{level}.{kind}.trained_by" for kind in ("stream", "stride"))
        return regular and any(accesses in (self._value(name) or ()) for name in own)

    # -- what of it matters for the loop -----------------------------------------------------------------------------

    @cached_property
    def lines(self) -> float:
        """Lines to prefetch in an iteration, by one stage; those that any stream touches where none can be."""
        return sum(stream.lines_per_iteration for stream in self.loop.prefetched or self.loop.streams)

    @cached_property
    def level(self) -> str:
        """The first level beyond the first that holds the loop's data: it serves the misses."""
        sizes = {"l2": self._number("cache.l2.size"), "l3": self._value("cache.l3.size") or 0}
        return next((level for level, size in sizes.items() if size >= self.loop.working_set_bytes), "memory")

    @cached_property
    def latency(self) -> float:
        """Cycles from the level that serves the misses to level 1."""
        return self._number(f"latency.{self.level}")

    @cached_property
    def dropped(self) -> float:
        """The part of prefetches that gets nowhere: of streams in random order all, where prefetches don't get beyond
        the page of the latest access, else those on pages that a TLB lacks, where such are dropped."""
        within = self._value("software_prefetch.across_page") is False
        reach = math.inf
        for level in ("l1", "l2"):
            entries = self._value(f"tlb.{level}.entries.4k")
            if self._value(f"software_prefetch.on_tlb_miss.{level}") is False and isinstance(entries, int | float):
                reach = min(reach, entries * PAGE_BYTES)
        missed = 0.0
        for stream in self.loop.prefetched:
            extent = stream.extent_bytes or self.loop.working_set_bytes
            missed += 0.0 if stream.regular else stream.lines_per_iteration * (within or max(0.0, 1 - reach / extent))
        return missed / self.lines

    @cached_property
    def most(self) -> int:
        """Largest distance, in iterations: prefetches that don't get beyond a page stay within one."""
        step = max(abs(stream.step_bytes) for stream in self.loop.prefetched)
        within = step and self._value("software_prefetch.across_page") is False
        return max(1, int(min(PAGE_BYTES / step / 2 if within else math.inf, self.params.furthest)))

    # -- the formulas ------------------------------------------------------------------------------------------------

    def expected(self, policy: Policy) -> float:
        """Cycles per iteration: the work, or the lines through the entries that they hold; what is dropped takes what
        it takes without prefetches."""
        near, far = self._number("latency.l2"), self.lines * self.latency / self._entries("l2")
        alone = self.loop.dependent or self._value("blocking.load") == "blocking"
        overlapped = 1 if alone else min(self._entries("l1"), self.params.window)
        if not policy.stages:
            away = 0.0 if self._follows("l1", "load") else near if self._follows("l2", "load") else self.latency
            return self.loop.measured_cycles or max(
                self.loop.cycles_per_iteration + self.lines * away / overlapped, far
            )
        each = sum(stream.address_cycles * max(1.0, stream.lines_per_iteration) for stream in self.loop.prefetched)
        cycles = max(self.loop.cycles_per_iteration + policy.stages * each / 2, far)  # half of a core's issue slots
        if policy.l1_distance:
            away = near if policy.l2_distance or self._follows("l2", "prefetch") else self.latency
            cycles = max(cycles, self.lines * away / self._entries("l1"))
        else:  # every line is still fetched from level 2
            cycles += self.lines * near / overlapped
        return self.dropped * self.without + (1 - self.dropped) * cycles

    @cached_property
    def without(self) -> float:
        """Cycles of an iteration without software prefetches: as it was timed, or by the same formulas."""
        return self.expected(Policy())

    def start(self, near: str, far: str) -> Policy:
        """The policy with these hints ("" for none) at Mowry's distances."""
        ones = Policy(l1_distance=int(bool(near)), l2_distance=int(bool(far)))
        policy = msgspec.structs.replace(ones, l1_hint=near or ones.l1_hint, l2_hint=far or ones.l2_hint)
        cycles = self.expected(policy)
        wanted = {"l1_distance": self._number("latency.l2") if far else self.latency, "l2_distance": self.latency}
        ahead = {
            name: min(int(cycles_away / cycles) + 1, self.most)
            for name, cycles_away in wanted.items()
            if getattr(policy, name)
        }
        return msgspec.structs.replace(policy, **ahead)

    def starts(self) -> list[Policy]:
        """No prefetch, and one policy of every strategy and hint at the distances of the formulas."""
        if self.dropped > 0.99 or not self.loop.prefetched:
            return [Policy()]
        hints = self.hints
        single = [self.start(hint, "") if level == "l1" else self.start("", hint) for level, hint in hints.items()]
        both = [self.start(hints["l1"], hints["l2"])] if {"l1", "l2"} <= hints.keys() else []
        return [Policy(), *single, *both]

    def choice(self) -> Policy:
        """The advice of the formulas alone: the fewest stages that are about as good as the best; no prefetching where
        that gains little."""
        cycles = {policy: self.expected(policy) for policy in self.starts()}
        enough = min(cycles.values()) * (1 + self.params.least_gain)
        return min((policy for policy in cycles if cycles[policy] <= enough), key=lambda policy: policy.stages)

    def swept(self, distances: Sequence[int]) -> list[Policy]:
        """Single stages of every hint at these distances, and two stages of the plainest hints at pairs of every second
        one."""
        hints = self.hints if self.loop.prefetched else {}
        found = [
            Policy(l1_distance=distance, l1_hint=hint) if level == "l1" else Policy(l2_distance=distance, l2_hint=hint)
            for level, hint in hints.items()
            for distance in distances
        ]
        for near, far in combinations(distances[::2], 2) if {"l1", "l2"} <= hints.keys() else ():
            found.append(Policy(l1_distance=near, l1_hint=hints["l1"], l2_distance=far, l2_hint=hints["l2"]))
        return [policy for policy in found if policy.furthest <= self.most]

    # -- what is said of it ------------------------------------------------------------------------------------------

    def strategy(self, policy: Policy) -> Strategy:
        """What the paper calls a policy: level-1 prefetches count as a second stage behind the hardware where a
        prefetcher of level 2 follows them on streams that all are regular."""
        if not policy.stages:
            return "hardware"
        if policy.l2_distance:
            return "two_stage_sw" if policy.l1_distance else "l2_sw"
        return "two_stage_hw_sw" if self._follows("l2", "prefetch") else "l1_sw"

    def advice(self, policy: Policy, *remarks: str) -> Advice:
        """A policy as advice, with reasons, before them `remarks`. Texts of others' files stay on their lines."""
        return Advice(
            loop=visible(self.loop.name),
            unit=visible(self.loop.unit),
            strategy=self.strategy(policy),
            policy=policy,
            why=(*remarks, *map(visible, self._why(policy))),
            needs={parameter: visible(reason) for parameter, reason in self.missing.items()},
        )

    def _why(self, policy: Policy) -> Iterator[str]:
        """Sentences, each with the findings that it rests on."""
        entries = [self._said(f"mshr.{level}.prefetch", self._entries(level)) for level in ("l1", "l2")]
        yield (
            f"An iteration works {self.loop.cycles_per_iteration:.1f} cycles on data in level 1 and takes "
            f"{self.without:.1f} without software prefetches; the lines to prefetch ({self.lines:.3g} an iteration) "
            f"come from {self.level}, {self._said(f'latency.{self.level}', self.latency)} cycles away "
            f"(latency.{self.level}, cache.*.size)."
        )
        if self.dropped:
            where = "software_prefetch.on_tlb_miss.*, .across_page, tlb.*"
            yield f"{self.dropped:.0%} of the prefetches are dropped ({where})."
        if not policy.stages:
            yield f"Don't prefetch: it gains less than {self.params.least_gain:.0%}, or no prefetch gets through."
            return
        cycles = self.expected(policy)
        yield (
            f"At {cycles:.1f} cycles an iteration {self.lines * self.latency / cycles:.1f} lines are in flight; of "
            f"entries for a thread level 1 has {entries[0]} and level 2 {entries[1]} (Little's law; mshr.*.prefetch)."
        )
        for level, distance, hint in policy.parts:
            away = self._number("latency.l2") if policy.stages == 2 and level == "l1" else self.latency
            yield (
                f"{level.upper()} stage, __builtin_prefetch(address, {BUILTINS[hint]}): {away:.0f} cycles over "
                f"{cycles:.1f} an iteration need {int(away / cycles) + 1} {self.loop.unit} (Mowry et al. 1992); "
                f"advised are {distance} (software_prefetch.fills.{hint})."
            )

    def _said(self, parameter: str, value: float) -> str:
        text = "any number" if math.isinf(value) else f"{value:.0f}"
        return f"{text} (not measured)" if parameter in self.missing else text
