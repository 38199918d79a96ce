"""From counts by interval to figures: of each interval, and of the whole run with its error.

Roles that did not fit at once were counted by turns, so a figure is made of the intervals that counted all of its
roles, and says which part of the time that was. Nothing is scaled up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from setebench.counters import decomposition
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
from setebench.counters.utilization import LEVEL_ROLES, Peak, utilization
from setebench.counters.verdicts import Verdicts
from setebench.diagnose.records import Interval, Timeline, summed, usable

if TYPE_CHECKING:
    from setebench.stats.estimate import Estimate

METRICS = {
    "l1_miss_latency": L1_MISS_LATENCY,
    "load_miss_latency": LOAD_MISS_LATENCY,
    "memory_read": MEMORY_READ,
    "memory_write": MEMORY_WRITE,
    "false_sharing": FALSE_SHARING,
    "remote_read": ("remote_read",),
    "link_traffic": ("link_traffic",),
    "miss_parallelism": ("miss_parallelism",),
    "instructions_per_cycle": ("instructions_per_cycle",),
}
"""Figures and the definitions that may make them, the better one first."""

PARTS = ("productive", "other_stalls", "memory_latency", "memory_bandwidth", "store_buffer")


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


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What can be said of a stretch of time: its cycles by cause, and metrics by name."""

    parts: Decomposition | Undecided
    metrics: dict[str, Metric]

    def value(self, name: str) -> float | None:
        """A metric, or a part of the cycles; None where it could not be made."""
        if name in PARTS:
            found: float | None = getattr(self.parts, name) if isinstance(self.parts, Decomposition) else None
            return found
        return self.metrics[name].value

    def reason(self, name: str) -> str:
        """Why there is no such value; empty where there is."""
        if name in PARTS:
            return self.parts.reason if isinstance(self.parts, Undecided) else ""
        return self.metrics[name].reason


def measurement(intervals: Sequence[Interval], roles: Sequence[str], basis: Basis) -> Measurement:
    """The intervals in which all of these roles were counted, as one; where there are none, all of them, whose counts
    then say why."""
    complete = [each for each in intervals if all(usable(each.counts.get(role)) for role in roles)]
    chosen = complete or intervals
    return Measurement(
        counts=summed([each.counts for each in chosen], tuple(roles)),
        seconds=sum(each.seconds for each in chosen),
        line_bytes=basis.line_bytes,
        verdicts=basis.verdicts,
    )


def covered(intervals: Sequence[Interval], roles: Sequence[str]) -> float:
    """The part of the time in which all of these roles were counted."""
    whole = sum(each.seconds for each in intervals)
    complete = sum(each.seconds for each in intervals if all(usable(each.counts.get(role)) for role in roles))
    return complete / whole if whole > 0 else 0.0


def figures(intervals: Sequence[Interval], basis: Basis) -> Figures:
    """What these intervals say together."""

    def measure(roles: tuple[str, ...]) -> Measurement:
        return measurement(intervals, roles, basis)

    metrics = {name: best(definitions, measure) for name, definitions in METRICS.items()}
    for level in LEVEL_ROLES:
        metrics[f"utilization.{level}"] = utilization(level, measure, basis.calibration.peaks)
    return Figures(parts=decomposed(intervals, basis), metrics=metrics)


def decomposed(intervals: Sequence[Interval], basis: Basis) -> Decomposition | Undecided:
    """Cycles by cause: from intervals that counted all that this needs, or else each role per cycle over the intervals
    that counted it beside the cycles."""
    at_once = decomposition.decompose(measurement(intervals, decomposition.ROLES_NEEDED, basis))
    if isinstance(at_once, Decomposition) or len(intervals) < 2:
        return at_once
    fractions: dict[str, float] = {}
    for role in decomposition.ROLES_NEEDED:
        own = measurement(intervals, ("cycles", role), basis)
        objection = own.objection("cycles") or own.objection(role)
        if objection or not own.value("cycles"):
            return Undecided(reason=objection or "no cycle was counted")
        fractions[role] = own.value(role) / own.value("cycles")
    return decomposition.of_fractions(fractions)


def estimated(intervals: Sequence[Interval], basis: Basis, name: str) -> Estimate | None:
    """One figure of the whole run with its error from interval to interval; None where it can't be made."""
    from setebench.stats.jackknife import jackknife  # scipy, which takes longer to load than most of the rest

    return jackknife(intervals, _statistic(name, basis))


def _statistic(name: str, basis: Basis) -> Callable[[Sequence[Interval]], float | None]:
    """How one figure is computed of some intervals, without the others."""

    def part(intervals: Sequence[Interval]) -> float | None:
        found = decomposed(intervals, basis)
        return getattr(found, name) if isinstance(found, Decomposition) else None

    def level(intervals: Sequence[Interval]) -> float | None:
        key = name.removeprefix("utilization.")
        return utilization(key, lambda roles: measurement(intervals, roles, basis), basis.calibration.peaks).value

    def metric(intervals: Sequence[Interval]) -> float | None:
        return best(METRICS[name], lambda roles: measurement(intervals, roles, basis)).value

    if name in PARTS:
        return part
    return level if name.startswith("utilization.") else metric


def saturated(figures_of: Figures, calibration: Calibration) -> bool | None:
    """Whether memory was saturated in that time (Helm and Taura 2019, section 7); None where it can't be decided."""
    latency = figures_of.value("load_miss_latency")
    if latency is None or calibration.saturation_cycles is None:
        return None
    return latency > calibration.saturation_cycles


SOCKET_METRICS = {"memory_read": MEMORY_READ, "memory_write": MEMORY_WRITE, "link_traffic": ("link_traffic",)}


def sockets(timeline: Timeline, basis: Basis) -> list[dict[str, Any]]:
    """Traffic of each socket, GB/s, by name; None with its reason beside it where it could not be made."""
    found = []
    for socket, counts in sorted(timeline.sockets.items()):
        own = Measurement(
            counts=counts, seconds=timeline.socket_seconds, line_bytes=basis.line_bytes, verdicts=basis.verdicts
        )
        metrics = {name: best(names, partial(_same, own)) for name, names in SOCKET_METRICS.items()}
        row: dict[str, Any] = {name: metric.value for name, metric in metrics.items()}
        reasons = {name: metric.reason for name, metric in metrics.items() if metric.reason}
        found.append({"socket": socket, **row, "reasons": reasons})
    return found


def _same(measurement: Measurement, _roles: tuple[str, ...]) -> Measurement:
    return measurement
