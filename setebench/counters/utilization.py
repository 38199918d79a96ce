"""How much of a level's paths a program uses: rates of its events against the largest ones measured, which are 100 %.

Molka et al. 2017, sections 3.1 and 4.1: a theoretical width times a clock is more than what can be reached, so the peak
of an event is the largest rate of it over kernels that do nothing but stress its level (`setebench counters peaks`),
of one core for its own paths and of all cores for shared ones. A path that is 100 % busy need not slow a program down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from setebench.counters.metrics import Measure, Measurement, Metric
from setebench.counters.roles import ROLES, Scope

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
    """The busiest path of a level, in percent of its peak.

    A thread's own paths are used while it runs (`task_clock`, the CPU time of all threads together); shared ones are
    used by all threads in the time that passed."""
    known = Metric(definition=f"utilization.{level}", unit="%", roles=LEVEL_ROLES[level])
    paths: list[tuple[float, str]] = []  # per cent of the peak, and by which role's count
    reasons = []
    for role in LEVEL_ROLES[level]:
        measurement = measure((role, "task_clock"))
        objection = measurement.objection(role) or ("" if role in peaks else _no_peak(role))
        if objection:
            reasons.append(objection)
        else:
            paths += [(percent, role) for percent in _percentages(role, measurement, peaks[role])]
    if not paths:
        return msgspec.structs.replace(known, reason=reasons[0] if reasons else "no time passed")
    percent, role = max(paths, key=lambda path: path[0])
    return msgspec.structs.replace(known, value=percent, roles=(role,))


def _no_peak(role: str) -> str:
    return f"the peak rate of {role} is not known; run `setebench counters peaks`"


def _percentages(role: str, measurement: Measurement, peak: Peak) -> Iterator[float]:
    """Of the peaks of one core and of all."""
    count = measurement.value(role)
    busy = 0.0 if measurement.objection("task_clock") else measurement.value("task_clock") / 1e9
    own = ROLES[role].scope is not Scope.SOCKET  # what a socket counts belongs to no core
    if own and peak.one_core and busy > 0:
        yield 100 * count / busy / peak.one_core
    if peak.all_cores and measurement.seconds > 0:
        yield 100 * count / measurement.seconds / peak.all_cores
