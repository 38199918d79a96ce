"""Metrics over roles: what counts of a stretch of time say of latency, bandwidth, sharing, utilization, and where the
cycles went, each by a definition.

A metric is made of counts that are there and may be trusted, or it is not made: a missing count, one that shared its
register, and one whose event validation objects to each leave the metric without a value and with that reason. Nothing
here is ever 0 or NaN for want of something.

Sources: Helm and Taura 2019 (5.1, 6.1, 6.2), Molka et al. 2017 (Table 3, section 4.3, Figure 10), Röhl et al. 2015
(1.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from setebench.counters.protocol import Count
from setebench.counters.roles import ROLES, Quantity, Scope
from setebench.counters.verdicts import Verdicts


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one stretch of time, and how long it was. `verdicts` gate what is made of them; without any, counts are
    taken as they are, which only whoever validates events, or whoever wants it so, should do."""

    counts: Mapping[str, Count]
    seconds: float
    line_bytes: int = 64
    verdicts: Verdicts | None = None

    def objection(self, *roles: str) -> str:
        """Why the count of the first of these roles that has none can't be used, one line; empty where all can."""
        return next(filter(None, map(self._objection, roles)), "")

    def _objection(self, role: str) -> str:
        count = self.counts.get(role)
        if count is None:
            return f"{role} was not counted"
        if count.value is None:
            return f"{role}: {count.reason or 'not counted, and no reason was given'}"
        if count.value < 0:
            return f"{role} went backwards: its counter wraps, or something else resets it"
        if count.shared:
            return f"{role} had its counter for {100 * count.running / count.enabled:.0f} % of the time only"
        if self.verdicts is None or ROLES[role].quantity is Quantity.SYSTEM:  # the kernel's own counts are exact
            return ""
        return self.verdicts.of(role).objection()

    def value(self, role: str) -> float:
        """The count of a role that nothing objects to."""
        value = self.counts[role].value
        assert value is not None  # as `objection` said
        return float(value)


Measure = Callable[[tuple[str, ...]], Measurement]
"""Where roles couldn't all be counted at once: a measurement of the time in which these were."""


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """How a metric is made: the sum of the counts of some roles over the sum of those `per` which it is, or over the
    time; in GB/s each count is a line."""

    name: str
    unit: str
    over: tuple[str, ...]
    per: tuple[str, ...] = ()
    source: str

    @property
    def roles(self) -> tuple[str, ...]:
        """All that are counted for it."""
        return (*self.over, *self.per)

    @property
    def formula(self) -> str:
        """It in words."""
        above, below = (" + ".join(roles) for roles in (self.over, self.per))
        line = " x line size" if self.unit == "GB/s" else ""
        return f"{f'({above})' if len(self.over) > 1 else above}{line} / ({below or 'time'})"

    def of(self, measurement: Measurement) -> Metric:
        """The metric that it makes of a measurement."""
        reason = measurement.objection(*self.roles)
        value = None
        if not reason:
            divisor = sum(map(measurement.value, self.per)) if self.per else measurement.seconds
            factor = measurement.line_bytes / 1e9 if self.unit == "GB/s" else 1.0
            empty = f"no {' or '.join(self.per)} was counted" if self.per else "no time passed"
            reason = "" if divisor > 0 else empty
            value = sum(map(measurement.value, self.over)) * factor / divisor if divisor > 0 else None
        return Metric(definition=self.name, unit=self.unit, value=value, reason=reason, roles=self.roles)


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of one measurement: its definition's name, and a value, or None with the reason."""

    definition: str
    unit: str
    value: float | None = None
    reason: str = ""
    roles: tuple[str, ...] = ()


_ALPHA, _BETA, _GAMMA = "l1d_inflight_sum", "load_l1_miss", "load_fb_hit"
_LATENCY, _CONTROLLERS = "Helm and Taura 2019, section 6.2", "Helm and Taura 2019, section 5.1, of all programs"
_COMPLETED = "Intel perfmon metrics, Sapphire Rapids and later: load miss real latency over completed loads"
_HOME, _CORES = "Molka et al. 2017, Table 3, of all programs", "Helm and Taura 2019, section 5.2"
_SHARING = "Röhl et al. 2015, sections 1.2 and 1.4: qualitative, errors of 7 to 102 %"

_TABLE = (
    ("l1_miss_latency.alpha_over_beta", "cycles", (_ALPHA,), (_BETA,), _LATENCY),
    ("load_miss_latency.alpha_over_beta_gamma", "cycles", (_ALPHA,), (_BETA, _GAMMA), _LATENCY),
    ("load_miss_latency.alpha_over_completed", "cycles", (_ALPHA,), ("load_l1_miss_any",), _COMPLETED),
    ("miss_parallelism", "misses", (_ALPHA,), ("l1d_inflight_cycles",), "Intel perfmon metrics: MLP"),
    ("memory_read.controllers", "GB/s", ("mem_read",), (), _CONTROLLERS),
    ("memory_write.controllers", "GB/s", ("mem_write",), (), _CONTROLLERS),
    ("memory_read.home", "GB/s", ("home_read",), (), _HOME),
    ("memory_write.home", "GB/s", ("home_write",), (), _HOME),
    ("memory_read.offcore", "GB/s", ("offcore_mem_read",), (), _CORES),
    ("false_sharing.local_and_remote", "lines/s", ("hitm_local", "hitm_remote"), (), _SHARING),
    ("false_sharing.local", "lines/s", ("hitm_local",), (), _SHARING),
)
"""Name, unit, roles over roles (none: over the time), source."""

DEFINITIONS = {
    name: Definition(name=name, unit=unit, over=over, per=per, source=source)
    for name, unit, over, per, source in _TABLE
}
"""Every definition by its name."""


def best(metric: str, measure: Measure) -> Metric:
    """By the first definition of this metric (the name before the point) that can be made; where none can, the first
    one with its reason. Reads at the controllers hold prefetched lines and those of other programs; reads seen by cores
    miss prefetched lines on some CPUs (Helm and Taura 2019, section 5.3)."""
    definitions = [each for name, each in DEFINITIONS.items() if name.partition(".")[0] == metric]
    found = [definition.of(measure(definition.roles)) for definition in definitions]
    return next((metric for metric in found if metric.value is not None), found[0])


# -- where the cycles went --------------------------------------------------------------------------------------------

PARTS_SOURCE = "Molka et al. 2017, Figure 10"
PARTS_ROLES = ("no_execute", "stall_l1d_miss", "stall_store_buffer", "fb_full", "sq_full")
PARTS = ("productive", "other_stalls", "memory_latency", "memory_bandwidth", "store_buffer")
"""The first four add up to 100 %; cycles in which the store buffer was full are inside both memory parts."""
CONTRADICTION = 0.04
"""By how much of all cycles a part may exceed the whole that holds it, before its counts are said to contradict each
other. Two trusted events may err by 2 % each, in opposite directions (`setebench counters validate`)."""


def cycles_by_cause(measure: Measure) -> dict[str, float] | str:
    """`PARTS` of the cycles in percent, or why they are not known: each role per cycle over the time that counted both.

    Cycles spent on a mispredicted path count as productive, waiting for instructions as other, and phases that wait for
    loads and phases that wait for stores within one measurement as memory bound for the longer of the two only."""
    fraction: dict[str, float] = {}
    for role in PARTS_ROLES:
        measurement = measure(("cycles", role))
        objection = measurement.objection("cycles", role)
        if objection or not measurement.value("cycles"):
            return objection or "no cycle was counted"
        fraction[role] = measurement.value(role) / measurement.value("cycles")
    stalls = fraction["no_execute"]
    if stalls > 1 + CONTRADICTION:
        return f"no_execute is {stalls:.2f} of all cycles, so one of the two counts is wrong"
    # a part never exceeds its whole: full buffers are counted in cycles that execute something, too
    stalls = min(stalls, 1.0)
    store_buffer = fraction["stall_store_buffer"]
    memory = min(max(fraction["stall_l1d_miss"], store_buffer), stalls)
    bandwidth = min(max(fraction["fb_full"] + fraction["sq_full"], store_buffer), memory)
    values = (1 - stalls, stalls - memory, memory - bandwidth, bandwidth, store_buffer)
    return {name: 100 * value for name, value in zip(PARTS, values, strict=True)}


# -- how much of a level's paths a program uses -----------------------------------------------------------------------

LEVEL_ROLES = {
    "l1": ("load", "store"),
    "l2": ("l1d_fill", "l1d_writeback"),
    "l3": ("l2_fill", "l2_writeback"),
    "memory": ("mem_read", "mem_write", "offcore_mem_read"),
}
"""Per level the roles whose traffic it carries, inwards and outwards."""


class Peak(msgspec.Struct, frozen=True, kw_only=True):
    """The largest rate of an event, events/s: of one core, and of all of a socket at once; None where not measured."""

    one_core: float | None = None
    all_cores: float | None = None


def utilization(level: str, measure: Measure, peaks: Mapping[str, Peak]) -> Metric:
    """The busiest path of a level, in percent of its peak: the largest rate of its event over kernels that do nothing
    but stress the level (Molka et al. 2017, sections 3.1 and 4.1; `setebench counters peaks`).

    A thread's own paths are used while it runs (`task_clock`, the CPU time of all threads together); shared ones are
    used by all threads in the time that passed."""
    paths: list[tuple[float, str]] = []  # per cent of the peak, and by which role's count
    reasons = []
    for role in LEVEL_ROLES[level]:
        measurement = measure((role, "task_clock"))
        unknown = "" if role in peaks else f"the peak rate of {role} is not known; run `setebench counters peaks`"
        if objection := measurement.objection(role) or unknown:
            reasons.append(objection)
        else:
            paths += [(percent, role) for percent in _percentages(role, measurement, peaks[role])]
    known = Metric(definition=f"utilization.{level}", unit="%", roles=LEVEL_ROLES[level])
    if not paths:
        return msgspec.structs.replace(known, reason=reasons[0] if reasons else "no time passed")
    percent, role = max(paths)
    return msgspec.structs.replace(known, value=percent, roles=(role,))


def _percentages(role: str, measurement: Measurement, peak: Peak) -> Iterator[float]:
    """Of the peaks of one core and of all."""
    count = measurement.value(role)
    busy = 0.0 if measurement.objection("task_clock") else measurement.value("task_clock") / 1e9
    own = ROLES[role].scope is not Scope.SOCKET  # what a socket counts belongs to no core
    if own and peak.one_core and busy > 0:
        yield 100 * count / busy / peak.one_core
    if peak.all_cores and measurement.seconds > 0:
        yield 100 * count / measurement.seconds / peak.all_cores
