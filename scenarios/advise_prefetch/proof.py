"""The proof: the advised policy, none, folklore and a sweep over distances in interleaved rounds.

The best of a sweep is chosen on one half of the rounds and timed on the other, and so is the advised policy, of the few
that trials left. Chosen and timed on the same rounds either would be the luckiest of many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.loops import LINE_BYTES, Loop, Policy
from setebench.loops.table import Table
from setebench.stats.estimate import Estimate, over_epochs

from .params import Params
from .trial import Bench, Chosen


@dataclass(frozen=True, kw_only=True)
class Proof:
    """All rounds of one loop: `ticks`, shape (rounds, policies). `absent` says of policies that couldn't be run, by
    what they are, why."""

    loop: Loop
    policies: tuple[Policy, ...]
    ticks: NDArray[np.int64]
    sweep: tuple[Policy, ...]
    folklore: tuple[Policy, ...]
    absent: dict[str, str]

    def best_of(self, policies: Sequence[Policy]) -> Policy:
        """The policy with the least median in the rounds that choose (the even ones)."""
        medians = np.median(self.ticks[::2], axis=0)
        return min(policies, key=lambda policy: medians[self.policies.index(policy)])

    def advised(self, finalists: Sequence[Policy], least_gain: float) -> Policy:
        """The fastest of the finalists in the rounds that choose; none where that gains nothing to speak of."""
        medians = dict(zip(self.policies, np.median(self.ticks[::2], axis=0), strict=True))
        best = self.best_of(finalists)
        return best if medians[best] < medians[Policy()] * (1 - least_gain) else Policy()

    def ratio(self, numerator: Policy, denominator: Policy) -> Estimate:
        """Time with one policy over time with another, in the rounds that time (odd ones): the geometric mean over
        rounds, each a pair from the same moment, as an estimate of the ratio."""
        if numerator == denominator:
            return Estimate(value=1.0)
        rows = self.ticks[1::2].astype(float)
        logs = np.log(rows[:, self.policies.index(numerator)] / rows[:, self.policies.index(denominator)])
        mean = over_epochs(_without_outliers(logs))
        return Estimate(
            value=float(np.exp(mean.value)), error=float(np.exp(mean.value)) * mean.error, degrees=mean.degrees
        )

    def cycles(self, policy: Policy) -> float:
        """Median cycles per iteration in the rounds that time, on the scale of the loop's description."""
        medians = np.median(self.ticks[1::2], axis=0)
        part = medians[self.policies.index(policy)] / medians[self.policies.index(Policy())]
        return float(part * self.loop.measured_cycles)


BASELINES = {"prefetchers_off": Policy(hardware=False), "compiler": Policy(compiler=True)}
"""The paper's baselines that not every machine can run."""

FARTHEST = 3.5
"""Scaled median deviations from the median beyond which a round counts as disturbed (Iglewicz and Hoaglin 1993); an
interrupt in one of two passes is no property of either."""

SMALLEST = 1e-12


def _without_outliers(values: NDArray[np.float64]) -> NDArray[np.float64]:
    middle = np.median(values)
    deviation = 1.4826 * np.median(np.abs(values - middle))
    near: NDArray[np.bool_] = np.abs(values - middle) <= max(FARTHEST * deviation, SMALLEST)
    return values[near]


def prove(bench: Bench, chosen: Chosen, full_sweep: bool) -> Proof:
    """Run all policies in interleaved rounds."""
    loop, table, params = chosen.loop, chosen.advisor.table, bench.params
    folklore = tuple(_folklore(loop, table, params))
    pairs = _pairs(loop, table, params) if full_sweep else []
    sweep = tuple(dict.fromkeys([*_single_stages(loop, table, params), *pairs]))
    absent = {name: bench.refused(loop, policy) for name, policy in BASELINES.items()}
    more = [policy for name, policy in BASELINES.items() if not absent[name]]
    tried = [policy for policy in chosen.advisor.observed if policy.stages]
    policies = list(dict.fromkeys([Policy(), chosen.by_table, *chosen.finalists, *sweep, *folklore, *tried, *more]))
    bench.context.progress(f"{loop.name}: proof with {len(policies)} policies")
    return Proof(
        loop=loop,
        policies=tuple(policies),
        ticks=bench.ticks(loop, policies, params.rounds, 200),
        sweep=tuple(dict.fromkeys([Policy(), *sweep, *tried])),
        folklore=folklore,
        absent={name: reason for name, reason in absent.items() if reason},
    )


def _single_stages(loop: Loop, table: Table, params: Params) -> list[Policy]:
    hints = table.hints()
    near = (
        [Policy(l1_distance=d, l1_hint=hints["l1"]) for d in _within(loop, table, params, "l1")]
        if "l1" in hints
        else []
    )
    return near + [
        Policy(l2_distance=d, l2_hint=hints[level])
        for level in ("l2", "l3")
        if level in hints
        for d in _within(loop, table, params, level)
    ]


def _pairs(loop: Loop, table: Table, params: Params) -> list[Policy]:
    hints = table.hints()
    if "l1" not in hints:
        return []
    return [
        Policy(l1_distance=near, l1_hint=hints["l1"], l2_distance=far, l2_hint=hints[level])
        for level in ("l2", "l3")
        if level in hints
        for far in _within(loop, table, params, level)
        for near in _within(loop, table, params, "l1")
        if near < far
    ]


def _within(loop: Loop, table: Table, params: Params, level: str) -> list[int]:
    """Distances at which a level can hold at all what is prefetched before it is used: further ahead, the first line
    is gone when the last one comes."""
    lines = sum(stream.lines_per_iteration for stream in loop.prefetched)
    size = dict(table.sizes()).get(level, math.inf)
    fitting = [d for d in params.sweep if d * lines * LINE_BYTES <= size]
    return fitting or [params.sweep[0]]


def _folklore(loop: Loop, table: Table, params: Params) -> list[Policy]:
    """Fixed distances of so many lines of each stream, straight to level 1."""
    hint = table.hints().get("l1", "t0")
    sequential = [stream.bytes_per_iteration for stream in loop.prefetched if stream.pattern == "sequential"]
    lines = max([1.0, *(each / LINE_BYTES for each in sequential)])
    return [Policy(l1_distance=max(1, round(wanted / lines)), l1_hint=hint) for wanted in params.folklore_lines]
