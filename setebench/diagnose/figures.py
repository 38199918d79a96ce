"""From counts by interval to figures, of each interval and of the whole run with its error, and to findings in the
names of docs/parameters.md.

Roles that did not fit at once were counted by turns, so a figure is made of the intervals that counted all of its
roles, and says which part of the time that was. Nothing is scaled up. What a role that this machine can't count would
say is unavailable; what could be counted but not be trusted, or had nothing to divide by, is unresolved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from setebench import store
from setebench.counters import metrics
from setebench.counters.counted import Interval
from setebench.counters.metrics import LEVEL_ROLES, PARTS, PARTS_ROLES, Measurement, Metric, Peak
from setebench.counters.verdicts import Verdicts
from setebench.diagnose.records import Timeline, summed, usable
from setebench.errors import UsageError
from setebench.results import Finding, Outcome

EVIDENCE = "diagnose"
"""The entry of a document's evidence that holds the timeline."""
METRICS = (
    *("l1_miss_latency", "load_miss_latency", "memory_read", "memory_write", "false_sharing"),
    "miss_parallelism",
)
"""Figures by definitions of `counters.metrics`. The last one is for advice only."""
UTILIZATION = "utilization."
FIGURES = (*PARTS, *(UTILIZATION + level for level in LEVEL_ROLES), *METRICS[:-1])
"""Figures that are findings."""
THRESHOLD = "diagnose.saturated.threshold"
PEAKS = {"peak": "one_core", "peak.all_cores": "all_cores"}
"""Which of a role's peaks a parameter `counter.ROLE.*` says."""
HELPER = 0.01
"""Part of the most loaded thread's time: who takes less only starts others, waits or prints."""
SYSTEM = {
    "cpu_time": ("task_clock", "s", "CPU time of all threads"),
    "page_faults": ("page_fault", "faults", "first touches and others"),
    "context_switches": ("context_switch", "switches", "times that threads were taken off their CPU"),
    "cpu_migrations": ("cpu_migration", "migrations", "times that threads went on on another CPU"),
}
"""What the kernel counts of any program: role, unit and meaning."""


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured on this machine to compare programs with: peak rates by role, and the load-miss latency in
    cycles above which memory is saturated. `reason`: why there is no such threshold."""

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
    """What a stretch of time says: its cycles by cause, and metrics by name; each made when it is used."""

    intervals: Sequence[Interval]
    basis: Basis

    @cached_property
    def parts(self) -> dict[str, float] | str:
        """Cycles by cause, or why they are not known."""
        return metrics.cycles_by_cause(self.measurement)

    def metric(self, name: str) -> Metric:
        """A part of the cycles, a metric of `METRICS`, or the utilization of a level."""
        if name in PARTS:
            known = Metric(unit="%", roles=("cycles", *PARTS_ROLES), method=metrics.PARTS_SOURCE)
            found = {"reason": self.parts} if isinstance(self.parts, str) else {"value": self.parts[name]}
            return msgspec.structs.replace(known, **found)
        if name in METRICS:
            return metrics.best(name, self.measurement)
        return metrics.utilization(name.removeprefix(UTILIZATION), self.measurement, self.basis.calibration.peaks)

    def value(self, name: str) -> float | None:
        """A figure's value; None where it could not be made."""
        return self.metric(name).value

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

    @property
    def saturated(self) -> bool | None:
        """Whether memory was saturated (Helm and Taura 2019, section 7); None where it can't be decided."""
        latency, limit = self.value("load_miss_latency"), self.basis.calibration.saturation_cycles
        return None if latency is None or limit is None else latency > limit


def counting(intervals: Sequence[Interval], roles: Sequence[str]) -> list[Interval]:
    """Those in which all of these roles were counted."""
    return [each for each in intervals if all(usable(each.counts.get(role)) for role in roles)]


# -- findings ---------------------------------------------------------------------------------------------------------


def findings(timeline: Timeline, basis: Basis) -> Iterator[Finding]:
    """Every finding about the run."""
    whole = Figures(timeline.intervals, basis)
    for name, (role, unit, meaning) in SYSTEM.items():
        count = summed([each.counts for each in timeline.intervals], (role,))[role]
        reason = "" if timeline.intervals else "the program ended before anything was counted"
        if reason := reason or count.reason or ("" if usable(count) else f"{role} was counted for a part of the time"):
            yield _without(name, unit, reason, timeline, (role,))
        else:
            value = count.value or 0
            yield _with(name, value / 1e9 if unit == "s" else value, unit, meaning)
    for name in FIGURES:
        yield _figure(name, whole, timeline)
    yield _missing("sampled_latency", "cycles", "not measured since 0.2")
    yield _saturated(whole, timeline)
    yield _imbalance(timeline)
    yield _probe_latency(timeline)


def _figure(name: str, whole: Figures, timeline: Timeline) -> Finding:
    """A figure with its error from interval to interval."""
    from setebench.stats.jackknife import jackknife  # scipy, which takes longer to load than most of the rest

    metric = whole.metric(name)
    estimate = jackknife(whole.intervals, lambda part: Figures(part, whole.basis).value(name))
    if estimate is None:
        return _without(name, metric.unit, metric.reason, timeline, metric.roles)
    interval = {} if estimate.degrees < 1 else {"low": estimate.low, "high": estimate.high}
    seconds, all_seconds = (
        sum(e.seconds for e in each) for each in (counting(whole.intervals, metric.roles), whole.intervals)
    )
    turns = f"; counted for {100 * seconds / all_seconds:.0f} % of the time, by turns with others"
    method = metric.method + (turns if seconds < 0.999 * all_seconds and name not in PARTS else "")
    return _with(name, estimate.value, metric.unit, method, **interval)


def _saturated(whole: Figures, timeline: Timeline) -> Finding:
    decided, calibration = whole.saturated, whole.basis.calibration
    if decided is None:
        latency = whole.metric("load_miss_latency")
        return _without("saturated", "", latency.reason or calibration.reason, timeline, latency.roles)
    limit = calibration.saturation_cycles
    return _with("saturated", decided, "", f"load-miss latency against {limit:.4g} cycles, calibrated on this machine")


def _imbalance(timeline: Timeline) -> Finding:
    """The most loaded thread over the mean of those that do more than help, by CPU time: at least so much, as the time
    that a thread waits in a loop is no useful work (Röhl et al. 2015, section 1.2)."""
    seconds = {thread.number: thread.cpu_seconds for thread in timeline.threads}
    seconds = {number: own for number, own in seconds.items() if own >= HELPER * max(seconds.values())}
    if len(seconds) < 2:
        return _missing("imbalance", "ratio", timeline.unsampled or "there are not two threads to compare")
    method = f"most loaded thread over the mean of {len(seconds)}, by CPU time of samples"
    value = max(seconds.values()) * len(seconds) / sum(seconds.values())
    return _with("imbalance", value, "ratio", method, outcome=Outcome.AT_LEAST)


def _probe_latency(timeline: Timeline) -> Finding:
    if not timeline.probed:
        return _missing("probe_latency", "ns", timeline.unprobed or "it is only measured with --probe-latency")
    mean = sum(latency for _, latency in timeline.probed) / len(timeline.probed)
    idle = "" if timeline.idle_ns is None else f", {timeline.idle_ns:.4g} ns without it"
    return _with("probe_latency", mean, "ns", f"chase of a probing thread beside the program{idle}")


def _with(name: str, value: float | bool, unit: str, method: str, **known: Any) -> Finding:
    return Finding(parameter=f"diagnose.{name}", value=value, unit=unit, method=method, evidence=EVIDENCE, **known)


def _without(name: str, unit: str, reason: str, timeline: Timeline, roles: Sequence[str]) -> Finding:
    """Of what needs these roles: unavailable where this machine lacks one, else unresolved."""
    lacking = any(timeline.roles.get(role, "not known here") for role in roles)
    return _missing(name, unit, reason, Outcome.UNAVAILABLE if lacking else Outcome.UNRESOLVED)


def _missing(name: str, unit: str, reason: str, outcome: Outcome = Outcome.UNAVAILABLE) -> Finding:
    return Finding(parameter=f"diagnose.{name}", unit=unit, outcome=outcome, reason=reason, evidence=EVIDENCE)
