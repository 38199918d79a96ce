"""Timelines of programs whose limits are known, as a machine with a PMU would count them."""

from __future__ import annotations

from setebench.counters.counted import Interval
from setebench.counters.protocol import Count
from setebench.diagnose.records import Hit, Thread, Timeline

CYCLES = 300_000_000
"""Of a thread in an interval of 0.1 s at 3 GHz."""

BANDWIDTH_BOUND = {
    "cycles": CYCLES,
    "instructions": CYCLES // 2,
    "no_execute": 240_000_000,
    "stall_l1d_miss": 225_000_000,
    "stall_store_buffer": 30_000_000,
    "fb_full": 150_000_000,
    "sq_full": 30_000_000,
    "l1d_inflight_sum": 2_400_000_000,
    "l1d_inflight_cycles": 240_000_000,
    "load_l1_miss": 3_000_000,
    "load_fb_hit": 3_000_000,
    "mem_read": 15_000_000,
    "mem_write": 7_500_000,
    "task_clock": 100_000_000,
    "page_fault": 0,
    "context_switch": 2,
    "cpu_migration": 0,
    "hitm_local": 10,
    "hitm_remote": 0,
}
"""20 % productive, 60 % waiting for bandwidth; 9.6 GB/s read; a load miss takes 400 cycles, ten are in flight."""

CHASE = BANDWIDTH_BOUND | {
    "no_execute": 290_000_000,
    "stall_l1d_miss": 285_000_000,
    "stall_store_buffer": 0,
    "fb_full": 0,
    "sq_full": 0,
    "l1d_inflight_sum": 290_000_000,
    "l1d_inflight_cycles": 290_000_000,
    "load_l1_miss": 1_000_000,
    "load_fb_hit": 0,
    "mem_read": 1_000_000,
    "mem_write": 0,
}
"""95 % waiting for the latency of single loads, one miss in flight."""

TRIAD = {"function": "triad", "object": "/bin/stream", "line": "stream.c:12"}


def counted(values: dict[str, int]) -> dict[str, Count]:
    return {role: Count(role=role, value=value, enabled=10, running=10) for role, value in values.items()}


def timeline(values: dict[str, int], intervals: int = 20, wobble: int = 3) -> Timeline:
    """A program that does the same all the time, but for some parts in a hundred that come and go with the work."""
    found = []
    for number in range(intervals):
        factor = 1 + (number % 5 - 2) * wobble / 100
        counts = counted({role: round(value * factor) for role, value in values.items()})
        found.append(Interval(begin=number / 10, end=(number + 1) / 10, counts=counts))
    hits = tuple(Hit(interval=n, thread=7, samples=20, seconds=0.1, **TRIAD) for n in range(intervals))
    return Timeline(
        program=("stream",),
        intervals=tuple(found),
        roles=dict.fromkeys(values, ""),
        hits=hits,
        threads=(Thread(number=7, name="stream", cpu_seconds=intervals / 10),),
    )


def without(values: dict[str, int], *roles: str) -> dict[str, int]:
    return {role: value for role, value in values.items() if role not in roles}
