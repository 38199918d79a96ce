"""Metrics over roles: what counts of a stretch of time say of latency, bandwidth, sharing, and where the cycles
went, each by a definition.

A metric is made of counts that are there and may be trusted, or it is not made: a missing count, one that shared its
register, and one whose event validation objects to each leave the metric without a value and with that reason. Nothing
here is ever 0 or NaN for want of something.

Sources: Helm and Taura 2019 (5.1, 6.1, 6.2), Molka et al. 2017 (Table 3, section 4.3, Figure 10), Röhl et al. 2015
(1.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from setebench.counters.protocol import Count
from setebench.counters.roles import ROLES, Quantity
from setebench.counters.verdicts import objection
from setebench.results import Finding


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one stretch of time, and how long it was. `verdicts` gate what is made of them; without any, counts are
    taken as they are, which only whoever validates events, or whoever wants it so, should do."""

    counts: Mapping[str, Count]
    seconds: float
    line_bytes: int = 64
    verdicts: Mapping[str, Finding] | None = None

    def objection(self, *roles: str) -> str:
        """Why the count of the first of these roles that has none can't be used, one line; empty where all can."""
        for role in roles:
            count = self.counts.get(role)
            if count is None or count.value is None:
                return f"{role}: {count.reason}" if count is not None and count.reason else f"{role} was not counted"
            if count.value < 0:
                return f"{role} went backwards: its counter wraps, or something else resets it"
            if count.shared:
                return f"{role} had its counter for {100 * count.running / count.enabled:.0f} % of the time only"
            # the kernel's own counts are exact
            checked = self.verdicts is not None and ROLES[role].quantity is not Quantity.SYSTEM
            if checked and (why := objection(self.verdicts or {}, role)):
                return why
        return ""

    def sum(self, *roles: str) -> float:
        """The counts of roles that nothing objects to, added up."""
        return float(sum(self.counts[role].value or 0 for role in roles))


Measure = Callable[[tuple[str, ...]], Measurement]
"""Where roles couldn't all be counted at once: a measurement of the time in which these were."""


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of one measurement: a value, or None with the reason, and how it is made of which roles."""

    unit: str
    value: float | None = None
    reason: str = ""
    roles: tuple[str, ...] = ()
    method: str = ""


class Definition(NamedTuple):
    """The sum of the counts of some roles over the sum of those `per` which it is, or over the time; in GB/s each count
    is a line."""

    metric: str
    unit: str
    over: tuple[str, ...]
    per: tuple[str, ...]
    source: str

    def of(self, measure: Measure) -> Metric:
        """The metric that it makes of the time in which its roles were counted."""
        roles, above, below = (*self.over, *self.per), " + ".join(self.over), " + ".join(self.per)
        lines = self.unit == "GB/s"
        method = f"({above}){' x line size' if lines else ''} / ({below or 'time'}); {self.source}"
        bare, measurement = Metric(unit=self.unit, roles=roles, method=method), measure(roles)
        if reason := measurement.objection(*roles):
            return msgspec.structs.replace(bare, reason=reason)
        divisor = measurement.sum(*self.per) if self.per else measurement.seconds
        if divisor <= 0:
            return msgspec.structs.replace(bare, reason=f"{below or 'time'} is 0")
        factor = measurement.line_bytes / 1e9 if lines else 1.0
        return msgspec.structs.replace(bare, value=measurement.sum(*self.over) * factor / divisor)


_ALPHA, _BETA, _GAMMA = "l1d_inflight_sum", "load_l1_miss", "load_fb_hit"
_LATENCY, _CONTROLLERS = "Helm and Taura 2019, section 6.2", "Helm and Taura 2019, section 5.1, of all programs"
_COMPLETED = "Intel perfmon metrics, Sapphire Rapids and later: load miss real latency over completed loads"
_HOME, _CORES = "Molka et al. 2017, Table 3, of all programs", "Helm and Taura 2019, section 5.2"
_SHARING = "Röhl et al. 2015, sections 1.2 and 1.4: qualitative, errors of 7 to 102 %"

DEFINITIONS = (
    Definition("l1_miss_latency", "cycles", (_ALPHA,), (_BETA,), _LATENCY),
    Definition("load_miss_latency", "cycles", (_ALPHA,), (_BETA, _GAMMA), _LATENCY),
    Definition("load_miss_latency", "cycles", (_ALPHA,), ("load_l1_miss_any",), _COMPLETED),
    Definition("memory_read", "GB/s", ("mem_read",), (), _CONTROLLERS),
    Definition("memory_read", "GB/s", ("home_read",), (), _HOME),
    Definition("memory_read", "GB/s", ("offcore_mem_read",), (), _CORES),
    Definition("memory_write", "GB/s", ("mem_write",), (), _CONTROLLERS),
    Definition("memory_write", "GB/s", ("home_write",), (), _HOME),
    Definition("false_sharing", "lines/s", ("hitm_local", "hitm_remote"), (), _SHARING),
    Definition("false_sharing", "lines/s", ("hitm_local",), (), _SHARING),
)


def best(metric: str, measure: Measure) -> Metric:
    """By the first definition of this metric that can be made; where none can, the first one with its reason. Reads at
    the controllers hold prefetched lines and those of other programs; reads seen by cores miss prefetched lines on some
    CPUs (Helm and Taura 2019, section 5.3)."""
    found = [definition.of(measure) for definition in DEFINITIONS if definition.metric == metric]
    return next((metric for metric in found if metric.value is not None), found[0])


PARTS_SOURCE = "Molka et al. 2017, Figure 10"
PARTS_ROLES = ("no_execute", "stall_l1d_miss", "stall_store_buffer", "fb_full", "sq_full")
PARTS = ("productive", "other_stalls", "memory_latency", "memory_bandwidth", "store_buffer")
"""The first four add up to 100 %; cycles in which the store buffer was full are inside both memory parts."""
CONTRADICTION = 0.04
"""By how much of all cycles a part may exceed the whole that holds it, before its counts are said to contradict each
other. Two trusted events may err by 2 % each, in opposite directions (`setebench counters validate`)."""


def cycles_by_cause(measure: Measure) -> dict[str, Metric]:
    """`PARTS` of the cycles in percent, or why they are not known: each role per cycle over the time that counted both.

    Cycles spent on a mispredicted path count as productive, waiting for instructions as other, and phases that wait for
    loads and phases that wait for stores within one measurement as memory bound for the longer of the two only."""
    bare = Metric(unit="%", roles=("cycles", *PARTS_ROLES), method=PARTS_SOURCE)
    made = {role: Definition(role, "", (role,), ("cycles",), PARTS_SOURCE).of(measure) for role in PARTS_ROLES}
    stalls, l1_miss, store_buffer, fb_full, sq_full = (each.value or 0.0 for each in made.values())
    reason = next((each.reason for each in made.values() if each.value is None), "")
    if stalls > 1 + CONTRADICTION:
        reason = reason or f"no_execute is {stalls:.2f} of all cycles, so one of the two counts is wrong"
    if reason:
        return dict.fromkeys(PARTS, msgspec.structs.replace(bare, reason=reason))
    # a part never exceeds its whole: full buffers are counted in cycles that execute something, too
    stalls = min(stalls, 1.0)
    memory = min(max(l1_miss, store_buffer), stalls)
    bandwidth = min(max(fb_full + sq_full, store_buffer), memory)
    values = (1 - stalls, stalls - memory, memory - bandwidth, bandwidth, store_buffer)
    return {name: msgspec.structs.replace(bare, value=100 * value) for name, value in zip(PARTS, values, strict=True)}
