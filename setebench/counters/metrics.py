"""Metrics over roles: what counts of a stretch of time say of latency, bandwidth and sharing, each by a definition.

A metric is made of counts that are there and may be trusted, or it is not made: a missing count, one that shared its
register, and one whose event validation objects to each leave the metric without a value and with that reason. Nothing
here is ever 0 or NaN for want of something.

Sources: Helm and Taura 2019 (5.1, 6.1, 6.2), Molka et al. 2017 (Table 3), Röhl et al. 2015 (1.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from setebench.counters.protocol import Count
from setebench.counters.roles import FLITS_PER_LINE, ROLES, Quantity
from setebench.counters.verdicts import Verdicts

BYTES_PER_GB = 1e9

Values = Mapping[str, float]
"""What a formula reads: the counts of its roles, and `seconds` and `line_bytes` of the measurement."""


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one stretch of time, and how long it was. `verdicts` gate what is made of them; without any, counts are
    taken as they are, which only whoever validates events, or whoever asks for it, should do."""

    counts: Mapping[str, Count]
    seconds: float
    line_bytes: int = 64
    verdicts: Verdicts | None = None

    def objection(self, role: str) -> str:
        """Why the count of a role can't be used, one line; empty where it can."""
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

    def values(self, roles: Iterable[str]) -> dict[str, float]:
        """What a formula reads, for roles that nothing objects to."""
        return {role: self.value(role) for role in roles} | {"seconds": self.seconds, "line_bytes": self.line_bytes}


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """How a metric is made: of which roles, by which formula, from which source. `compute` returns None where there is
    nothing to divide by; `empty` says then what there was none of."""

    name: str
    unit: str
    roles: tuple[str, ...]
    formula: str
    source: str
    compute: Callable[[Values], float | None]
    empty: str = "no time passed"


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of one measurement: its definition's name, and a value, or None with the reason."""

    definition: str
    unit: str
    value: float | None = None
    reason: str = ""
    roles: tuple[str, ...] = ()


def evaluate(definition: Definition, measurement: Measurement) -> Metric:
    """The metric that a definition makes of a measurement."""
    known = Metric(definition=definition.name, unit=definition.unit, roles=definition.roles)
    objection = first_objection(definition.roles, measurement)
    if objection:
        return msgspec.structs.replace(known, reason=objection)
    value = definition.compute(measurement.values(definition.roles))
    if value is None:
        return msgspec.structs.replace(known, reason=definition.empty)
    return msgspec.structs.replace(known, value=value)


def first_objection(roles: Sequence[str], measurement: Measurement) -> str:
    """The first reason why a measurement has no usable count of some of these roles; empty where it has all."""
    return next(filter(None, map(measurement.objection, roles)), "")


Measure = Callable[[tuple[str, ...]], Measurement]
"""Where roles couldn't all be counted at once: a measurement of the time in which these were."""


def best(names: Sequence[str], measured: Measure | Measurement) -> Metric:
    """By the first of these definitions that can be made; where none can, the first one with its reason."""
    measure = (lambda _roles: measured) if isinstance(measured, Measurement) else measured
    found = [evaluate(definition, measure(definition.roles)) for definition in map(DEFINITIONS.__getitem__, names)]
    return next((metric for metric in found if metric.value is not None), found[0])


# -- definitions --------------------------------------------------------------------------------------------------


def _over(dividend: str, *divisors: str) -> Callable[[Values], float | None]:
    """One count over the sum of others."""

    def compute(values: Values) -> float | None:
        divisor = sum(values[each] for each in divisors)
        return values[dividend] / divisor if divisor > 0 else None

    return compute


def _rate(factor: Callable[[Values], float], *roles: str) -> Callable[[Values], float | None]:
    """Counts in a second, times a factor."""

    def compute(values: Values) -> float | None:
        seconds = values["seconds"]
        return sum(values[role] for role in roles) * factor(values) / seconds if seconds > 0 else None

    return compute


def _bandwidth(name: str, role: str, where: str, source: str, per_line: int = 1) -> Definition:
    """Lines of a role, in 10^9 bytes a second."""
    return Definition(
        name=name,
        unit="GB/s",
        roles=(role,),
        formula=f"{role}{f' / {per_line}' if per_line > 1 else ''} x line size / time{where}",
        source=source,
        compute=_rate(lambda values: values["line_bytes"] / per_line / BYTES_PER_GB, role),
    )


def _ratio(name: str, unit: str, roles: tuple[str, ...], source: str, empty: str = "no load missed L1") -> Definition:
    """The first of these roles over the sum of the others."""
    below = roles[1] if len(roles) == 2 else f"({' + '.join(roles[1:])})"
    compute, formula = _over(*roles), f"{roles[0]} / {below}"
    return Definition(name=name, unit=unit, roles=roles, formula=formula, source=source, compute=compute, empty=empty)


def _sharing(name: str, roles: tuple[str, ...], errors: str) -> Definition:
    source = f"Röhl et al. 2015, sections 1.2 and 1.4: qualitative, errors of {errors}"
    text = roles[0] if len(roles) == 1 else f"({' + '.join(roles)})"
    compute, formula = _rate(lambda _: 1.0, *roles), f"{text} / time"
    return Definition(name=name, unit="lines/s", roles=roles, formula=formula, source=source, compute=compute)


_HELM_LATENCY, _HELM_CONTROLLER = "Helm and Taura 2019, section 6.2", "Helm and Taura 2019, section 5.1"
_COMPLETED = "Intel perfmon metrics, Sapphire Rapids and later: load miss real latency over completed loads"
_CONTROLLERS, _HOME = ", at the memory controllers, of all programs", ", at the home agents, of all programs"
_CORES, _TABLE_3 = ", by the program's cores", "Molka et al. 2017, Table 3"
_ALPHA, _BETA, _GAMMA = "l1d_inflight_sum", "load_l1_miss", "load_fb_hit"

_TABLE = (
    _ratio("l1_miss_latency.alpha_over_beta", "cycles", (_ALPHA, _BETA), _HELM_LATENCY),
    _ratio("load_miss_latency.alpha_over_beta_gamma", "cycles", (_ALPHA, _BETA, _GAMMA), _HELM_LATENCY),
    _ratio("load_miss_latency.alpha_over_completed", "cycles", (_ALPHA, "load_l1_miss_any"), _COMPLETED),
    _ratio("miss_parallelism", "misses", (_ALPHA, "l1d_inflight_cycles"), "Intel perfmon metrics: MLP"),
    _ratio(
        *("instructions_per_cycle", "instructions/cycle", ("instructions", "cycles"), "by definition"),
        empty="no cycle was counted",
    ),
    _bandwidth("memory_read.controllers", "mem_read", _CONTROLLERS, _HELM_CONTROLLER),
    _bandwidth("memory_write.controllers", "mem_write", _CONTROLLERS, _HELM_CONTROLLER),
    _bandwidth("memory_read.home", "home_read", _HOME, _TABLE_3),
    _bandwidth("memory_write.home", "home_write", _HOME, _TABLE_3),
    _bandwidth("memory_read.offcore", "offcore_mem_read", _CORES, "Helm and Taura 2019, section 5.2"),
    _bandwidth("remote_read", "remote_read", _CORES, "Molka et al. 2017, Table 2"),
    _bandwidth("link_traffic", "link_flit", "", "Molka et al. 2017, section 4.2", FLITS_PER_LINE),
    _sharing("false_sharing.local_and_remote", ("hitm_local", "hitm_remote"), "7 to 102 %"),
    _sharing("false_sharing.local", ("hitm_local",), "7 to 65 %"),
)

DEFINITIONS = {definition.name: definition for definition in _TABLE}
"""Every definition by its name."""

L1_MISS_LATENCY = ("l1_miss_latency.alpha_over_beta",)
LOAD_MISS_LATENCY = ("load_miss_latency.alpha_over_beta_gamma", "load_miss_latency.alpha_over_completed")
MEMORY_READ = ("memory_read.controllers", "memory_read.home", "memory_read.offcore")
MEMORY_WRITE = ("memory_write.controllers", "memory_write.home")
FALSE_SHARING = ("false_sharing.local_and_remote", "false_sharing.local")
"""Definitions of one question, the better one first, for `best`. Reads at the controllers hold prefetched lines and
those of other programs; reads seen by cores miss prefetched lines on some CPUs (Helm and Taura 2019, section 5.3)."""
