"""What a faulty event makes of its count: the faults of `spec_pmu.Fault`, alone or one on top of another."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from setebench.sim.pmu.roles import EVENTS, Event, Sums, Words, in_ledger
from setebench.sim.spec.pmu import Fault

COUNTER_BITS = 48
SOON = 64
"""A counter that overflows within a reading does so within its first so many events."""

TURN_NOISE = 0.1
"""What an event that takes turns counts differs by up to this fraction from its part of the time: events are not
spread evenly over it."""


@dataclass(frozen=True)
class Watched:
    """Counts of all runs so far, of lone threads and of those beside a running sibling thread."""

    alone: Sums
    beside: Sums

    def sum(self, words: Words, lost: float) -> float:
        """These words of both, less the fraction `lost` beside a sibling."""
        at = list(words)
        return float(self.alone[at].sum()) + (1.0 - lost) * float(self.beside[at].sum())


class Reading:
    """One event of one context: what is random about it is drawn when it is opened, so that two readings of it in a
    row agree. `fraction` is the part of the time in which it has a register."""

    def __init__(self, role: str, faults: tuple[Fault, ...], turns: float, rng: np.random.Generator) -> None:
        self._faults = {fault.kind: fault for fault in faults}
        other = self._faults.get("other_level")
        self._event = EVENTS[other.role or role if other else role]
        luck, place, negative, noise = rng.random(4)
        self._overflows_at = 1 + int(place * SOON) if luck < self._amount("wraps") else 0
        self._negative = negative < 0.5
        self.fraction = turns * self._amount("multiplexed", 1.0)
        self._seen = 1.0 if self.fraction == 1.0 else self.fraction * (1.0 + TURN_NOISE * (2.0 * noise - 1.0))

    @property
    def needs_ledger(self) -> bool:
        """Whether counting it takes the cycle ledger: what happens in any cycle is counted in cycles."""
        return "background" in self._faults or in_ledger(self._event.counted)

    def value(self, watched: Watched) -> int | None:
        """What reading the event gives; None where it never had a register."""
        if "no_counter" in self._faults:
            return None
        if "zero" in self._faults:
            return 0
        lost = self._amount("undercounts_smt")
        count = max(0.0, self._counted(watched, lost))
        count += self._amount("background") * watched.sum(EVENTS["cycles"].counted, lost)
        count = count ** self._amount("nonlinear", 1.0) * self._amount("scaled", 1.0)
        return self._wrapped(math.floor(count * self._seen + 0.5))

    def _counted(self, watched: Watched, lost: float) -> float:
        event: Event = self._event
        words = event.counted
        if "floor_per_cycle" in self._faults:
            words = event.floors
        elif "includes_other_stalls" in self._faults:
            words = event.chains
        count = watched.sum(words, lost)
        if "misses_prefetches" in self._faults:
            count -= watched.sum(event.prefetched, lost)
        if "no_stores" in self._faults:
            count -= watched.sum(event.stored, lost)
        return count * event.each

    def _wrapped(self, count: int) -> int:
        if not self._overflows_at or count < self._overflows_at:
            return count
        wrapped = count - (1 << COUNTER_BITS)
        return wrapped if self._negative else wrapped + (1 << 64)

    def _amount(self, kind: str, otherwise: float = 0.0) -> float:
        fault = self._faults.get(kind)  # type: ignore[call-overload]
        return otherwise if fault is None else float(fault.amount)
