"""The proof: the advised policy, none, folklore and a sweep over distances in interleaved rounds.

The best of a sweep is chosen on one half of the rounds and timed on the other, and so is the advised policy, of those
that were tried. Chosen and timed on the same rounds either would be the luckiest of many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from setebench.loops import LINE_BYTES, Loop, Policy
from setebench.loops.advisor import Advisor
from setebench.loops.table import Table
from setebench.stats.estimate import Estimate, over_epochs

from .params import Params
from .rounds import MEDIAN_VARIANCE, TO_DEVIATION, deviation
from .trial import Bench, Chosen

BASELINES = {"prefetchers_off": Policy(hardware=False), "compiler": Policy(compiler=True)}
"""The paper's baselines that not every machine can run."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """All rounds of one loop: `ticks`, shape (rounds, policies), and for each row whether it `chooses` or times.
    `absent` says of policies that couldn't be run, by what they are, why."""

    loop: Loop
    policies: tuple[Policy, ...]
    ticks: NDArray[np.float64]
    chooses: NDArray[np.bool_]
    sweep: tuple[Policy, ...]
    folklore: tuple[Policy, ...]
    absent: dict[str, str]

    def _times(self, policies: Sequence[Policy], chooses: bool) -> NDArray[np.float64]:
        """Ticks of these policies in the rounds that choose, or in those that time; shape (rounds, policies)."""
        columns = [self.policies.index(policy) for policy in policies]
        found: NDArray[np.float64] = self.ticks[self.chooses == chooses][:, columns]
        return found

    def best_of(self, policies: Sequence[Policy]) -> Policy:
        """The policy with the least median time, over that without prefetches, in the rounds that choose."""
        relative = self._times(policies, True) / self._times([Policy()], True)
        return policies[int(np.argmin(np.median(relative, axis=0)))]

    def advised(self, tried: Sequence[Policy], least_gain: float) -> Policy:
        """The fastest of what was tried in the rounds that choose; none where that gains nothing to speak of, or no
        more than rounds differ by: the best of many seems to gain something where none does."""
        best = self.best_of(tried)
        pair = np.log(self._times([best, Policy()], True))
        error = deviation(pair) * np.sqrt(2 * MEDIAN_VARIANCE / len(pair))
        gains = float(np.median(pair[:, 0] - pair[:, 1])) < np.log(1 - least_gain) - error
        return best if gains else Policy()

    def ratio(self, numerator: Policy, denominator: Policy) -> Estimate:
        """Time with one policy over time with another, in the rounds that time: the geometric mean over rounds, each a
        pair from the same moment, without disturbed rounds, as an estimate of the ratio."""
        if numerator == denominator:
            return Estimate(value=1.0)
        rows = self._times([numerator, denominator], False)
        logs = np.log(rows[:, 0] / rows[:, 1])
        most = Params().farthest * TO_DEVIATION * float(stats.median_abs_deviation(logs))
        mean = over_epochs(logs[np.abs(logs - np.median(logs)) <= most])
        value = float(np.exp(mean.value))
        return Estimate(value=value, error=value * mean.error, degrees=mean.degrees)

    def cycles(self, policy: Policy) -> float:
        """Median cycles per iteration in the rounds that time, on the scale of the loop's description."""
        rows = self._times([policy, Policy()], False)
        return float(np.median(rows[:, 0] / rows[:, 1]) * self.loop.measured_cycles)


def prove(bench: Bench, chosen: Chosen, full_sweep: bool) -> Proof:
    """Run all policies in interleaved rounds, which choose and time in turn, until speed-up and regret are known well
    enough or the time is over."""
    advisor, params = chosen.advisor, bench.params
    loop = advisor.loop
    folklore = tuple(_folklore(loop, advisor.table, params))
    absent = {name: bench.refused(loop, policy) for name, policy in BASELINES.items()}
    sweep = tuple(dict.fromkeys([Policy(), *_sweep(advisor, params, full_sweep), *chosen.tried]))
    more = [policy for name, policy in BASELINES.items() if not absent[name]]
    policies = tuple(dict.fromkeys([*sweep, *folklore, *more]))
    bench.context.progress(f"{loop.name}: proof with {len(policies)} policies")
    rounds = bench.rounds(loop, len(policies), params.rounds)
    ticks = np.empty((0, len(policies)))
    while True:
        part = bench.run(loop, list(policies), params.part, 200 + len(ticks))
        ticks = np.concatenate([ticks, part])
        proof = Proof(
            loop=loop,
            policies=policies,
            ticks=ticks,
            chooses=np.arange(len(ticks)) % 2 == 0,
            sweep=sweep,
            folklore=folklore,
            absent={name: reason for name, reason in absent.items() if reason},
        )
        if len(ticks) >= rounds or (len(ticks) >= params.rounds[0] and _known(proof, chosen, params)):
            return proof


def _known(proof: Proof, chosen: Chosen, params: Params) -> bool:
    """True once speed-up and regret are known well enough."""
    policy, best = proof.advised(chosen.tried, params.least_gain), proof.best_of(proof.sweep)
    regret, speedup = proof.ratio(policy, best), proof.ratio(Policy(), policy)
    return regret.half_width <= params.width * regret.value and speedup.half_width <= 2 * params.width * speedup.value


def _sweep(advisor: Advisor, params: Params, pairs: bool) -> Iterator[Policy]:
    """Single stages by distance, and for a full sweep all pairs of both."""
    for family in advisor.families(params.sweep):
        if pairs or family[0].stages == 1:
            yield from family


def _folklore(loop: Loop, table: Table, params: Params) -> list[Policy]:
    """Fixed distances of so many lines of each stream, straight to level 1."""
    hint = table.hints().get("l1", "t0")
    sequential = [stream.bytes_per_iteration for stream in loop.prefetched if stream.pattern == "sequential"]
    lines = max([1.0, *(each / LINE_BYTES for each in sequential)])
    return [Policy(l1_distance=max(1, round(wanted / lines)), l1_hint=hint) for wanted in params.folklore_lines]
