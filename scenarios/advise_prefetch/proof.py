"""Timing of prefetch policies (distance and hint per cache level): a sweep of them, and a proof that the fastest pays.

In each round every policy runs once. A third of the rounds chooses the policy to advise, a third the best of all, and a
third times both. If the same rounds did both, the chosen policy could just be the luckiest.
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
CHOOSES, HOLDS_AGAINST, TIMES, USES = 0, 1, 2, 3
"""Uses of rounds by turns: they choose what is advised, the best that it is held against, and time both."""


@dataclass(frozen=True, kw_only=True)
class Params:
    """Which prefetch policies are timed, and how often."""

    described_rounds: int = 5  # runs of a loop without prefetches, on data in L1 and on its own data: about 10 ms
    sweep: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # iterations; time changes little within a factor of 2
    rounds: int = 45  # rounds of all policies; a third each chooses, holds against, times: 15 bear some disturbed ones

    def faster(self) -> Params:
        """Return the settings of --fast: the fewest rounds whose intervals bear a disturbed one."""
        return replace(self, rounds=24)


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
            ticks = float(np.median(self.run(loop, [Policy()], self.params.described_rounds, 99)))
            cycles.append(ticks * cycles_per_tick(self.context) / loop.iterations)
        return msgspec.structs.replace(loop, cycles_per_iteration=cycles[0], measured_cycles=cycles[1])


@dataclass(frozen=True, kw_only=True)
class Proof:
    """Times of one loop that show whether advice on it helps: `ticks`, shape (rounds, policies). `sweep` has the policy
    of each column: the advisor's own and those at other distances."""

    loop: Loop
    sweep: tuple[Policy, ...]
    ticks: Rows

    def _times(self, policies: Sequence[Policy], use: int) -> Rows:
        """Return ticks of these policies, shape (rounds, policies), in the rounds that have this use."""
        return self.ticks[use::USES, [self.sweep.index(policy) for policy in policies]]

    def best_of_all(self, use: int) -> Policy:
        """Return the policy with the least median time relative to no prefetches. `use` says in which rounds: those
        that choose a policy, that it is held against, or that time it (`CHOOSES`, `HOLDS_AGAINST`, `TIMES`)."""
        relative = self._times(self.sweep, use) / self._times([Policy()], use)
        return self.sweep[int(np.argmin(np.median(relative, axis=0)))]

    def advised(self, least_gain: float) -> Policy:
        """Return the policy that was fastest in the rounds that choose one; that without prefetches if it saves less
        than `least_gain` (a fraction of time) or no more than rounds differ by."""
        best = self.best_of_all(CHOOSES)
        return best if self._logarithm(Policy(), best, CHOOSES).low > -np.log(1 - least_gain) else Policy()

    def ratio(self, numerator: Policy, denominator: Policy) -> Interval:
        """Return the median ratio of the times of two policies, `numerator` over `denominator`, in rounds that time."""
        return Interval(*np.exp(self._logarithm(numerator, denominator, TIMES)).tolist())

    def _logarithm(self, numerator: Policy, denominator: Policy, use: int) -> Interval:
        """Return the median logarithm of the ratio of two policies' times over rounds of one use."""
        return quantile_of_rounds(-np.diff(np.log(self._times([numerator, denominator], use)))[:, 0], MIDDLE)

    def cycles(self, policy: Policy) -> float:
        """Return the cycles per iteration with a policy: its median ratio to the loop without prefetches, over the
        rounds that time and don't choose, times the measured cycles of that loop."""
        rows = self._times([policy, Policy()], TIMES)
        return float(np.median(rows[:, 0] / rows[:, 1]) * self.loop.measured_cycles)


def prove(bench: Bench, advisor: Advisor) -> Proof:
    """Time the advisor's loop under its proposed policies and under a sweep of prefetch distances, in interleaved
    rounds, and return these times, which show how far the advice is from the best policy."""
    sweep = tuple(dict.fromkeys([*advisor.starts(), *advisor.swept(bench.params.sweep)]))
    bench.context.progress(f"{advisor.loop.name}: {len(sweep)} policies")
    return Proof(loop=advisor.loop, sweep=sweep, ticks=bench.run(advisor.loop, sweep, bench.params.rounds, 200))
