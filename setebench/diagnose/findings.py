"""Findings of a program's timeline, in the names of docs/parameters.md.

What a role that this machine can't count would say is unavailable; what could be counted but not be trusted, or had
nothing to divide by, is unresolved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from setebench.counters.decomposition import ROLES_NEEDED, SOURCE
from setebench.counters.metrics import DEFINITIONS, Metric
from setebench.counters.utilization import LEVEL_ROLES
from setebench.diagnose.analysis import PARTS, UTILIZATION, Basis, Figures, covered
from setebench.diagnose.params import Params
from setebench.diagnose.records import Timeline, summed, usable
from setebench.results import Finding, Outcome

EVIDENCE = "diagnose"
"""The entry of a document's evidence that holds the timeline."""

UNITS = {
    **dict.fromkeys((*PARTS, *(UTILIZATION + level for level in LEVEL_ROLES)), "%"),
    **dict.fromkeys(("l1_miss_latency", "load_miss_latency"), "cycles"),
    **dict.fromkeys(("memory_read", "memory_write"), "GB/s"),
    "false_sharing": "lines/s",
}
"""Figures that are findings, and their units; other metrics are for advice."""

USEFUL_WORK = ("fp_op", "l1d_fill", "l2_fill")
"""What a thread's useful work is counted by, the better role first: operations on data, then lines moved. Not by
instructions, as a thread that waits in a loop executes many (Röhl et al. 2015, section 1.2)."""

SYSTEM = {
    "cpu_time": ("task_clock", "s", "CPU time of all threads"),
    "page_faults": ("page_fault", "faults", "first touches and others"),
    "context_switches": ("context_switch", "switches", "times that threads were taken off their CPU"),
    "cpu_migrations": ("cpu_migration", "migrations", "times that threads went on on another CPU"),
}
"""What the kernel counts of any program: role, unit and meaning."""

NO_MEMORY_SAMPLES = "no load was sampled: this needs a CPU and a kernel that sample loads precisely (PEBS, IBS)"


def findings(timeline: Timeline, basis: Basis) -> Iterator[Finding]:
    """Every finding about the run."""
    whole = Figures(timeline.intervals, basis)
    for name, (role, unit, meaning) in SYSTEM.items():
        yield _system(timeline, name, (role, unit, meaning))
    for name in UNITS:
        yield _figure(name, whole, timeline)
    yield _sampled_latency(timeline)
    yield _saturated(whole, timeline)
    yield _imbalance(timeline, basis)
    yield _probe_latency(timeline)


def _system(timeline: Timeline, name: str, known: tuple[str, str, str]) -> Finding:
    role, unit, meaning = known
    if not timeline.intervals:
        return _without(name, unit, "the program ended before anything was counted", timeline, (role,))
    count = summed([each.counts for each in timeline.intervals], (role,))[role]
    if count.value is None or not usable(count):
        reason = count.reason or f"{role} was counted for a part of the time only"
        return _without(name, unit, reason, timeline, (role,))
    return _with(name, count.value / 1e9 if unit == "s" else count.value, unit, meaning)


def _figure(name: str, whole: Figures, timeline: Timeline) -> Finding:
    metric = None if name in PARTS else whole.metric(name)
    estimate = whole.estimated(name)
    if estimate is None:
        roles = ROLES_NEEDED if metric is None else metric.roles
        return _without(name, UNITS[name], whole.reason(name), timeline, roles)
    interval = {} if estimate.degrees < 1 else {"low": estimate.low, "high": estimate.high}
    method = SOURCE if metric is None else _method(metric, timeline)
    return _with(name, estimate.value, UNITS[name], method, **interval)


def _method(metric: Metric, timeline: Timeline) -> str:
    definition = DEFINITIONS.get(metric.definition)
    how = f"{definition.formula}; {definition.source}" if definition else f"by {', '.join(metric.roles)} over its peak"
    part = covered(timeline.intervals, metric.roles)
    return how if part > 0.999 else f"{how}; counted for {100 * part:.0f} % of the time, by turns with others"


def _sampled_latency(timeline: Timeline) -> Finding:
    """The mean latency of sampled loads that memory served and whose address was in the TLB (Helm and Taura 2019, 6.1),
    with its standard interval."""
    name = "sampled_latency"
    served = [each.latency_cycles for each in timeline.loads if each.level == "memory" and each.tlb_hit]
    if not timeline.loads:
        return _missing(name, "cycles", NO_MEMORY_SAMPLES)
    if len(served) < 2:
        reason = f"of {len(timeline.loads)} sampled loads {len(served)} came from memory with a TLB hit"
        return _missing(name, "cycles", reason, Outcome.UNRESOLVED)
    from setebench.stats.estimate import over_epochs  # scipy, which not every run needs

    found = over_epochs(served)
    method = f"mean of {len(served)} loads; Helm and Taura 2019, section 6.1"
    return _with(name, found.value, "cycles", method, low=found.low, high=found.high)


def _saturated(whole: Figures, timeline: Timeline) -> Finding:
    decided, calibration = whole.saturated, whole.basis.calibration
    if decided is None:
        latency = whole.metric("load_miss_latency")
        return _without("saturated", "", latency.reason or calibration.reason, timeline, latency.roles)
    limit = calibration.saturation_cycles
    return _with("saturated", decided, "", f"load-miss latency against {limit:.4g} cycles, calibrated on this machine")


def _imbalance(timeline: Timeline, basis: Basis) -> Finding:
    """The most loaded thread over the mean of those that do more than help: 1 where all do the same."""
    found = _useful_work(timeline, basis)
    if isinstance(found, str):
        return _without("imbalance", "ratio", found, timeline, USEFUL_WORK[:1])
    role, counted = found
    work = {number: amount for number, amount in counted.items() if amount >= Params().helper * max(counted.values())}
    threads = ", ".join(f"{number}: {amount:.4g}" for number, amount in work.items())
    method = f"most loaded thread over the mean, by {role} ({threads})"
    return _with("imbalance", max(work.values()) * len(work) / sum(work.values()), "ratio", method)


def _useful_work(timeline: Timeline, basis: Basis) -> tuple[str, dict[int, int]] | str:
    """The role that useful work was counted by and the work by thread, or why it isn't known."""
    if len(timeline.threads) < 2:
        return "there are not two threads to compare"
    reason = ""
    for role in USEFUL_WORK:
        counts = {thread.number: thread.counts.get(role) for thread in timeline.threads}
        work = {number: count.value or 0 for number, count in counts.items() if count is not None and usable(count)}
        distrust = "" if basis.verdicts is None else basis.verdicts.of(role).objection()
        objection = timeline.roles.get(role, "") or distrust
        if len(work) == len(counts) and any(work.values()) and not objection:
            return role, work
        reason = reason or objection or f"useful work is counted by {role}, which was not counted for each thread"
    return reason


def _probe_latency(timeline: Timeline) -> Finding:
    if not timeline.watched:
        return _missing("probe_latency", "ns", timeline.unwatched or "it is only watched with --probe-latency")
    mean = sum(each.latency_ns for each in timeline.watched) / len(timeline.watched)
    beside = "" if timeline.idle_ns is None else f", {timeline.idle_ns:.4g} ns without it"
    return _with("probe_latency", mean, "ns", f"chase of a probing thread beside the program{beside}")


def _with(name: str, value: float | bool, unit: str, method: str, **interval: Any) -> Finding:
    return Finding(parameter=f"diagnose.{name}", value=value, unit=unit, method=method, evidence=EVIDENCE, **interval)


def _without(name: str, unit: str, reason: str, timeline: Timeline, roles: Sequence[str]) -> Finding:
    """Of what needs these roles: unavailable where this machine lacks one, else unresolved."""
    lacking = any(timeline.roles.get(role, "not known here") for role in roles)
    return _missing(name, unit, reason, Outcome.UNAVAILABLE if lacking else Outcome.UNRESOLVED)


def _missing(name: str, unit: str, reason: str, outcome: Outcome = Outcome.UNAVAILABLE) -> Finding:
    return Finding(parameter=f"diagnose.{name}", unit=unit, outcome=outcome, reason=reason, evidence=EVIDENCE)
