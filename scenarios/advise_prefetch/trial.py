"""From the distances of the formulas to some policies that may be the fastest: they are timed, then those around."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.errors import UnsupportedError
from setebench.loops import Loop, Policy, RunsLoops
from setebench.loops.advisor import Advisor
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
    during the trials may be gone by then), and the one that the formulas alone would have advised."""

    tried: tuple[Policy, ...]
    by_table: Policy
    advisor: Advisor


def choose(bench: Bench, advisor: Advisor) -> Chosen:
    """Time policies at the distances of the formulas and far from them, then around the fastest, step by step. The
    proof decides between them, at another time."""
    loop, params = advisor.loop, bench.params
    by_table = advisor.choice().policy
    wanted = [Policy(), *(each.policy for each in advisor.candidates()), *advisor.spread()]
    seen: dict[Policy, float] = {}
    for trial in range(params.trials):
        wanted = [policy for policy in dict.fromkeys(wanted) if policy not in seen]
        if not wanted:
            break
        bench.context.progress(f"{loop.name}: trial {trial + 1} of {params.trials}, {len(wanted)} policies")
        seen |= _seen(bench, loop, wanted, trial)
        fastest = sorted(seen, key=lambda policy: seen[policy])[: params.kept]
        wanted = [near for policy in fastest for near in advisor.around(policy)]
    return Chosen(tried=tuple(seen), by_table=by_table, advisor=advisor)


def _seen(bench: Bench, loop: Loop, policies: list[Policy], trial: int) -> dict[Policy, float]:
    """Time of each policy over that without prefetches: policies are compared within their rounds, so that a clock that
    drifts between trials changes nothing."""
    timed = list(dict.fromkeys([Policy(), *policies]))
    least, most = bench.params.trial_rounds
    first = 100 + bench.params.trial_draws * trial
    rounds = bench.rounds(loop, len(timed), (least, most))
    ticks = bench.run(loop, timed, least, first)
    while len(ticks) < rounds and _error(ticks) > bench.params.trial_error:
        more = bench.run(loop, timed, min(least, rounds - len(ticks)), first + len(ticks))
        ticks = np.concatenate([ticks, more])
    relative = np.median(ticks / ticks[:, :1], axis=0)
    return dict(zip(timed, relative.tolist(), strict=True))


def _error(ticks: NDArray[np.int64]) -> float:
    """Standard error of a policy's median time, in parts of it."""
    return float(deviation(np.log(ticks)) * np.sqrt(MEDIAN_VARIANCE / len(ticks)))
