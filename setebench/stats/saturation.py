"""Find the knee of a curve of memory latency over bandwidth, and saturated memory (Helm and Taura 2019, 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Params:
    """Thresholds of a curve of latency over bandwidth: the latency at its knee, and the gain in bandwidth by one thread
    more below which memory is saturated."""

    knee: float = 1.5  # ratio of latency at the knee to idle latency (Helm and Taura): half a request more is queued
    little_more: float = 1.03  # least ratio of bandwidths that counts as a gain: peaks of repeated runs differ by less


class Load(NamedTuple):
    """One point of the curve: the number of loading `threads`, their `delay` (no-operations between accesses; 0 is full
    load), the `bandwidth` of all threads together in GB/s, and the `latency` of a load at the same time in ns."""

    threads: int
    delay: int
    bandwidth: float
    latency: float


def knee_bandwidth(loads: Sequence[Load], idle: float, params: Params) -> float | None:
    """Return the bandwidth in GB/s at which latency passes `params.knee` times the `idle` latency (ns), interpolated
    between two load points; None if latency doesn't pass that limit. As latency scatters, the knee is the lowest
    bandwidth from which on all latencies are above the limit."""
    limit, ordered = params.knee * idle, sorted(loads, key=lambda load: load.bandwidth)
    first = max((number + 1 for number, load in enumerate(ordered) if load.latency <= limit), default=0)
    if first == len(ordered):
        return None
    around = ordered[max(first - 1, 0) : first + 1]
    return float(np.interp(limit, [load.latency for load in around], [load.bandwidth for load in around]))


def saturated(loads: Sequence[Load], idle: float, params: Params) -> bool:
    """Return whether the load points show saturated memory: at some delay, the largest number of threads got no more
    bandwidth than one thread fewer, and both latencies were above the knee. Two thread counts are compared since a
    single thread may be limited by its own core instead. `idle` is the idle latency in ns."""
    threads = sorted({load.threads for load in loads})
    if len(threads) < 2 or threads[-1] - threads[-2] != 1:
        return False
    before = {load.delay: load for load in loads if load.threads == threads[-2]}
    pairs = [(before[load.delay], load) for load in loads if load.threads == threads[-1] and load.delay in before]
    return any(
        more.bandwidth <= params.little_more * less.bandwidth and min(less.latency, more.latency) >= params.knee * idle
        for less, more in pairs
    )
