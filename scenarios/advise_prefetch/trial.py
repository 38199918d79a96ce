"""From the model's favourites to one policy: a few are tried, the model is fitted to what they took, a few more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.errors import UnsupportedError
from setebench.loops import Loop, Policy, RunsLoops
from setebench.loops.advisor import Advisor, Candidate, family_of, strategy_of
from setebench.scenario import Context

from .params import Params


@dataclass(frozen=True)
class Bench:
    """What a loop is timed with: the question's context, the machine's loops, and the tunables."""

    context: Context
    loops: RunsLoops
    params: Params

    def ticks(self, loop: Loop, policies: list[Policy], between: tuple[int, int], purpose: int) -> NDArray[np.int64]:
        """Interleaved rounds of policies, as many between least and most there is time for."""
        pace = self.context.machine.facts.lines_per_second
        rounds = self.params.rounds_of(loop, len(policies), pace, between)
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
    """What came of the trials: the policies that may be advised, the one that the model alone would have advised, and
    the model as it ended, with what iterations took."""

    loop: Loop
    finalists: tuple[Policy, ...]
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
    finalists = tuple(dict.fromkeys([*_finalists(advisor, params), by_table]))
    return Chosen(loop=loop, finalists=finalists, by_table=by_table, advisor=advisor)


def _seen(bench: Bench, loop: Loop, policies: list[Policy], trial: int) -> list[tuple[Policy, float]]:
    """Cycles per iteration of each policy, on the scale of the loop without prefetches as it was described: policies
    are compared within their rounds, so that a clock that drifts between trials changes nothing."""
    asked = list(dict.fromkeys([Policy(), *policies]))
    ticks = bench.ticks(loop, asked, bench.params.trial_rounds, 100 + trial)
    relative = np.median(ticks / ticks[:, :1], axis=0)
    return [(policy, float(part) * loop.measured_cycles) for policy, part in zip(asked, relative, strict=True)]


def _finalists(advisor: Advisor, params: Params) -> tuple[Policy, ...]:
    """The fastest of what was tried, the fastest of each strategy and hint, and no prefetching: what a hint does may
    change from one minute to the next, so that all of the fastest can turn out slow."""
    ranked = sorted(advisor.observed, key=lambda policy: advisor.observed[policy])
    first = {family_of(policy): policy for policy in reversed(ranked)}
    return tuple(dict.fromkeys([*ranked[: params.finalists], *first.values(), Policy()]))
