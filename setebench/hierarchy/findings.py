"""From what was measured of the hierarchy to findings: values, intervals, and reasons where there is no value."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.hierarchy.faults import Fault
from setebench.hierarchy.params import PARAMS
from setebench.infer.ticks import Estimate
from setebench.results import Finding, Outcome
from setebench.stats import decide

Bounds = tuple[float | None, float | None]
UNBOUNDED: Bounds = (None, None)


def _missing(parameter: str, unit: str, reason: str, method: str, bounds: Bounds = UNBOUNDED) -> Finding:
    return Finding(
        parameter=parameter,
        unit=unit,
        low=bounds[0],
        high=bounds[1],
        outcome=Outcome.UNRESOLVED,
        reason=reason or "not found",
        method=method,
    )


def line_findings(line_bytes: int | None, levels: int) -> Iterator[Finding]:
    """Line size of every level: the unit in which lines come and go, which all levels share."""
    method = "loads near a line that was just flushed"
    for number in range(1, levels + 1):
        parameter = f"cache.l{number}.line_size"
        if line_bytes is None:
            yield _missing(parameter, "bytes", "hits and misses near a flushed line are not clear", method)
        else:
            yield Finding(parameter=parameter, value=line_bytes, unit="bytes", method=method)


def fault_finding(pages: str, fault: Fault) -> Finding:
    """Cost of a first touch."""
    parameter, method = f"page_fault.minor.{pages}", "first store to a page against a later one"
    if fault.cycles is None:
        return _missing(parameter, "cycles", fault.reason, method)
    if fault.cycles.half_width > PARAMS.steady * fault.cycles.value:
        reason = "first touches differ too much; run again at a quieter time"
        return _missing(parameter, "cycles", reason, method, (max(0.0, fault.cycles.low), fault.cycles.high))
    return decide.measured(parameter, fault.cycles, "cycles", f"{method}, {fault.counted} epochs", "page_faults")


def measured(parameter: str, estimate: Estimate, unit: str, method: str, evidence: str = "") -> Finding:
    """A finding of an estimate."""
    return Finding(
        parameter=parameter,
        value=round(estimate.value, 3),
        unit=unit,
        low=estimate.low,
        high=estimate.high,
        method=method,
        evidence=evidence,
    )


def no_sharing_finding(parameter: str) -> Finding:
    """A shared line that the reader can't be made to lose."""
    reason = "needs a third core that is further away, or the second cache's size and memory to outgrow it with"
    return _missing(parameter, "cycles", reason, "one dithered load behind a barrier")


def from_memory(value: float, cycles: dict[str, float]) -> bool:
    """Whether a read seems to come from memory, where a third cache should have answered; `cycles` by level."""
    return "l3" in cycles and cycles["memory"] / PARAMS.own < value < PARAMS.own * cycles["memory"]


def walked_finding(parameter: str, estimate: Estimate, cycles: dict[str, float]) -> Finding | None:
    """A read of a shared line that the reader lost by a walk, if it lost too little or too much; None if neither.

    `cycles` by level. A walk that was too short leaves the line in the reader's second cache. One that was too long, or
    whose caches the owner shares (two virtual CPUs on one core), pushes it out of the third as well."""
    method = "one dithered load behind a barrier"
    if estimate.value <= PARAMS.own * cycles["l2"]:
        reason = "the reader's own second cache still held the line after a walk; its capacity is larger than it seemed"
        return _missing(parameter, "cycles", reason, method)
    if from_memory(estimate.value, cycles):
        reason = "no cache held the line any more after the reader's walk, it seems: memory answers as late"
        return _missing(parameter, "cycles", reason, method)
    return None


def transfer_finding(parameter: str, estimate: Estimate, share: float, pasts: float) -> Finding:
    """Cycles of a read of another core's line, if they don't depend on the line's past: by `pasts` cycles, that is."""
    method, evidence = "one dithered load behind a barrier", "core_to_core"
    if share < PARAMS.least_group:
        return _missing(parameter, "cycles", "the line comes from several places", method)
    half = max(PARAMS.quiet_cycles, PARAMS.transfer_noise * estimate.value)
    if (estimate.high - estimate.low) / 2 > max(PARAMS.precise_cycles, PARAMS.precise * estimate.value):
        reason = "rounds differ too much; run again at a quieter time"
        return _missing(parameter, "cycles", reason, method, (estimate.low, estimate.high))
    if abs(pasts) > max(PARAMS.past_cycles, PARAMS.steady / 2 * estimate.value):
        reason = f"depends by {abs(pasts):.0f} cycles on how the line came to be shared"
        return _missing(parameter, "cycles", reason, method)
    return measured(parameter, estimate.widened(half, half), "cycles", method, evidence)
