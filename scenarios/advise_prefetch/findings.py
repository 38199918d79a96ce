"""What is reported of a loop: the advice as findings, and the proof's figures with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from setebench.loops import Policy
from setebench.loops.advice import Advice
from setebench.results import Finding
from setebench.stats.decide import absent, measured, unavailable
from setebench.stats.decide import chosen as one_of
from setebench.stats.estimate import Estimate

from .proof import Proof

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
    yield measured(f"{prefix}.speedup", proof.ratio(Policy(), policy), "ratio", METHOD, EVIDENCE)
    for kind in ("folklore", "prefetchers_off", "compiler"):
        yield unavailable(f"{prefix}.speedup.{kind}", "ratio", "not measured since 0.2", METHOD)
    for kind, other in (("regret", policy), ("regret.table", by_table)):
        ratio = proof.ratio(other, proof.best_of(proof.sweep))  # per cent behind the best, which other rounds chose
        behind = Estimate(value=100 * (ratio.value - 1), error=100 * ratio.error, degrees=ratio.degrees)
        yield measured(f"{prefix}.{kind}", behind, "%", METHOD, EVIDENCE)


def evidence(advice: Advice, by_table: Policy, proof: Proof) -> dict[str, Any]:
    """What stands behind the findings of one loop, as plain values: the advice, and curves over distances."""
    return {
        "advice": advice,
        "loop": proof.loop,
        "by_table": by_table,
        "best": proof.best_of(proof.sweep),
        "rounds": len(proof.ticks),
        "policies": [{"policy": policy, "cycles": round(proof.cycles(policy), 3)} for policy in proof.sweep],
    }
