"""Findings of a program's timeline, in the names of docs/parameters.md.

What a role that this machine can't count would say is unavailable; what could be counted but not be trusted, or had
nothing to divide by, is unresolved.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from setebench.counters.counted import Interval
from setebench.counters.decomposition import ROLES_NEEDED, SOURCE
from setebench.counters.imbalance import imbalance
from setebench.counters.metrics import DEFINITIONS, Metric
from setebench.counters.utilization import LEVEL_ROLES
from setebench.diagnose.analysis import PARTS, UTILIZATION, Basis, Figures, covered, estimated, saturated
from setebench.diagnose.params import Params
from setebench.diagnose.records import Thread, Timeline, summed, usable
from setebench.results import Finding, Outcome

EVIDENCE = "diagnose"
"""The entry of a document's evidence that holds the timeline."""

UNITS = {
    "l1_miss_latency": "cycles",
    "load_miss_latency": "cycles",
    "memory_read": "GB/s",
    "memory_write": "GB/s",
    "false_sharing": "lines/s",
}
"""Metrics that are findings, and their units; the others are for advice."""

USEFUL_WORK = ("fp_op", "l1d_fill", "l2_fill")
"""What a thread's useful work is counted by, the better role first: operations on data, then lines moved. Not by
instructions, as a thread that waits in a loop executes many (Röhl et al. 2015, section 1.2)."""


SYSTEM = {
    "page_faults": ("page_fault", "faults", "first touches and others"),
    "context_switches": ("context_switch", "switches", "times that threads were taken off their CPU"),
    "cpu_migrations": ("cpu_migration", "migrations", "times that threads went on on another CPU"),
}

NO_MEMORY_SAMPLES = "no load was sampled: this needs a CPU and a kernel that sample loads precisely (PEBS, IBS)"


def findings(timeline: Timeline, basis: Basis) -> Iterator[Finding]:
    """Every finding about the run."""
    whole = Figures(timeline.intervals, basis)
    yield from _system(timeline)
    percentages = dict.fromkeys((*PARTS, *(UTILIZATION + level for level in LEVEL_ROLES)), "%")
    for name, unit in (percentages | UNITS).items():
        yield _figure(name, unit, whole, timeline)
    yield sampled_latency(timeline)
    yield _saturated(whole, timeline)
    yield _imbalance(timeline, basis)
    yield _probe_latency(timeline)


def _system(timeline: Timeline) -> Iterator[Finding]:
    """What the kernel counts of any program."""
    clock = _total(timeline.intervals, "task_clock")
    if isinstance(clock, str):
        yield _without("cpu_time", "s", clock, timeline, ("task_clock",))
    else:
        yield _with("cpu_time", clock / 1e9, "s", f"CPU time of all threads in {timeline.seconds:.4g} s")
    for name, (role, unit, meaning) in SYSTEM.items():
        total = _total(timeline.intervals, role)
        if isinstance(total, str):
            yield _without(name, unit, total, timeline, (role,))
        else:
            yield _with(name, total, unit, meaning)


def _total(intervals: tuple[Interval, ...], role: str) -> int | str:
    """The count of the whole run, or why there is none."""
    if not intervals:
        return "the program ended before anything was counted"
    count = summed([each.counts for each in intervals], (role,))[role]
    if count.value is None or not usable(count):
        return count.reason or f"{role} was counted for a part of the time only"
    return count.value


def _figure(name: str, unit: str, whole: Figures, timeline: Timeline) -> Finding:
    metric = None if name in PARTS else whole.metric(name)
    estimate = estimated(whole, name)
    if estimate is None:
        roles = ROLES_NEEDED if metric is None else metric.roles
        return _without(name, unit, whole.reason(name), timeline, roles)
    known = _with(name, estimate.value, unit, SOURCE if metric is None else _method(metric, timeline))
    if estimate.degrees < 1:
        return known
    return msgspec.structs.replace(known, low=estimate.low, high=estimate.high)


def _method(metric: Metric, timeline: Timeline) -> str:
    definition = DEFINITIONS.get(metric.definition)
    how = f"{definition.formula}; {definition.source}" if definition else f"by {', '.join(metric.roles)} over its peak"
    part = covered(timeline.intervals, metric.roles)
    return how if part > 0.999 else f"{how}; counted for {100 * part:.0f} % of the time, by turns with others"


def sampled_latency(timeline: Timeline) -> Finding:
    """The mean latency of sampled loads that memory served and whose address was in the TLB (Helm and Taura 2019, 6.1),
    with its standard interval."""
    parameter = "sampled_latency"
    if not timeline.loads:
        return _missing(parameter, "cycles", NO_MEMORY_SAMPLES)
    served = [each.latency_cycles for each in timeline.loads if each.level == "memory" and each.tlb_hit]
    if len(served) < 2:
        reason = f"of {len(timeline.loads)} sampled loads {len(served)} came from memory with a TLB hit"
        return _missing(parameter, "cycles", reason, Outcome.UNRESOLVED)
    from setebench.stats.estimate import over_epochs  # scipy, which not every run needs

    estimate = over_epochs(served)
    known = _with(parameter, estimate.value, "cycles", f"mean of {len(served)} loads; Helm and Taura 2019, section 6.1")
    return msgspec.structs.replace(known, low=estimate.low, high=estimate.high)


def _saturated(whole: Figures, timeline: Timeline) -> Finding:
    decided, calibration = saturated(whole), whole.basis.calibration
    if decided is None:
        latency = whole.metric("load_miss_latency")
        return _without("saturated", "", latency.reason or calibration.reason, timeline, latency.roles)
    limit = calibration.saturation_cycles
    return _with("saturated", decided, "", f"load-miss latency against {limit:.4g} cycles, calibrated on this machine")


def _imbalance(timeline: Timeline, basis: Basis) -> Finding:
    found = useful_work(timeline, basis)
    if isinstance(found, str):
        return _without("imbalance", "ratio", found, timeline, USEFUL_WORK[:1])
    role, counted = found
    work = {number: amount for number, amount in counted.items() if amount >= Params().helper * max(counted.values())}
    threads = ", ".join(f"{number}: {amount:.4g}" for number, amount in work.items())
    return _with(
        "imbalance", imbalance(work.values()), "ratio", f"most loaded thread over the mean, by {role} ({threads})"
    )


def useful_work(timeline: Timeline, basis: Basis) -> tuple[str, dict[int, int]] | str:
    """Useful work by thread and the role that it was counted by, or why it isn't known."""
    threads = timeline.threads
    if len(threads) < 2:
        return "there are not two threads to compare"
    reason = ""
    for role in USEFUL_WORK:
        work = _work(threads, role)
        distrust = "" if basis.verdicts is None else basis.verdicts.of(role).objection()
        objection = timeline.roles.get(role, "") or distrust
        if work is not None and not objection:
            return role, work
        reason = reason or objection or f"useful work is counted by {role}, which was not counted for each thread"
    return reason


def _work(threads: tuple[Thread, ...], role: str) -> dict[int, int] | None:
    """What was counted of each thread; None where one of them lacks it, or where there was none."""
    counts = {thread.number: thread.counts.get(role) for thread in threads}
    work = {number: count.value or 0 for number, count in counts.items() if count is not None and usable(count)}
    return work if len(work) == len(threads) and any(work.values()) else None


def _probe_latency(timeline: Timeline) -> Finding:
    if not timeline.watched:
        reason = timeline.unwatched or "it is only watched with --probe-latency"
        return _missing("probe_latency", "ns", reason)
    values = [each.latency_ns for each in timeline.watched]
    mean = sum(values) / len(values)
    beside = "" if timeline.idle_ns is None else f", {timeline.idle_ns:.4g} ns without it"
    return _with("probe_latency", mean, "ns", f"chase of a probing thread beside the program{beside}")


def _with(name: str, value: float | bool, unit: str, method: str) -> Finding:
    return Finding(parameter=f"diagnose.{name}", value=value, unit=unit, method=method, evidence=EVIDENCE)


def _without(name: str, unit: str, reason: str, timeline: Timeline, roles: tuple[str, ...]) -> Finding:
    """Of what needs these roles: unavailable where this machine lacks one, else unresolved."""
    lacking = any(timeline.roles.get(role, "not known here") for role in roles)
    return _missing(name, unit, reason, Outcome.UNAVAILABLE if lacking else Outcome.UNRESOLVED)


def _missing(name: str, unit: str, reason: str, outcome: Outcome = Outcome.UNAVAILABLE) -> Finding:
    return Finding(parameter=f"diagnose.{name}", unit=unit, outcome=outcome, reason=reason, evidence=EVIDENCE)
