"""The event of each role: which of the simulator's counts it is, and what faults (`spec.Fault`) make of that."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setebench.sim import layout as at
from setebench.sim.spec.pmu import Fault

Sums = NDArray[np.int64]
"""Counts as a vector, of the words of `layout.EVENTS`."""

TURN_NOISE = 0.1
"""What an event that takes turns counts differs by up to this fraction from its part of the time: events are not
spread evenly over it."""


class Event(NamedTuple):
    """Words whose sum is the event's count, those of it that hardware prefetchers cause, and what a faulty event counts
    instead (whole fours in each cycle, or the waiting of chains too)."""

    counted: tuple[int, ...]
    prefetched: tuple[int, ...] = ()
    instead: tuple[int, ...] = ()


_READS = Event((at.E_MEMORY_READS,), (at.E_MEMORY_READS_HARDWARE,))
_WRITES = Event((at.E_MEMORY_WRITES,))

EVENTS = {
    "cycles": Event((at.E_CYCLES,)),
    "instructions": Event((at.E_INSTRUCTIONS,)),
    "load": Event((at.E_LOADS,)),
    "store": Event((at.E_STORES,)),
    "fp_op": Event((at.E_FP_OPS,)),
    "load_l1_miss": Event((at.E_LOAD_L1_MISSES,)),
    "load_fb_hit": Event((at.E_LOAD_IN_FLIGHT_HITS,)),
    "l1d_fill": Event((at.E_L1_MISSES, at.E_L1_PREFETCH_MISSES, at.E_L1_HARDWARE), (at.E_L1_HARDWARE,)),
    "l1d_writeback": Event((at.E_L1_WRITEBACKS,)),
    "l2_rfo": Event((at.E_L1_STORE_MISSES, at.E_STORE_UPGRADES)),
    "l2_rfo_miss": Event((at.E_L2_STORE_MISSES,)),
    "l2_fill": Event((at.E_L2_FILLS,), (at.E_L2_FILLS_HARDWARE,)),
    "l2_writeback": Event((at.E_L2_WRITEBACKS,)),
    "offcore_mem_read": _READS,
    "mem_read": _READS,
    "mem_write": _WRITES,
    "home_read": _READS,
    "home_write": _WRITES,
    "hitm_local": Event((at.E_LOADS_OF_MODIFIED,)),
    "l1d_inflight_sum": Event((at.E_IN_FLIGHT_SUM,), instead=(at.E_IN_FLIGHT_FOURS,)),
    "l1d_inflight_cycles": Event((at.E_IN_FLIGHT_CYCLES,)),
    "no_execute": Event((at.E_IDLE_CYCLES,)),
    "stall_l1d_miss": Event((at.E_MISS_WAIT_CYCLES,), instead=(at.E_MISS_WAIT_CYCLES, at.E_CHAIN_WAIT_CYCLES)),
    "stall_load_any": Event((at.E_LOAD_WAIT_CYCLES,), instead=(at.E_LOAD_WAIT_CYCLES, at.E_CHAIN_WAIT_CYCLES)),
    "stall_store_buffer": Event((at.E_STORES_FULL_CYCLES,)),
    "fb_full": Event((at.E_L1_FULL_CYCLES,)),
    "sq_full": Event((at.E_L2_FULL_CYCLES,)),
}


class Reading:
    """One event of one context: what is random about it is drawn when it is opened, so that two readings of it in a
    row agree. `fraction` is the part of the time in which it has a register."""

    def __init__(self, role: str, faults: tuple[Fault, ...], turns: float, rng: np.random.Generator) -> None:
        self._amounts: dict[str, float] = {fault.kind: fault.amount for fault in faults}
        self._event = EVENTS[next((fault.role for fault in faults if fault.role), role)]
        self.fraction = turns * self._amounts.get("multiplexed", 1.0)
        noise = 1.0 + TURN_NOISE * (2.0 * rng.random() - 1.0)
        self._seen = 1.0 if self.fraction == 1.0 else self.fraction * noise

    def value(self, alone: Sums, beside: Sums) -> int | None:
        """What reading the event gives for what was counted of lone threads and of those beside a running sibling
        thread; None where it never had a register."""
        amounts, event = self._amounts, self._event
        if "no_counter" in amounts:
            return None
        seen = alone + (1.0 - amounts.get("undercounts_smt", 0.0)) * beside
        instead = "floor_per_cycle" in amounts or "includes_other_stalls" in amounts
        count = seen[list(event.instead if instead and event.instead else event.counted)].sum()
        count -= seen[list(event.prefetched)].sum() if "misses_prefetches" in amounts else 0.0
        count = max(0.0, count) + amounts.get("background", 0.0) * seen[at.E_CYCLES]
        count *= 0.0 if "zero" in amounts else amounts.get("scaled", 1.0)
        return math.floor(float(count) * self._seen + 0.5)
