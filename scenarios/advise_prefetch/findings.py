"""What is reported of a loop: the advice as findings, and the proof's figures with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from setebench.loops import STRATEGIES, Policy
from setebench.loops.advice import Advice, Advisor
from setebench.results import Finding
from setebench.stats.decide import absent, measured, unavailable
from setebench.stats.decide import chosen as one_of
from setebench.stats.estimate import Estimate

from .proof import BASELINES, Proof

METHOD = "distances and hints timed around those of two formulas; proven in interleaved rounds"
EVIDENCE = "advice"


def findings(name: str, advice: Advice, by_table: Policy, proof: Proof) -> Iterator[Finding]:
    """The findings of one loop; `name` is the loop's in parameters."""
    prefix, policy = f"advice.{name}", advice.policy
    yield one_of(f"{prefix}.strategy", advice.strategy, "string", METHOD, EVIDENCE)
    unit = "lines" if advice.unit == "lines" else "iterations"
    stages = {stage: (distance, hint) for stage, distance, hint in policy.parts}
    for stage in ("l1", "l2"):
        if stage in stages:
            yield one_of(f"{prefix}.distance.{stage}", stages[stage][0], unit, METHOD, EVIDENCE)
            yield one_of(f"{prefix}.hint.{stage}", stages[stage][1], "string", METHOD, EVIDENCE)
        else:
            yield absent(f"{prefix}.distance.{stage}", 0, unit, METHOD)
    bases = {"speedup": Policy(), "speedup.folklore": proof.best_of(proof.folklore)}
    bases |= {f"speedup.{kind}": baseline for kind, baseline in BASELINES.items()}
    for parameter, baseline in bases.items():
        reason = proof.absent.get(parameter.removeprefix("speedup."))
        if reason:
            yield unavailable(f"{prefix}.{parameter}", "ratio", reason, METHOD)
        else:
            yield measured(f"{prefix}.{parameter}", proof.ratio(baseline, policy), "ratio", METHOD, EVIDENCE)
    yield measured(f"{prefix}.regret", _behind(proof, policy), "%", METHOD, EVIDENCE)
    yield measured(f"{prefix}.regret.table", _behind(proof, by_table), "%", METHOD, EVIDENCE)


def _behind(proof: Proof, policy: Policy) -> Estimate:
    """Per cent by which a policy is slower than the sweep's best, which other rounds chose."""
    ratio = proof.ratio(policy, proof.best_of(proof.sweep))
    return Estimate(value=100 * (ratio.value - 1), error=100 * ratio.error, degrees=ratio.degrees)


def evidence(advice: Advice, by_table: Policy, proof: Proof, advisor: Advisor) -> dict[str, Any]:
    """What stands behind the findings of one loop, as plain values: the advice, curves over distances, and of each
    strategy the best policy's speed-up over no software prefetch, with its interval (the paper's Figure 10)."""
    named = {policy: "compiler" if policy.compiler else advisor.strategy(policy) for policy in proof.policies}
    ratios = {
        name: proof.ratio(Policy(), proof.best_of([policy for policy in named if named[policy] == name]))
        for name in (*STRATEGIES, "compiler")
        if name in named.values()
    }
    return {
        "advice": advice,
        "loop": proof.loop,
        "by_table": by_table,
        "best": proof.best_of(proof.sweep),
        "rounds": len(proof.ticks),
        "policies": [
            {"policy": policy, "strategy": advisor.strategy(policy), "cycles": round(proof.cycles(policy), 3)}
            for policy in proof.policies
        ],
        "strategies": {
            name: {"value": each.value, "low": each.low, "high": each.high} for name, each in ratios.items()
        },
        "absent": proof.absent,
    }
