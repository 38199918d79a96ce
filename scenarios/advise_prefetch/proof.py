"""Policies timed: those that the formulas begin with and those around the fastest, then, of all that were tried, which
one is advised and how it stands against none and a sweep.

Rounds are interleaved: each runs every policy once. The best of a sweep is chosen on one half of the rounds and timed
on the other, and so is the advised policy. Chosen and timed on the same rounds either would be the luckiest of many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import stats

from setebench.experiments.calibrate import cycles_per_tick
from setebench.loops import Loop, Policy, RunsLoops
from setebench.loops.advice import Advisor
from setebench.loops.shapes import RESIDENT, shape
from setebench.scenario import Context
from setebench.stats.estimate import Estimate, over_epochs

Rows = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Params:
    """Tunables of trying and proving prefetch advice."""

    trials: int = 4  # times that policies around the fastest are timed: each step halves or doubles a distance
    best: int = 2  # of the fastest, around which the next trial goes on: one may have been lucky
    described_rounds: int = 9  # of a loop without prefetches, on data in level 1 and on its own: some 10 ms
    trial_rounds: int = 5  # passes of a policy in a trial: they bear two that were disturbed
    spread: tuple[int, ...] = (4, 32)  # iterations; tried of every single stage: wherever the formulas may be wrong
    sweep: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # iterations; times change little within a factor of 2
    rounds: int = 32  # of the proof; half choose, half time: 6 give an interval, 16 half of it
    least_gain: float = 0.02  # part of the time that prefetches must gain in rounds that choose, else none is advised
    farthest: float = 3.5  # scaled MADs beyond which a round was disturbed (Iglewicz and Hoaglin 1993)

    def faster(self) -> Params:
        """For --fast."""
        return replace(self, trials=3, trial_rounds=3, rounds=12)


@dataclass(frozen=True)
class Bench:
    """What a loop is timed with: the question's context, the machine's loops, and the tunables."""

    context: Context
    loops: RunsLoops
    params: Params

    def run(self, loop: Loop, policies: Sequence[Policy], rounds: int, purpose: int) -> Rows:
        """So many interleaved rounds of policies; ticks, shape (rounds, policies)."""
        seed = int(self.context.rng(purpose).integers(1 << 31))
        return self.loops.run_loop(loop.name, policies, rounds, cpu=self.context.cpu, seed=seed).astype(float)

    def described(self, name: str) -> Loop:
        """The loop of that name, with the cycles of an iteration on data in level 1, and on its own data now.

        Raises `UsageError` for a name that there isn't."""
        cycles = []
        for loop in (shape(f"{name.partition('@')[0]}@{RESIDENT}"), shape(name)):
            ticks = float(np.median(self.run(loop, [Policy()], self.params.described_rounds, 99)))
            cycles.append(ticks * cycles_per_tick(self.context) / loop.iterations)
        return msgspec.structs.replace(loop, cycles_per_iteration=cycles[0], measured_cycles=cycles[1])


def tried(bench: Bench, advisor: Advisor) -> tuple[Policy, ...]:
    """Time policies at the distances of the formulas and far from them, then around the fastest, step by step; all that
    were timed. Policies are compared within their rounds, so that a clock that drifts between trials matters not."""
    params = bench.params
    wanted = [*advisor.starts(), *advisor.singles(params.spread)]
    times: dict[Policy, float] = {Policy(): 1.0}
    for trial in range(params.trials):
        new = [policy for policy in dict.fromkeys(wanted) if policy not in times]
        if not new:
            break
        bench.context.progress(f"{advisor.loop.name}: trial {trial + 1} of {params.trials}, {len(new)} policies")
        ticks = bench.run(advisor.loop, [Policy(), *new], params.trial_rounds, 100 + trial)
        times |= dict(zip(new, np.median(ticks[:, 1:] / ticks[:, :1], axis=0).tolist(), strict=True))
        fastest = sorted(times, key=lambda policy: times[policy])[: params.best]
        wanted = [near for policy in fastest for near in advisor.around(policy)]
    return tuple(times)


@dataclass(frozen=True, kw_only=True)
class Proof:
    """All rounds of one loop: `ticks`, shape (rounds, policies). Rounds 0, 2, … choose the policy to be advised among
    those `tried`; rounds 1, 3, … time it against the policies of the `sweep`, which are all."""

    loop: Loop
    sweep: tuple[Policy, ...]
    ticks: Rows
    tried: tuple[Policy, ...]

    def _times(self, policies: Sequence[Policy], chooses: bool) -> Rows:
        """Ticks of these policies in the rounds that choose, or in those that time; shape (rounds, policies)."""
        return self.ticks[0 if chooses else 1 :: 2, [self.sweep.index(policy) for policy in policies]]

    def best_of(self, policies: Sequence[Policy]) -> Policy:
        """The policy with the least median time, over that without prefetches, in the rounds that choose."""
        relative = self._times(policies, True) / self._times([Policy()], True)
        return policies[int(np.argmin(np.median(relative, axis=0)))]

    def advised(self, least_gain: float) -> Policy:
        """The fastest of what was tried in the rounds that choose; none where that gains nothing to speak of, or no
        more than rounds differ by: the best of many seems to gain something where none does."""
        best = self.best_of(self.tried)
        gain = self._logarithm(Policy(), best, True)
        return best if gain.low > -np.log(1 - least_gain) else Policy()

    def ratio(self, numerator: Policy, denominator: Policy) -> Estimate:
        """Estimate the time with one policy over the time with another: the geometric mean of the ratios within rounds.
        Rounds that chose a policy don't count, nor do disturbed ones."""
        if numerator == denominator:
            return Estimate(value=1.0)
        mean = self._logarithm(numerator, denominator, False)
        value = float(np.exp(mean.value))
        return Estimate(value=value, error=value * mean.error, degrees=mean.degrees)

    def _logarithm(self, numerator: Policy, denominator: Policy, chooses: bool) -> Estimate:
        """The mean logarithm of such a ratio over rounds, without disturbed ones."""
        logs = -np.diff(np.log(self._times([numerator, denominator], chooses)))[:, 0]
        most = Params().farthest * float(stats.median_abs_deviation(logs, scale="normal"))
        return over_epochs(logs[np.abs(logs - np.median(logs)) <= most])

    def cycles(self, policy: Policy) -> float:
        """Median cycles per iteration in the rounds that time, on the scale of the loop's description."""
        rows = self._times([policy, Policy()], False)
        return float(np.median(rows[:, 0] / rows[:, 1]) * self.loop.measured_cycles)


def prove(bench: Bench, advisor: Advisor) -> Proof:
    """Try policies, then run all of them and a sweep over distances in interleaved rounds."""
    params, found = bench.params, tried(bench, advisor)
    sweep = tuple(dict.fromkeys([Policy(), *advisor.singles(params.sweep), *found]))
    bench.context.progress(f"{advisor.loop.name}: proof with {len(sweep)} policies")
    ticks = bench.run(advisor.loop, sweep, params.rounds, 200)
    return Proof(loop=advisor.loop, sweep=sweep, ticks=ticks, tried=found)
