"""What an event's readings say before anything is compared with a known volume, and what inference shares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.counters.roles import ROLES
from setebench.counters.verdicts import Kind, Verdict
from setebench.stats.estimate import Estimate, over_epochs

from .observe import Observations, Observed
from .params import Params
from .workloads import BESIDE, Workload

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """All that is known when an event is judged: its readings, the workloads by name, the tunables, the levels whose
    traffic holds prefetched lines, and whether levels beyond the second are `numbered`."""

    observations: Observations
    workloads: Mapping[str, Workload]
    params: Params
    prefetched: frozenset[str]
    numbered: bool

    def level(self, role: str) -> str:
        """The level whose traffic a role is here: what lies beyond L2 is memory where no third cache was found."""
        level = ROLES[role].level
        return "memory" if level == "l3" and "l3_chase" not in self.workloads else level

    def sure_level(self, role: str) -> str:
        """The same, empty where it rests on a third cache not having been found, which may be there all the same."""
        return self.level(role) if self.numbered or self.level(role) == ROLES[role].level else ""

    def kinds(self, role: str) -> set[Kind]:
        """What readings say of the event before anything is inferred: whether they wrapped."""
        return {Kind.WRAPS} if self.observations.roles[role].wrapped else set()

    def slope(self, role: str, name: str) -> Numbers:
        """Events per repetition of a workload, by epoch; empty where it was not counted."""
        series = self.observations.series(role, name)
        return np.empty(0) if series is None else series.slopes()

    def cycles(self, role: str, name: str) -> Numbers:
        """Elapsed cycles per repetition, in the same epochs."""
        series = self.observations.series(role, name)
        return np.empty(0) if series is None else series.elapsed()

    def table(self) -> dict[str, dict[str, dict[str, float | None]]]:
        """By role and workload: events per repetition, what it should be (None where that is not known), the spread
        between epochs, and the cycles that it took where they were timed."""
        return {
            role: {name: self._row(role, name) for name in observed.series}
            for role, observed in self.observations.roles.items()
        }

    def _row(self, role: str, name: str) -> dict[str, float | None]:
        found = self.slope(role, name)
        volume = self.workloads[name].volumes.get(role)
        if not len(found):
            return {"events": None, "known": volume, "spread": None, "cycles": None}
        cycles = float(self.cycles(role, name).mean())
        return {"events": float(found.mean()), "known": volume, "spread": float(found.std()), "cycles": cycles}

    def difference(self, role: str, larger: str, smaller: str) -> Numbers:
        """Events that the larger of two workloads causes beyond the smaller one, by epoch."""
        return common(self.slope(role, larger), self.slope(role, smaller))


def common(first: Numbers, second: Numbers) -> Numbers:
    """Difference of two series of epochs; of equally many, as an epoch with a wrapped reading may be missing."""
    count = min(len(first), len(second))
    return first[:count] - second[:count]


def unusable(role: str, observed: Observed) -> Verdict | None:
    """The verdict where readings alone decide: there were none, none was whole, or all are zero."""
    values = [series.counts for series in observed.series.values()]
    readings = np.concatenate([each.ravel() for each in values]) if values else np.empty(0)
    if observed.missing and np.isnan(readings).all():
        return Verdict(role=role, kinds=(Kind.UNAVAILABLE,), reason=observed.missing)
    if not len(readings):
        return Verdict(role=role, reason="no workload of known volume could be run on this machine")
    if observed.shared and np.nansum(readings) == 0:
        return Verdict(role=role, kinds=(Kind.ZERO,))
    if observed.shared:
        of = f"{observed.shared} of {observed.readings} readings"
        return Verdict(role=role, kinds=(Kind.MULTIPLEXED,), reason=f"the counter ran for a part of the time in {of}")
    return None


def background(role: str, evidence: Evidence, scale: float) -> bool:
    """Whether events come while nothing happens: more, in the time of a line from memory, than a part of one."""
    idle = evidence.slope(role, "idle")
    if not len(idle) or evidence.workloads["idle"].volumes.get(role) != 0:
        return False
    per_line = over_epochs(idle / evidence.params.work_cycles * evidence.params.line_cycles)
    return per_line.low > evidence.params.background * scale


def bent(role: str, evidence: Evidence, name: str) -> bool:
    """Whether twice the work doesn't bring twice the events."""
    series = evidence.observations.series(role, name)
    values = np.empty(0) if series is None else series.bends()
    bend = over_epochs(values[~np.isnan(values)])
    return bend.outside(-2 * evidence.params.trust, 2 * evidence.params.trust)


def undercounts(role: str, evidence: Evidence, name: str) -> bool:
    """Whether fewer events are counted while the core's other thread is busy."""
    return lost(evidence.slope(role, name), evidence.slope(role, name + BESIDE), evidence.params)


def lost(alone: Numbers, beside: Numbers, params: Params) -> bool:
    """Whether clearly less comes beside a busy sibling thread, by epoch."""
    count = min(len(alone), len(beside))
    if not count or not alone[:count].all():
        return False
    return over_epochs(beside[:count] / alone[:count]).high < 1 - params.smt_loss


def scaled(scale: Estimate, params: Params) -> tuple[tuple[Kind, ...] | None, str]:
    """What a scale says: no kind where it is 1, SCALED where it is not, None and a reason where it is not known."""
    if scale.within(1 - params.trust, 1 + params.trust):
        return (), ""
    if scale.outside(1 - params.trust, 1 + params.trust) and scale.low > 0:
        return (Kind.SCALED,), ""
    interval = f"[{scale.low:.3f}, {scale.high:.3f}]"
    return None, f"counts {scale.value:.3f} per event, {interval}: neither within {params.trust:.0%} of one nor off it"


def undecided(role: str, scale: Estimate, reason: str) -> Verdict:
    """The verdict on an event whose scale's interval is too wide for one; more epochs may make it narrower."""
    return _per_count(Verdict(role=role, reason=reason), scale) if scale.low > 0 else Verdict(role=role, reason=reason)


def decided(role: str, kinds: Iterable[Kind], scale: Estimate) -> Verdict:
    """The verdict on an event of known scale; trusted where there is no other kind."""
    return _per_count(found(role, kinds), scale)


def found(role: str, kinds: Iterable[Kind], reason: str = "") -> Verdict:
    """The verdict of these kinds in their order; trusted where there is none."""
    own = set(kinds)
    return Verdict(role=role, kinds=tuple(kind for kind in Kind if kind in own) or (Kind.TRUSTED,), reason=reason)


def _per_count(verdict: Verdict, scale: Estimate) -> Verdict:
    """With what one count stands for: the scale is counts per event."""
    low, high = sorted((1 / scale.low, 1 / scale.high))
    return msgspec.structs.replace(verdict, scale=1 / scale.value, scale_low=low, scale_high=high)
