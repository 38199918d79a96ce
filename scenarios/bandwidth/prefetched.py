"""Whether streams of prefetches bring their lines: a prefetch that is dropped takes no time and moves no bytes."""

from __future__ import annotations

import numpy as np

from setebench.experiments.lines.placing import SETTLE_CYCLES, flushed
from setebench.kernels import Kernel
from setebench.machine import run_interleaved
from setebench.probe import Base, Probe
from setebench.scenario import Context

PREFETCHED_BYTES = 16384
"""Of lines that prefetches must bring: many times what a core has in flight."""

BROUGHT = 0.9
"""Of them, or prefetches were dropped."""


def why_dropped(context: Context, kernel: Kernel) -> str:
    """Why a stream of prefetches says nothing of bandwidth; "" where its lines arrive."""
    share = min(_brought_share(context, kernel, rolled) for rolled in kernel.forms)
    if share >= BROUGHT:
        return ""
    return f"only {max(share, 0.0):.0%} of the lines arrived: prefetches are dropped when they come too fast"


def _brought_share(context: Context, kernel: Kernel, rolled: bool) -> float:
    """What part of lines in memory a stream of prefetches really brings: some cores drop prefetches that come too
    fast. By the time of loading the lines afterwards, between that of lines left alone and that of cached ones."""
    machine, base = context.machine, Base("lines")
    region = machine.allocate(PREFETCHED_BYTES, min(machine.facts.page_sizes))
    away = flushed(base, PREFETCHED_BYTES, machine.facts.line_size)
    loads = Probe().start().stream(base, "load", PREFETCHED_BYTES, 8).stop()
    prefetches = Probe().stream(base, kernel.name, PREFETCHED_BYTES, rolled=rolled)
    between = (Probe(), prefetches, Probe().stream(base, "load", PREFETCHED_BYTES, 8))
    probes = [(away + each).fence().wait(SETTLE_CYCLES).fence() + loads for each in between]
    placements = np.full(64, region.address)
    try:
        found = run_interleaved(machine, probes, {base: placements}, context.rng(3), cpu=context.cpu, block=8)
    finally:
        machine.release(region)
    cold, fetched, warm = (float(np.median(ticks)) for ticks in found)
    return (cold - fetched) / max(cold - warm, 1.0)
