"""From what was measured of other cores' lines to findings: values, intervals, and reasons where there is no value."""

from __future__ import annotations

from typing import NamedTuple

from setebench.results import Finding, Outcome
from setebench.stats.estimate import Interval

from .params import PARAMS

Bounds = tuple[float | None, float | None]
UNBOUNDED: Bounds = (None, None)


class Read(NamedTuple):
    """Cycles of a read as rounds show them, the share of reads in their largest group, and how far the mean of a longer
    time may lie from this (`drift`), as other cores' lines come by what others use too."""

    cycles: Interval
    share: float
    drift: float = 0.0


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


def measured(parameter: str, estimate: Interval, unit: str, method: str, evidence: str = "") -> Finding:
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


def walked_finding(parameter: str, estimate: Interval, cycles: dict[str, float]) -> Finding | None:
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


def transfer_finding(parameter: str, read: Read, pasts: float) -> Finding:
    """Cycles of a read of another core's line, if they don't depend on the line's past: by `pasts` cycles, that is."""
    method, evidence, cycles = "one dithered load behind a barrier", "core_to_core", read.cycles
    if read.share < PARAMS.least_group:
        return _missing(parameter, "cycles", "the line comes from several places", method)
    drifting = read.drift > max(PARAMS.steady * cycles.value, PARAMS.precise_cycles)
    if drifting or not cycles.narrow(PARAMS.precise, PARAMS.precise_cycles):
        reason = "rounds differ too much; run again at a quieter time"
        return _missing(parameter, "cycles", reason, method, (cycles.low, cycles.high))
    if abs(pasts) > max(PARAMS.past_cycles, PARAMS.steady / 2 * cycles.value):
        reason = f"depends by {abs(pasts):.0f} cycles on how the line came to be shared"
        return _missing(parameter, "cycles", reason, method)
    half = max(PARAMS.quiet_cycles, read.drift)
    estimate = Interval(cycles.value, cycles.value - half, cycles.value + half)
    return measured(parameter, estimate, "cycles", method, evidence)
