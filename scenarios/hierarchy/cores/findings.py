"""From what was measured of other cores' lines to findings: values, intervals, and reasons where there is no value."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from setebench.results import Finding
from setebench.stats import decide
from setebench.stats.estimate import Interval

from .params import PARAMS

METHOD = "one dithered load behind a barrier"


class Read(NamedTuple):
    """Cycles of a read as rounds show them, the share of reads in their largest group, and how far the mean of a longer
    time may lie from this (`drift`), as other cores' lines come by what others use too."""

    cycles: Interval
    share: float
    drift: float = 0.0


def no_sharing_finding(parameter: str) -> Finding:
    """A shared line that the reader can't be made to lose."""
    reason = "needs a third core that is further away, or the second cache's size and memory to outgrow it with"
    return decide.unresolved(parameter, "cycles", reason, METHOD)


def from_memory(value: float, cycles: dict[str, float]) -> bool:
    """Whether a read seems to come from memory, where a third cache should have answered; `cycles` by level."""
    return "l3" in cycles and cycles["memory"] / PARAMS.own < value < PARAMS.own * cycles["memory"]


def walked_finding(parameter: str, estimate: Interval, cycles: dict[str, float]) -> Finding | None:
    """A read of a shared line that the reader lost by a walk, if it lost too little or too much; None if neither.

    `cycles` by level. A walk that was too short leaves the line in the reader's second cache. One that was too long, or
    whose caches the owner shares (two virtual CPUs on one core), pushes it out of the third as well."""
    if estimate.value <= PARAMS.own * cycles["l2"]:
        reason = "the reader's own second cache still held the line after a walk; its capacity is larger than it seemed"
        return decide.unresolved(parameter, "cycles", reason, METHOD)
    if from_memory(estimate.value, cycles):
        reason = "no cache held the line any more after the reader's walk, it seems: memory answers as late"
        return decide.unresolved(parameter, "cycles", reason, METHOD)
    return None


def transfer_finding(parameter: str, read: Read, pasts: float) -> Finding:
    """Cycles of a read of another core's line, if they don't depend on the line's past: by `pasts` cycles, that is."""
    cycles = read.cycles
    if read.share < PARAMS.least_group:
        return decide.unresolved(parameter, "cycles", "the line comes from several places", METHOD)
    drifting = read.drift > max(PARAMS.steady * cycles.value, PARAMS.precise_cycles)
    if drifting or not cycles.narrow(PARAMS.precise, PARAMS.precise_cycles):
        reason = "rounds differ too much; run again at a quieter time"
        found = decide.unresolved(parameter, "cycles", reason, METHOD)
        return msgspec.structs.replace(found, low=cycles.low, high=cycles.high)
    if abs(pasts) > max(PARAMS.past_cycles, PARAMS.steady / 2 * cycles.value):
        reason = f"depends by {abs(pasts):.0f} cycles on how the line came to be shared"
        return decide.unresolved(parameter, "cycles", reason, METHOD)
    half = max(PARAMS.quiet_cycles, read.drift)
    estimate = Interval(cycles.value, cycles.value - half, cycles.value + half)
    return decide.measured(parameter, estimate, "cycles", METHOD, "core_to_core")
