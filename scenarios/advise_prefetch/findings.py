"""What is said of a loop: the advice as findings, and the proof's figures with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from setebench.loops import STRATEGIES, Policy
from setebench.loops.advice import Advice
from setebench.loops.advisor import strategy_of
from setebench.results import Finding
from setebench.stats.decide import absent, measured, unavailable
from setebench.stats.decide import chosen as one_of
from setebench.stats.estimate import Estimate

from .proof import BASELINES, Proof
from .trial import Chosen

METHOD = "distances and hints timed around those of two formulas; proven in interleaved rounds"
EVIDENCE = "advice"


def findings(name: str, advice: Advice, chosen: Chosen, proof: Proof) -> Iterator[Finding]:
    """The findings of one loop; `name` is the loop's in parameters."""
    prefix = f"advice.{name}"
    yield one_of(f"{prefix}.strategy", advice.strategy, "string", METHOD, EVIDENCE)
    unit = "lines" if advice.unit == "lines" else "iterations"
    policy = advice.policy
    stages = {stage: (distance, hint) for stage, distance, hint in policy.parts}
    for stage in ("l1", "l2"):
        if stage in stages:
            yield one_of(f"{prefix}.distance.{stage}", stages[stage][0], unit, METHOD, EVIDENCE)
            yield one_of(f"{prefix}.hint.{stage}", stages[stage][1], "string", METHOD, EVIDENCE)
        else:
            yield absent(f"{prefix}.distance.{stage}", 0, unit, METHOD)
    folklore = proof.best_of(proof.folklore)
    yield measured(f"{prefix}.speedup", proof.ratio(Policy(), policy), "ratio", METHOD, EVIDENCE)
    yield measured(f"{prefix}.speedup.folklore", proof.ratio(folklore, policy), "ratio", METHOD, EVIDENCE)
    yield from _baselines(prefix, policy, proof)
    yield measured(f"{prefix}.regret", _behind(proof, policy), "%", METHOD, EVIDENCE)
    yield measured(f"{prefix}.regret.table", _behind(proof, chosen.by_table), "%", METHOD, EVIDENCE)


def _baselines(prefix: str, policy: Policy, proof: Proof) -> Iterator[Finding]:
    """Speed-up over the loop with hardware prefetchers off, and over the compiler's own prefetches."""
    for name, baseline in BASELINES.items():
        parameter = f"{prefix}.speedup.{name}"
        if name in proof.absent:
            yield unavailable(parameter, "ratio", proof.absent[name], METHOD)
        else:
            yield measured(parameter, proof.ratio(baseline, policy), "ratio", METHOD, EVIDENCE)


def _behind(proof: Proof, policy: Policy) -> Estimate:
    """Per cent by which a policy is slower than the sweep's best, chosen and timed apart."""
    ratio = proof.ratio(policy, proof.best_of(proof.sweep))
    return Estimate(value=100 * (ratio.value - 1), error=100 * ratio.error, degrees=ratio.degrees)


# -- evidence ---------------------------------------------------------------------------------------------------------


def evidence(advice: Advice, chosen: Chosen, proof: Proof) -> dict[str, Any]:
    """What stands behind the findings of one loop, as plain values: the advice, curves over distances, strategies."""
    loop, table = chosen.advisor.loop, chosen.advisor.table
    return {
        "advice": advice,
        "loop": loop,
        "by_table": chosen.by_table,
        "best": proof.best_of(proof.sweep),
        "rounds": len(proof.ticks),
        "policies": [
            {
                "policy": policy,
                "strategy": strategy_of(policy, loop, table),
                "cycles": round(proof.cycles(policy), 3),
            }
            for policy in proof.policies
        ],
        "strategies": _strategies(chosen, proof),
        "absent": proof.absent,
    }


def _strategies(chosen: Chosen, proof: Proof) -> dict[str, dict[str, float]]:
    """Of each strategy the best policy's speed-up over no software prefetch, with its interval: the paper's Figure 10.
    Best are chosen and timed on different rounds."""
    own: dict[str, list[Policy]] = {}
    for policy in proof.policies:
        name = "compiler" if policy.compiler else strategy_of(policy, chosen.advisor.loop, chosen.advisor.table)
        own.setdefault(name, []).append(policy)
    order = [*STRATEGIES, "compiler"]
    ratios = {name: proof.ratio(Policy(), proof.best_of(own[name])) for name in order if name in own}
    return {name: {"value": each.value, "low": each.low, "high": each.high} for name, each in ratios.items()}
