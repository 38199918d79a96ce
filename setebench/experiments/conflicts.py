"""Lines that share sets of the first cache by their addresses: rings of them, and short sequences of loads.

A ring is chased round and round beside its control, as many lines of the same pages spread over all sets: what the two
differ by is what conflicts cost, without translations and drift. A sequence is loaded in program order, each load
waiting for the one before, beside the same sequence of pages with a line of another set in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.calibrate import step_ticks
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.experiments.lines.rings import cycles_per_tick, rings_cycles, shuffled
from setebench.machine import Region, run_interleaved
from setebench.probe import Base, Probe
from setebench.scenario import Context
from setebench.stats.ticks.location import mean_ticks

Lines = NDArray[np.int64]


@dataclass(frozen=True)
class Ring:
    """So many lines at a stride in bytes."""

    lines: int
    stride: int


def ring_excess(context: Context, region: Region, ring: Ring, rng: np.random.Generator) -> float:
    """Cycles per step of a ring above those of its control, anywhere in the region."""
    line = region.line_size
    number = np.arange(ring.lines)
    span = max(ring.lines * ring.stride, TLB_PAGE_BYTES)
    begin = int(rng.integers(0, max(1, (region.size - span) // TLB_PAGE_BYTES))) * TLB_PAGE_BYTES
    at = region.address + begin + int(rng.integers(0, min(ring.stride, TLB_PAGE_BYTES) // line)) * line
    tight = at + number * ring.stride
    page = (tight - region.address) // TLB_PAGE_BYTES * TLB_PAGE_BYTES + region.address
    loose = page + (tight - page + number * line) % TLB_PAGE_BYTES
    orders = [shuffled(context, each) for each in (tight, np.unique(loose))]
    own, control = rings_cycles(context, region, orders)
    return own - control


def sequence_excess(
    context: Context, sets: Sequence[Lines], sequences: Sequence[Lines], timed: int, repetitions: int
) -> NDArray[np.float64]:
    """Cycles that the last `timed` loads of each sequence take above their control's, shape (sequences,).

    Sequences hold numbers of lines, from 0 on; which line of which of `sets` (addresses that share a set and lie in
    pages of their own, shape (lines,), more than any sequence names) a number stands for is drawn anew for every
    repetition."""
    rng = context.rng(41)
    count = max(int(each.max()) for each in sequences) + 1
    bases, spread = ([Base(f"{name}_{number}") for number in range(count)] for name in ("line", "other"))
    probes = [_chain(each, chosen, timed) for each in sequences for chosen in (bases, spread)]
    lines = np.array([rng.permutation(sets[int(rng.integers(len(sets)))])[:count] for _ in range(repetitions)])
    page = lines - lines % TLB_PAGE_BYTES
    others = page + (lines - page + (1 + np.arange(count)) * context.machine.facts.line_size) % TLB_PAGE_BYTES
    table = dict(zip(bases + spread, np.concatenate([lines.T, others.T]), strict=True))
    places = [{base: table[base] for base in probe.bases} for probe in probes]
    ticks = run_interleaved(context.machine, probes, places, rng, cpu=context.cpu)
    means = np.array([mean_ticks(each.ravel(), step_ticks(context)) for each in ticks]).reshape(-1, 2)
    excess: NDArray[np.float64] = (means[:, 0] - means[:, 1]) * cycles_per_tick(context)
    return excess


def _chain(sequence: Lines, bases: Sequence[Base], timed: int) -> Probe:
    probe = Probe()
    for at, number in enumerate(sequence.tolist()):
        if at == len(sequence) - timed:
            probe = probe.fence().start()
        probe = probe.load(bases[number], after=-1 if at else None)
    return probe.stop()
