"""Which of a simulated machine's counts are the event of a role.

A run's counts are one vector: the event counts of the cores that ran, then the totals of the cycle ledgers of the CPUs
that ran. Each role is a sum of some of its words, and so are the parts that a faulty event leaves out or counts
instead.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.counters.roles import FLITS_PER_LINE
from setebench.sim import events as ev
from setebench.sim import layout as at
from setebench.sim.arrays import Arrays

Words = tuple[int, ...]
Sums = NDArray[np.int64]
"""Counts as a vector of `COUNT_WORDS`."""

COUNT_WORDS = ev.EVENT_WORDS + at.LG_RING


def _ledger(word: int) -> int:
    return ev.EVENT_WORDS + word


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Words whose sum is the event's count, those of it that hardware prefetchers cause (`prefetched`) and that stores
    cause (`stored`), and what is counted instead by an event that counts whole fours in each cycle (`floors`), or the
    waiting of chains too (`chains`). Empty where there is no such part. `each`: counts for every one of them."""

    counted: Words
    each: int = 1
    prefetched: Words = ()
    stored: Words = ()
    floors: Words = ()
    chains: Words = ()


_MEMORY = Event(counted=(ev.E_MEMORY_READS,), prefetched=(ev.E_MEMORY_HARDWARE,), stored=(ev.E_MEMORY_STORES,))
_REMOTE = Event(counted=(ev.E_REMOTE_READS,), prefetched=(ev.E_REMOTE_HARDWARE,))
_WRITES = Event(counted=(ev.E_MEMORY_WRITES,))

EVENTS = {
    "cycles": Event(counted=(_ledger(at.LG_CYCLES),)),
    "instructions": Event(counted=(_ledger(at.LG_INSTRUCTIONS),)),
    "load": Event(counted=(ev.E_LOADS,)),
    "store": Event(counted=(ev.E_STORES,)),
    "fp_op": Event(counted=(_ledger(at.LG_FP_OPS),)),
    "load_l1_miss": Event(counted=(ev.E_LOAD_MISSES,)),
    "load_fb_hit": Event(counted=(ev.E_LOAD_IN_FLIGHT,)),
    "l1d_fill": Event(
        counted=(ev.E_L1_MISSES, ev.E_L1_PREFETCH_MISSES, ev.E_HARDWARE_L1),
        prefetched=(ev.E_HARDWARE_L1,),
        stored=(ev.E_L1_STORE_MISSES,),
    ),
    "l1d_writeback": Event(counted=(ev.E_L1_WRITEBACKS,)),
    "l2_rfo": Event(counted=(ev.E_L1_STORE_MISSES, ev.E_STORE_UPGRADES)),
    "l2_rfo_miss": Event(counted=(ev.E_L2_STORE_MISSES,)),
    "l2_fill": Event(counted=(ev.E_L2_FILLS,), prefetched=(ev.E_L2_FILLS_HARDWARE,), stored=(ev.E_L2_STORE_MISSES,)),
    "l2_writeback": Event(counted=(ev.E_L2_WRITEBACKS,)),
    "offcore_mem_read": _MEMORY,
    "mem_read": _MEMORY,
    "mem_write": _WRITES,
    "home_read": _MEMORY,
    "home_write": _WRITES,
    "hitm_local": Event(counted=(ev.E_LOADS_OF_MODIFIED,)),
    "l1d_inflight_sum": Event(counted=(_ledger(at.LG_IN_FLIGHT),), floors=(_ledger(at.LG_FLOORS),)),
    "l1d_inflight_cycles": Event(counted=(_ledger(at.LG_IN_FLIGHT_CYCLES),)),
    "no_execute": Event(counted=(_ledger(at.LG_NOT_EXECUTING),)),
    "stall_l1d_miss": Event(counted=(_ledger(at.LG_STALL_L1_MISS),), chains=(_ledger(at.LG_CHAIN_L1_MISS),)),
    "stall_load_any": Event(counted=(_ledger(at.LG_STALL_LOAD),), chains=(_ledger(at.LG_CHAIN_LOAD),)),
    "stall_store_buffer": Event(counted=(_ledger(at.LG_STORES_FULL),)),
    "fb_full": Event(counted=(_ledger(at.LG_FB_FULL),)),
    "sq_full": Event(counted=(_ledger(at.LG_SQ_FULL),)),
    "remote_read": _REMOTE,
    "link_flit": msgspec.structs.replace(_REMOTE, each=FLITS_PER_LINE),
}
"""The event of each simulated role."""


def in_ledger(words: Words) -> bool:
    """Whether any of these words is kept in the cycle ledger."""
    return any(word >= ev.EVENT_WORDS for word in words)


def forget_rest(arrays: Arrays) -> None:
    """Drop what the last run with a cycle ledger left behind, so that it is not counted in another context."""
    c, s = arrays.c, arrays.s
    for cpu in range(int(c[at.C_CORES] * c[at.C_SMT])):
        ledger = s[int(c[at.C_LEDGER]) + cpu * at.LG_WORDS :][: at.LG_WORDS]
        if ledger[at.LG_LAST] >= ledger[at.LG_SETTLED] > 0:
            ledger[at.LG_RING :] = 0
            ledger[at.LG_NOW] = ledger[at.LG_NOW_SECOND] = 0
            ledger[at.LG_LAST] = ledger[at.LG_SETTLED] - 1


def counts_so_far(arrays: Arrays, cpus: Iterable[int]) -> Sums:
    """Everything that was counted until now on these CPUs and their cores."""
    c, s = arrays.c, arrays.s
    cpus = tuple(cpus)
    total = np.zeros(COUNT_WORDS, dtype=np.int64)
    for core in {cpu % int(c[at.C_CORES]) for cpu in cpus}:
        first = int(c[at.C_EVENTS]) + core * ev.EVENT_WORDS
        total[: ev.EVENT_WORDS] += s[first : first + ev.EVENT_WORDS]
    for cpu in cpus:
        first = int(c[at.C_LEDGER]) + cpu * at.LG_WORDS
        total[ev.EVENT_WORDS :] += s[first : first + at.LG_RING]
    total[_ledger(at.LG_NOT_EXECUTING)] = total[_ledger(at.LG_CYCLES)] - total[_ledger(at.LG_EXECUTING)]
    return total
