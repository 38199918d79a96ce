"""What faults (`spec.Fault`) make of the counts that are the events of roles."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from setebench.sim import layout as at
from setebench.sim.spec.pmu import Fault

Sums = NDArray[np.int64]
"""Counts as a vector, in the order of `layout.EVENTS`."""

TURN_NOISE = 0.1
"""What an event that takes turns counts differs by up to this fraction from its part of the time: events are not
spread evenly over it."""


INSTEAD = {
    "l1d_inflight_sum": ("in_flight_fours",),
    "stall_l1d_miss": ("stall_l1d_miss", "chain_wait"),
    "stall_load_any": ("stall_load_any", "chain_wait"),
}
"""What faulty events of these roles count, the sum of it: whole fours in each cycle, or the waiting of chains too."""


class Reading:
    """One event of one context: what is random about it is drawn when it is opened, so that two readings of it in a
    row agree. `fraction` is the part of the time in which it has a register."""

    def __init__(self, role: str, faults: tuple[Fault, ...], turns: float, rng: np.random.Generator) -> None:
        self._amounts: dict[str, float] = {fault.kind: fault.amount for fault in faults}
        counted = next((fault.role for fault in faults if fault.role), role)
        self._role = at.SAME.get(counted, counted)
        self.fraction = turns * self._amounts.get("multiplexed", 1.0)
        noise = 1.0 + TURN_NOISE * (2.0 * rng.random() - 1.0)
        self._seen = 1.0 if self.fraction == 1.0 else self.fraction * noise

    def value(self, alone: Sums, beside: Sums) -> int | None:
        """What reading the event gives for what was counted of lone threads and of those beside a running sibling
        thread; None where it never had a register."""
        amounts, role = self._amounts, self._role
        if "no_counter" in amounts:
            return None
        seen = alone + (1.0 - amounts.get("undercounts_smt", 0.0)) * beside
        instead = INSTEAD.get(role) if {"floor_per_cycle", "includes_other_stalls"} & {*amounts} else None
        count = sum(seen[at.EVENTS[name]] for name in instead or (role,))
        if "misses_prefetches" in amounts and f"{role}_prefetched" in at.EVENTS:
            count -= seen[at.EVENTS[f"{role}_prefetched"]]
        count = max(0.0, count) + amounts.get("background", 0.0) * seen[at.EVENTS["cycles"]]
        count *= 0.0 if "zero" in amounts else amounts.get("scaled", 1.0)
        return math.floor(float(count) * self._seen + 0.5)
