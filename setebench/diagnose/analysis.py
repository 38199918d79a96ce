"""From counts by interval to figures: of each interval, and of the whole run with its error.

Roles that did not fit at once were counted by turns, so a figure is made of the intervals that counted all of its
roles, and says which part of the time that was. Nothing is scaled up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from setebench import store
from setebench.counters import decomposition
from setebench.counters.counted import Interval
from setebench.counters.decomposition import Decomposition, Undecided
from setebench.counters.metrics import (
    FALSE_SHARING,
    L1_MISS_LATENCY,
    LOAD_MISS_LATENCY,
    MEMORY_READ,
    MEMORY_WRITE,
    Measurement,
    Metric,
    best,
)
from setebench.counters.utilization import Peak, utilization
from setebench.counters.verdicts import Verdicts
from setebench.diagnose.records import summed, usable
from setebench.errors import UsageError

if TYPE_CHECKING:
    from setebench.stats.estimate import Estimate

METRICS = {
    "l1_miss_latency": L1_MISS_LATENCY,
    "load_miss_latency": LOAD_MISS_LATENCY,
    "memory_read": MEMORY_READ,
    "memory_write": MEMORY_WRITE,
    "false_sharing": FALSE_SHARING,
    "miss_parallelism": ("miss_parallelism",),
    "instructions_per_cycle": ("instructions_per_cycle",),
}
"""Figures and the definitions that may make them, the better one first."""

UTILIZATION = "utilization."
PARTS = ("productive", "other_stalls", "memory_latency", "memory_bandwidth", "store_buffer")
THRESHOLD = "diagnose.saturated.threshold"
PEAKS = {"peak": "one_core", "peak.all_cores": "all_cores"}
"""Which of a role's peaks a parameter `counter.ROLE.*` says."""


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured on this machine for programs to be held against: peak rates by role, and the load-miss latency
    in cycles above which memory is saturated. `reason`: why there is no such threshold."""

    peaks: dict[str, Peak] = msgspec.field(default_factory=dict)
    saturation_cycles: float | None = None
    reason: str = (
        "the threshold of saturation is not calibrated: run `setebench counter-curves -o FILE`, then diagnose with "
        "--calibration FILE"
    )


class Basis(msgspec.Struct, frozen=True, kw_only=True):
    """What figures are made by: verdicts on events (None: counts are taken as they are), calibration, line size."""

    verdicts: Verdicts | None = None
    calibration: Calibration = msgspec.field(default_factory=Calibration)
    line_bytes: int = 64


def measured_on(machine: str, results: Iterable[Path]) -> Calibration:
    """The calibration in these result files of `counters peaks` and `counter-curves`; of two that give one figure the
    later one counts. Raises `UsageError` for a file that can't be read or is of another machine."""
    peaks: dict[str, Peak] = {}
    threshold, reason = None, Calibration().reason
    for path in results:
        document = store.load(path)
        if document.machine.name != machine:
            raise UsageError(f"{str(path)!r} was measured on {document.machine.name}, not on {machine}")
        for finding in document.findings:
            value = float(finding.value) if isinstance(finding.value, (int, float)) else None
            scenario, role, kind = (*finding.parameter.split(".", 2), "", "")[:3]
            if finding.parameter == THRESHOLD:
                threshold, reason = value, finding.reason or reason
            elif scenario == "counter" and kind in PEAKS and value is not None:
                peaks[role] = msgspec.structs.replace(peaks.get(role, Peak()), **{PEAKS[kind]: value})
    return Calibration(peaks=peaks, saturation_cycles=threshold, reason=reason)


@dataclass(frozen=True)
class Figures:
    """What a stretch of time says: its cycles by cause, and metrics by name; each made when it is asked for."""

    intervals: Sequence[Interval]
    basis: Basis

    @cached_property
    def parts(self) -> Decomposition | Undecided:
        """Cycles by cause: from intervals that counted all that this needs, or else each role per cycle over the
        intervals that counted it beside the cycles."""
        at_once = decomposition.decompose(self.measurement(decomposition.ROLES_NEEDED))
        if isinstance(at_once, Decomposition) or len(self.intervals) < 2:
            return at_once
        fractions: dict[str, float] = {}
        for role in decomposition.ROLES_NEEDED:
            own = self.measurement(("cycles", role))
            objection = own.objection("cycles") or own.objection(role)
            if objection or not own.value("cycles"):
                return Undecided(reason=objection or "no cycle was counted")
            fractions[role] = own.value(role) / own.value("cycles")
        return decomposition.of_fractions(fractions)

    def metric(self, name: str) -> Metric:
        """A metric of `METRICS`, or the utilisation of a level."""
        if name in METRICS:
            return best(METRICS[name], self.measurement)
        return utilization(name.removeprefix(UTILIZATION), self.measurement, self.basis.calibration.peaks)

    def value(self, name: str) -> float | None:
        """A metric, or a part of the cycles; None where it could not be made."""
        if name in PARTS:
            found: float | None = getattr(self.parts, name, None)
            return found
        return self.metric(name).value

    def reason(self, name: str) -> str:
        """Why there is no such value; empty where there is."""
        return getattr(self.parts, "reason", "") if name in PARTS else self.metric(name).reason

    def measurement(self, roles: Sequence[str]) -> Measurement:
        """The intervals in which all of these roles were counted, as one; where there are none, all of them, whose
        counts then say why."""
        chosen = counting(self.intervals, roles) or self.intervals
        return Measurement(
            counts=summed([each.counts for each in chosen], roles),
            seconds=sum(each.seconds for each in chosen),
            line_bytes=self.basis.line_bytes,
            verdicts=self.basis.verdicts,
        )

    def estimated(self, name: str) -> Estimate | None:
        """A figure with its error from interval to interval; None where it can't be made."""
        from setebench.stats.jackknife import jackknife  # scipy, which takes longer to load than most of the rest

        return jackknife(self.intervals, lambda part: Figures(part, self.basis).value(name))

    @property
    def saturated(self) -> bool | None:
        """Whether memory was saturated (Helm and Taura 2019, section 7); None where it can't be decided."""
        latency, limit = self.value("load_miss_latency"), self.basis.calibration.saturation_cycles
        return None if latency is None or limit is None else latency > limit


def counting(intervals: Sequence[Interval], roles: Sequence[str]) -> list[Interval]:
    """Those in which all of these roles were counted."""
    return [each for each in intervals if all(usable(each.counts.get(role)) for role in roles)]


def covered(intervals: Sequence[Interval], roles: Sequence[str]) -> float:
    """The part of the time in which all of these roles were counted."""
    whole = sum(each.seconds for each in intervals)
    return sum(each.seconds for each in counting(intervals, roles)) / whole if whole > 0 else 0.0
