"""Stores to lines that other cores held, after prefetching them or not (Fang et al. 2014, 5.2.3 and Figure 5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from setebench.machine import Facts, Region, Ticks
from setebench.measure.layout import GROUP_PAGES, TLB_PAGE_BYTES
from setebench.measure.placing import BASELINE_ADDITIONS, SETTLE_CYCLES, Place
from setebench.probe import Probe
from setebench.scenario import Context

ADDITIONS, OWN, NONE = "additions", "own", "none"
"""Kinds beside hints: chained additions in place of the store (the baseline that time is counted from), a line that
this core wrote last, and a line that others hold and nobody prefetched."""


def one_cpu_per_core(facts: Facts, own: int) -> list[int]:
    """A CPU of every other core than the one that holds `own`."""
    return [min(cpus) for cpus in facts.siblings if own not in cpus]


def stores_after(
    context: Context, region: Region, own: int, others: Sequence[int], kinds: Sequence[str], repetitions: int
) -> dict[str, Ticks]:
    """Ticks of stores to lines that all `others` have loaded, by kind: a hint that prefetches the line first, or one of
    the three kinds above. A full fence behind the store waits until it is written. Shapes (n,)."""
    place = Place(context, region, "memory", 0.0)
    rng = context.fresh_rng(len(others))
    dealt = [kinds[n] for n in rng.permutation(np.arange(GROUP_PAGES) % len(kinds))]
    probe = place.placed().barrier().barrier()
    for number, kind in enumerate(dealt):
        probe = _store(probe, place, number, kind)
    probes = {own: probe, **{cpu: _holder(place) for cpu in others}}
    ticks = context.machine.run_together(probes, place.placements(repetitions + 2), warmup=2)[own]
    return {kind: ticks[:, [each == kind for each in dealt]].ravel() for kind in kinds}


def _holder(place: Place) -> Probe:
    """What the other cores do: load every line once this core has flushed them."""
    probe = Probe().barrier()
    for target in place.targets:
        probe = probe.load(target)
    return probe.fence().barrier()


def _store(probe: Probe, place: Place, number: int, kind: str) -> Probe:
    target = place.targets[number]
    probe = place.ready(probe, number, 1)
    if kind == OWN:
        probe = probe.store(target)
    elif kind not in (ADDITIONS, NONE):
        probe = probe.prefetch(target, kind)
    # stores may have a TLB of their own, which no load warms: another line of the page is stored to before
    page, offset = divmod(target.offset, TLB_PAGE_BYTES)
    beside = target.base + (page * TLB_PAGE_BYTES + (offset + TLB_PAGE_BYTES // 2) % TLB_PAGE_BYTES)
    probe = place.ready(probe.wait(SETTLE_CYCLES).fence(), number, 1).store(beside).fence().start(number)
    probe = probe.add(BASELINE_ADDITIONS) if kind == ADDITIONS else probe.store(target)
    return probe.fence().stop(number)
