"""Timing of prefetch policies (distance and hint per cache level): a search for the fastest, and a proof that it pays.

In each round every policy runs once. The even rounds choose the policy to advise, and the best of a sweep over
distances; the odd rounds time both. If the same rounds did both, the chosen policy could just be the luckiest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.experiments.calibrate import cycles_per_tick
from setebench.loops import Loop, Policy, RunsLoops
from setebench.loops.advice import Advisor
from setebench.loops.shapes import RESIDENT, shape
from setebench.scenario import Context
from setebench.stats.estimate import Interval
from setebench.stats.rounds import MIDDLE, quantile_of_rounds

Rows = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Params:
    """How many prefetch policies are tried, how often they are timed, and which gain counts."""

    trials: int = 4  # times that policies around the fastest ones are timed: each trial halves or doubles a distance
    best: int = 2  # fastest policies, around which the next trial goes on: one may have been lucky
    trial_rounds: int = 5  # runs of a policy in a trial, and of the loop without: their median bears two disturbed ones
    spread: tuple[int, ...] = (4, 32)  # iterations; tried for every single stage, as the formulas may be wrong
    sweep: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # iterations; time changes little within a factor of 2
    rounds: int = 32  # rounds of the proof; half choose, half time: 6 give an interval, 16 one half as wide

    def faster(self) -> Params:
        """Return the settings of --fast: fewer trials and rounds."""
        return replace(self, trials=3, trial_rounds=3, rounds=12)


@dataclass(frozen=True)
class Bench:
    """What is needed to time a loop: the scenario's context, the machine's loop runner, and the settings."""

    context: Context
    loops: RunsLoops
    params: Params

    def run(self, loop: Loop, policies: Sequence[Policy], rounds: int, purpose: int) -> Rows:
        """Run policies in interleaved rounds; return ticks, shape (rounds, policies). `purpose` seeds the order."""
        seed = int(self.context.rng(purpose).integers(1 << 31))
        return self.loops.run_loop(loop.name, policies, rounds, cpu=self.context.cpu, seed=seed).astype(float)

    def described(self, name: str) -> Loop:
        """Return the loop of that name with its cycles per iteration, measured on data in L1 and on its own data.

        Raises `UsageError` where there is no loop of that name."""
        cycles = []
        for loop in (shape(f"{name.partition('@')[0]}@{RESIDENT}"), shape(name)):
            ticks = float(np.median(self.run(loop, [Policy()], self.params.trial_rounds, 99)))
            cycles.append(ticks * cycles_per_tick(self.context) / loop.iterations)
        return msgspec.structs.replace(loop, cycles_per_iteration=cycles[0], measured_cycles=cycles[1])


def tried(bench: Bench, advisor: Advisor) -> tuple[Policy, ...]:
    """Search for the fastest prefetch policies, and return all that were timed: first those at the advisor's distances
    and far from them, then neighbours of the fastest. As times are compared within rounds, the clock may drift."""
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
    """All rounds of one loop: `ticks`, shape (rounds, policies), of the policies in `sweep`. Rounds 0, 2, … choose the
    policy to advise among those `tried` in the search; rounds 1, 3, … time it against the whole sweep."""

    loop: Loop
    sweep: tuple[Policy, ...]
    ticks: Rows
    tried: tuple[Policy, ...]

    def _times(self, policies: Sequence[Policy], chooses: bool) -> Rows:
        """Return ticks of these policies, shape (rounds, policies), in the rounds that choose or in those that time."""
        return self.ticks[0 if chooses else 1 :: 2, [self.sweep.index(policy) for policy in policies]]

    def best_of(self, policies: Sequence[Policy]) -> Policy:
        """Return the policy with the least median time, relative to no prefetches, in the rounds that choose."""
        relative = self._times(policies, True) / self._times([Policy()], True)
        return policies[int(np.argmin(np.median(relative, axis=0)))]

    def advised(self, least_gain: float) -> Policy:
        """Return the policy that was fastest in the half of the rounds that choose one; that without prefetches if it
        saves less than `least_gain` (a fraction of time) or no more than rounds differ by."""
        best = self.best_of(self.tried)
        return best if self._logarithm(Policy(), best, True).low > -np.log(1 - least_gain) else Policy()

    def ratio(self, numerator: Policy, denominator: Policy) -> Interval:
        """Return the median ratio of two policies' times over the rounds that time."""
        return Interval(*np.exp(self._logarithm(numerator, denominator, False)).tolist())

    def _logarithm(self, numerator: Policy, denominator: Policy, chooses: bool) -> Interval:
        """Return the median logarithm of the ratio of two policies' times over rounds of one kind."""
        return quantile_of_rounds(-np.diff(np.log(self._times([numerator, denominator], chooses)))[:, 0], MIDDLE)

    def cycles(self, policy: Policy) -> float:
        """Return the cycles per iteration with a policy: its median ratio to the loop without prefetches, over the
        rounds that time and don't choose, times the measured cycles of that loop."""
        rows = self._times([policy, Policy()], False)
        return float(np.median(rows[:, 0] / rows[:, 1]) * self.loop.measured_cycles)


def prove(bench: Bench, advisor: Advisor) -> Proof:
    """Return a loop's proof: search for fast policies, then run them and a sweep of distances in interleaved rounds."""
    params, found = bench.params, tried(bench, advisor)
    sweep = tuple(dict.fromkeys([Policy(), *advisor.singles(params.sweep), *found]))
    bench.context.progress(f"{advisor.loop.name}: proof with {len(sweep)} policies")
    ticks = bench.run(advisor.loop, sweep, params.rounds, 200)
    return Proof(loop=advisor.loop, sweep=sweep, ticks=ticks, tried=found)
