"""Verdicts as findings, and back from a document to what is kept."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.counters.verdicts import Kind, Verdict
from setebench.results import Finding, Outcome
from setebench.stats import decide

METHOD = "counts of workloads of known volume, over epochs"


def of_verdict(verdict: Verdict) -> Iterator[Finding]:
    """What is reported of one event."""
    name = f"counter.{verdict.role}"
    if Kind.UNAVAILABLE in verdict.kinds:
        # the verdict itself is known, so it is a value; that there is no count is its content
        yield decide.chosen(f"{name}.verdict", [Kind.UNAVAILABLE.value], "list", verdict.reason)
        return
    if not verdict.kinds:
        yield decide.unresolved(f"{name}.verdict", "list", verdict.reason, METHOD)
        return
    kinds = [kind.value for kind in verdict.kinds]
    yield decide.chosen(f"{name}.verdict", kinds, "list", verdict.reason or METHOD, "counts")
    if verdict.scale is not None:
        yield Finding(
            parameter=f"{name}.scale",
            value=verdict.scale,
            unit="ratio",
            low=verdict.scale_low,
            high=verdict.scale_high,
            outcome=Outcome.MEASURED,
            method=METHOD,
        )
    if verdict.level:
        yield decide.chosen(f"{name}.level", verdict.level, "string", METHOD)
    if verdict.includes_prefetch is not None:
        yield decide.chosen(f"{name}.includes_prefetch", verdict.includes_prefetch, "bool", METHOD)
