"""From the model's favourites to one policy: a few are tried, the model is fitted to what they took, a few more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.errors import UnsupportedError
from setebench.loops import Loop, Policy, RunsLoops
from setebench.loops.advisor import Advisor, Candidate, strategy_of
from setebench.scenario import Context

from .params import Params
from .rounds import MEDIAN_VARIANCE, deviation


@dataclass(frozen=True)
class Bench:
    """What a loop is timed with: the question's context, the machine's loops, and the tunables."""

    context: Context
    loops: RunsLoops
    params: Params

    def rounds(self, loop: Loop, policies: int, between: tuple[int, int]) -> int:
        """Rounds of so many policies, between least and most, that there is time for."""
        return self.params.rounds_of(loop, policies, self.context.machine.facts.lines_per_second, between)

    def run(self, loop: Loop, policies: list[Policy], rounds: int, purpose: int) -> NDArray[np.int64]:
        """So many interleaved rounds of policies; ticks, shape (rounds, policies)."""
        seed = int(self.context.rng(purpose).integers(1 << 31))
        return self.loops.run_loop(loop.name, policies, rounds, cpu=self.context.cpu, seed=seed)

    def refused(self, loop: Loop, policy: Policy) -> str:
        """Why a machine can't run a policy; "" where it can."""
        try:
            self.loops.run_loop(loop.name, [policy], 1, cpu=self.context.cpu)
        except UnsupportedError as error:
            return str(error)
        return ""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What came of the trials: the policies that were tried, any of which may be advised in the end (what held entries
    during the trials may be gone by then), the one that the model alone would have advised, and the model as it ended,
    with what iterations took."""

    loop: Loop
    tried: tuple[Policy, ...]
    by_table: Policy
    advisor: Advisor

    def candidate(self, policy: Policy, cycles: float) -> Candidate:
        """A policy that took so many cycles per iteration."""
        return Candidate(strategy=strategy_of(policy, self.loop, self.advisor.table), policy=policy, cycles=cycles)


def choose(bench: Bench, advisor: Advisor) -> Chosen:
    """Try policies and choose those that may be advised; the proof decides between them, at another time."""
    loop, params = advisor.loop, bench.params
    by_table = advisor.choice().policy
    favourites = [each.policy for each in advisor.candidates()]
    wanted = list(dict.fromkeys([Policy(), by_table, *favourites, *advisor.spread()]))
    for trial in range(params.trials):
        bench.context.progress(f"{loop.name}: trial {trial + 1} of {params.trials}, {len(wanted)} policies")
        advisor.observe(_seen(bench, loop, wanted, trial))
        wanted = list(dict.fromkeys([*advisor.neighbours(), *advisor.further(params.tried)]))
        if not wanted:
            break
    return Chosen(loop=loop, tried=tuple(advisor.observed), by_table=by_table, advisor=advisor)


def _seen(bench: Bench, loop: Loop, policies: list[Policy], trial: int) -> list[tuple[Policy, float]]:
    """Cycles per iteration of each policy, on the scale of the loop without prefetches as it was described: policies
    are compared within their rounds, so that a clock that drifts between trials changes nothing."""
    asked = list(dict.fromkeys([Policy(), *policies]))
    least, most = bench.params.trial_rounds
    first = 100 + bench.params.trial_draws * trial
    rounds = bench.rounds(loop, len(asked), (least, most))
    ticks = bench.run(loop, asked, least, first)
    while len(ticks) < rounds and _error(ticks) > bench.params.trial_error:
        more = bench.run(loop, asked, min(least, rounds - len(ticks)), first + len(ticks))
        ticks = np.concatenate([ticks, more])
    relative = np.median(ticks / ticks[:, :1], axis=0)
    return [(policy, float(part) * loop.measured_cycles) for policy, part in zip(asked, relative, strict=True)]


def _error(ticks: NDArray[np.int64]) -> float:
    """Standard error of a policy's median time, in parts of it."""
    return float(deviation(np.log(ticks)) * np.sqrt(MEDIAN_VARIANCE / len(ticks)))
