"""What a curve of memory latency over load shows: the knee, and whether the memory was saturated (Helm and Taura 2019,
4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Params:
    """The knee is where latency passes `knee` times the idle one, as Helm and Taura put it; queues of a memory
    controller then hold half a request more on average. A thread that brings less than `little_more` times the rate
    brings nothing: peaks of repeated runs differ by as much."""

    knee: float = 1.5
    little_more: float = 1.03


class Load(NamedTuple):
    """One load point: loading threads, their delay, GB/s of all threads together, latency in ns beside them."""

    threads: int
    delay: int
    bandwidth: float
    latency: float


def knee_bandwidth(loads: Sequence[Load], idle: float, params: Params) -> float | None:
    """GB/s at which latency passes the knee over `idle`, between the load points around it; None if it never does.

    Latency may scatter: what counts is the lowest load from which on it stays above."""
    limit, ordered = params.knee * idle, sorted(loads, key=lambda load: load.bandwidth)
    first = max((number + 1 for number, load in enumerate(ordered) if load.latency <= limit), default=0)
    if first == len(ordered):
        return None
    around = ordered[max(first - 1, 0) : first + 1]
    return float(np.interp(limit, [load.latency for load in around], [load.bandwidth for load in around]))


def saturated(loads: Sequence[Load], idle: float, params: Params) -> bool:
    """Whether memory was seen to give no more: with the same delay one more thread brought nothing, and latency had
    passed the knee with and without it. A rate that one thread alone can't raise is that thread's limit."""
    threads = sorted({load.threads for load in loads})
    if len(threads) < 2 or threads[-1] - threads[-2] != 1:
        return False
    before = {load.delay: load for load in loads if load.threads == threads[-2]}
    pairs = [(before[load.delay], load) for load in loads if load.threads == threads[-1] and load.delay in before]
    return any(
        more.bandwidth <= params.little_more * less.bandwidth and min(less.latency, more.latency) >= params.knee * idle
        for less, more in pairs
    )
