"""The proof: the advised policy, none, folklore and a sweep over distances in interleaved rounds.

The best of a sweep is chosen on one half of the rounds and timed on the other, and so is the advised policy, of those
that were tried. Chosen and timed on the same rounds either would be the luckiest of many. Policies that lose in the
rounds that choose are left out of further ones (`race.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from setebench.loops import LINE_BYTES, Loop, Policy
from setebench.loops.advisor import Advisor, strategy_of
from setebench.loops.table import Table
from setebench.stats.estimate import Estimate, over_epochs

from .params import Params
from .race import Race
from .rounds import MEDIAN_VARIANCE, TO_DEVIATION, deviation
from .trial import Bench, Chosen


@dataclass(frozen=True, kw_only=True)
class Proof:
    """All rounds of one loop: `ticks`, shape (rounds, policies), NaN for what was left out of a round, and for each row
    whether it `chooses` or times. `absent` says of policies that couldn't be run, by what they are, why."""

    loop: Loop
    policies: tuple[Policy, ...]
    ticks: NDArray[np.float64]
    chooses: NDArray[np.bool_]
    sweep: tuple[Policy, ...]
    folklore: tuple[Policy, ...]
    absent: dict[str, str]

    def best_of(self, policies: Sequence[Policy]) -> Policy:
        """The policy with the least median in the rounds that choose, of those that were never left out of one."""
        medians = self._relative()
        complete = [policy for policy in policies if np.isfinite(medians[policy])]
        return min(complete, key=lambda policy: medians[policy])

    def advised(self, tried: Sequence[Policy], least_gain: float) -> Policy:
        """The fastest of what was tried in the rounds that choose; none where that gains nothing to speak of, or no
        more than rounds differ by: the best of many seems to gain something where none does."""
        best = self.best_of(tried)
        if best == Policy():
            return best
        choosing = np.log(self.ticks[self.chooses])
        pair = choosing[:, [self.policies.index(best), self.policies.index(Policy())]]
        error = deviation(pair) * np.sqrt(2 * MEDIAN_VARIANCE / len(pair))
        return best if float(np.median(pair[:, 0] - pair[:, 1])) < np.log(1 - least_gain) - error else Policy()

    def _relative(self) -> dict[Policy, float]:
        """Median time over that without software prefetches, in rounds that choose; NaN for what was left out."""
        choosing = self.ticks[self.chooses]
        none = choosing[:, [self.policies.index(Policy())]]
        return dict(zip(self.policies, np.median(choosing / none, axis=0).tolist(), strict=True))

    def ratio(self, numerator: Policy, denominator: Policy) -> Estimate:
        """Time with one policy over time with another, in the rounds that time: the geometric mean over rounds, each a
        pair from the same moment, as an estimate of the ratio."""
        if numerator == denominator:
            return Estimate(value=1.0)
        pairs = [self.policies.index(policy) for policy in (numerator, denominator)]
        rows = self.ticks[~self.chooses][:, pairs]
        rows = rows[np.isfinite(rows).all(axis=1)]
        mean = over_epochs(_without_outliers(np.log(rows[:, 0] / rows[:, 1])))
        return Estimate(
            value=float(np.exp(mean.value)), error=float(np.exp(mean.value)) * mean.error, degrees=mean.degrees
        )

    def cycles(self, policy: Policy) -> float:
        """Median cycles per iteration in the rounds that time, or what chose where it was left out of those, on the
        scale of the loop's description."""
        pair = self.ticks[:, [self.policies.index(policy), self.policies.index(Policy())]]
        there = np.isfinite(pair[:, 0])
        timed = there & ~self.chooses
        rows = pair[timed if timed.any() else there]
        return float(np.median(rows[:, 0] / rows[:, 1]) * self.loop.measured_cycles)


BASELINES = {"prefetchers_off": Policy(hardware=False), "compiler": Policy(compiler=True)}
"""The paper's baselines that not every machine can run."""


def _without_outliers(values: NDArray[np.float64]) -> NDArray[np.float64]:
    if not len(values):
        return values
    most = Params().farthest * TO_DEVIATION * float(stats.median_abs_deviation(values))
    near: NDArray[np.bool_] = np.abs(values - np.median(values)) <= most
    return values[near]


def prove(bench: Bench, chosen: Chosen, full_sweep: bool) -> Proof:
    """Run all policies in interleaved rounds."""
    loop, table, params = chosen.advisor.loop, chosen.advisor.table, bench.params
    folklore = tuple(_folklore(loop, table, params))
    sweep = tuple(dict.fromkeys(_sweep(chosen.advisor, params, full_sweep)))
    absent = {name: bench.refused(loop, policy) for name, policy in BASELINES.items()}
    more = [policy for name, policy in BASELINES.items() if not absent[name]]
    field = tuple(dict.fromkeys([Policy(), *sweep, *chosen.tried]))
    policies = tuple(dict.fromkeys([*field, *folklore, *more]))
    bench.context.progress(f"{loop.name}: proof with {len(policies)} policies")
    strategies: dict[str, list[Policy]] = {}
    for policy in policies:
        strategies.setdefault(strategy_of(policy, loop, table), []).append(policy)
    race = Race(
        bench,
        loop,
        policies,
        groups=(field, chosen.tried),
        firsts=(folklore, *map(tuple, strategies.values())),
        kept=frozenset([Policy(), chosen.by_table, *more]),
    )

    def proof() -> Proof:
        return Proof(
            loop=loop,
            policies=policies,
            ticks=race.ticks,
            chooses=race.chooses,
            sweep=field,
            folklore=folklore,
            absent={name: reason for name, reason in absent.items() if reason},
        )

    race.run(lambda _: _known(proof(), chosen, params))
    return proof()


def _known(proof: Proof, chosen: Chosen, params: Params) -> bool:
    """Whether speed-up and regrets are known well enough."""
    policy, best = proof.advised(chosen.tried, params.least_gain), proof.best_of(proof.sweep)
    regret, speedup = proof.ratio(policy, best), proof.ratio(Policy(), policy)
    return regret.half_width <= params.width * regret.value and speedup.half_width <= 2 * params.width * speedup.value


def _sweep(advisor: Advisor, params: Params, pairs: bool) -> list[Policy]:
    """Single stages by distance, then, for a full sweep, all pairs of both."""
    families = list(advisor.families(params.sweep))
    stages = (1, 2) if pairs else (1,)
    return [policy for count in stages for family in families if family[0].stages == count for policy in family]


def _folklore(loop: Loop, table: Table, params: Params) -> list[Policy]:
    """Fixed distances of so many lines of each stream, straight to level 1."""
    hint = table.hints().get("l1", "t0")
    sequential = [stream.bytes_per_iteration for stream in loop.prefetched if stream.pattern == "sequential"]
    lines = max([1.0, *(each / LINE_BYTES for each in sequential)])
    return [Policy(l1_distance=max(1, round(wanted / lines)), l1_hint=hint) for wanted in params.folklore_lines]
