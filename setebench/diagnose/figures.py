"""From counts by interval to figures, of each interval and of the whole run with its error, and to findings in the
names of docs/parameters.md.

Roles that did not fit at once were counted by turns, so a figure is made of the intervals that counted all of its
roles, and says which part of the time that was. Nothing is scaled up. What a role that this machine can't count would
say is unavailable; what could be counted but not be trusted, or had nothing to divide by, is unresolved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from setebench import store
from setebench.counters import metrics
from setebench.counters.counted import Interval
from setebench.counters.metrics import PARTS, Measurement, Metric
from setebench.diagnose.records import Timeline, summed
from setebench.errors import UsageError
from setebench.results import Finding, Outcome

EVIDENCE = "diagnose"
"""The entry of a document's evidence that holds the timeline."""
METRICS = ("l1_miss_latency", "load_miss_latency", "memory_read", "memory_write", "false_sharing")
"""Figures by definitions of `counters.metrics`."""
FIGURES = (*PARTS, *METRICS)
"""Figures that are findings."""
THRESHOLD = "diagnose.saturated.threshold"
UNCALIBRATED = (
    "the threshold of saturation is not known: run `setebench counter-curves -o FILE`, then diagnose with "
    "--calibration FILE"
)
NOT_SINCE = ("sampled_latency", *(f"utilization.{level}" for level in ("l1", "l2", "l3", "memory")))
"""Names that are not measured since 0.2."""
HELPER = 0.01
"""Part of the most loaded thread's time: who takes less only starts others, waits or prints."""
SYSTEM = {
    "cpu_time": ("task_clock", "s", "CPU time of all threads"),
    "page_faults": ("page_fault", "faults", "first touches and others"),
    "context_switches": ("context_switch", "switches", "times that threads were taken off their CPU"),
    "cpu_migrations": ("cpu_migration", "migrations", "times that threads went on on another CPU"),
}
"""What the kernel counts of any program: role, unit and meaning."""


class Basis(msgspec.Struct, frozen=True, kw_only=True):
    """What figures are made by: verdicts on events (None: counts are taken as they are), the load-miss latency in
    cycles above which this machine's memory is saturated (None: not measured), and the line size."""

    verdicts: Mapping[str, Finding] | None = None
    saturation_cycles: float | None = None
    line_bytes: int = 64


def measured_on(machine: str, result: Path | None) -> float | None:
    """The threshold of saturation in this result of `counter-curves`; None where it has none, or where there is none.

    Raises `UsageError` for a file that can't be read or is of another machine."""
    if result is None:
        return None
    document = store.load(result)
    if document.machine.name != machine:
        raise UsageError(f"{str(result)!r} was measured on {document.machine.name}, not on {machine}")
    return document[THRESHOLD].number if THRESHOLD in document else None


@dataclass(frozen=True)
class Figures:
    """What a stretch of time says: its cycles by cause, and metrics by name; each made when it is used."""

    intervals: Sequence[Interval]
    basis: Basis

    @cached_property
    def parts(self) -> dict[str, Metric]:
        """Cycles by cause."""
        return metrics.cycles_by_cause(self.measurement)

    def metric(self, name: str) -> Metric:
        """A part of the cycles, or a metric of `METRICS`."""
        return self.parts[name] if name in PARTS else metrics.best(name, self.measurement)

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
        latency, limit = self.value("load_miss_latency"), self.basis.saturation_cycles
        return None if latency is None or limit is None else latency > limit


def counting(intervals: Sequence[Interval], roles: Sequence[str]) -> list[Interval]:
    """Those in which all of these roles were counted."""
    return [
        each for each in intervals if all(role in each.counts and each.counts[role].whole is not None for role in roles)
    ]


def findings(timeline: Timeline, basis: Basis) -> Iterator[Finding]:
    """Every finding about the run."""
    whole = Figures(timeline.intervals, basis)
    for name, (role, unit, meaning) in SYSTEM.items():
        count = summed([each.counts for each in timeline.intervals], (role,))[role]
        reason = count.reason if timeline.intervals else "the program ended before anything was counted"
        value = count.whole if timeline.intervals else None
        made = value / 1e9 if value is not None and unit == "s" else value
        yield _finding(name, unit, made, (meaning, reason or f"{role} was counted for a part of the time"))
    for name in FIGURES:
        yield _figure(name, whole, timeline)
    for name in NOT_SINCE:
        yield _finding(name, "cycles" if name == NOT_SINCE[0] else "%", None, ("", "not measured since 0.2"))
    latency, limit = whole.metric("load_miss_latency"), basis.saturation_cycles
    method = f"load-miss latency against {limit or 0:.4g} cycles, calibrated on this machine"
    words = (method, latency.reason or UNCALIBRATED)
    yield _finding("saturated", "", whole.saturated, words, _outcome(timeline, latency.roles))
    yield _imbalance(timeline)
    reason = timeline.unprobed or "it is only measured with --probe-latency"
    mean = sum(ns for _, ns in timeline.probed) / len(timeline.probed) if timeline.probed else None
    method = f"chase of a probing thread beside the program, {timeline.idle_ns or 0:.4g} ns without it"
    yield _finding("probe_latency", "ns", mean, (method, reason))


def _figure(name: str, whole: Figures, timeline: Timeline) -> Finding:
    """A figure with its error from interval to interval."""
    from setebench.stats.jackknife import jackknife  # scipy, which takes longer to load than most of the rest

    metric = whole.metric(name)
    estimate = jackknife(whole.intervals, lambda part: Figures(part, whole.basis).value(name))
    if estimate is None:
        return _finding(name, metric.unit, None, ("", metric.reason), _outcome(timeline, metric.roles))
    chosen = counting(whole.intervals, metric.roles)
    counted, every = (sum(one.seconds for one in rows) for rows in (chosen, whole.intervals))
    turns = f"; counted for {100 * counted / every:.0f} % of the time, by turns with others"
    method = metric.method + (turns if counted < 0.999 * every and name not in PARTS else "")
    found = _finding(name, metric.unit, estimate.value, (method, ""))
    return found if estimate.degrees < 1 else msgspec.structs.replace(found, low=estimate.low, high=estimate.high)


def _imbalance(timeline: Timeline) -> Finding:
    """The most loaded thread over the mean of those that do more than help, by CPU time: at least so much, as the time
    that a thread waits in a loop is no useful work (Röhl et al. 2015, section 1.2)."""
    seconds = [thread.cpu_seconds for thread in timeline.threads]
    seconds = [own for own in seconds if own >= HELPER * max(seconds)]
    method = f"most loaded thread over the mean of {len(seconds)}, by CPU time of samples"
    value = max(seconds) * len(seconds) / sum(seconds) if len(seconds) > 1 else None
    reason = timeline.unsampled or "there are not two threads to compare"
    found = _finding("imbalance", "ratio", value, (method, reason))
    return found if value is None else msgspec.structs.replace(found, outcome=Outcome.AT_LEAST)


def _outcome(timeline: Timeline, roles: Sequence[str]) -> Outcome:
    """Of what needs these roles: unavailable where this machine lacks one, else unresolved."""
    lacking = any(timeline.roles.get(role, "not known here") for role in roles)
    return Outcome.UNAVAILABLE if lacking else Outcome.UNRESOLVED


def _finding(
    name: str, unit: str, value: float | None, words: tuple[str, str], outcome: Outcome = Outcome.UNAVAILABLE
) -> Finding:
    """A value with its method, the first of the words, or without one the reason and the outcome."""
    known: dict[str, Any] = {"parameter": f"diagnose.{name}", "unit": unit, "evidence": EVIDENCE}
    if value is None:
        return Finding(**known, outcome=outcome, reason=words[1])
    return Finding(**known, value=value, method=words[0])
