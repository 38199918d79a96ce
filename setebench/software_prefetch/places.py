"""Prefetches in special places: outside the page of the latest load, without a translation, in pages never touched."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from setebench.errors import UnsupportedError
from setebench.infer import held_up
from setebench.infer import software_prefetch as infer
from setebench.infer.software_prefetch import Answer
from setebench.measure.calibrate import quick_cycles_per_tick
from setebench.results import Finding
from setebench.software_prefetch import translation
from setebench.software_prefetch.heeded import unless_ignored
from setebench.software_prefetch.run import Run
from setebench.software_prefetch.ways import Way, nothing, prefetched_from_elsewhere, side_by_side


def across_page(run: Run) -> Iterator[Finding]:
    """Whether a prefetch outside the page of the latest load is done."""
    run.context.progress("prefetches outside the page of the latest load")
    ways: dict[str, Way] = {"elsewhere": prefetched_from_elsewhere(run.hint), "": nothing}
    ticks = side_by_side(run.context, run.region, "memory", ways, run.samples // 4)
    found = unless_ignored(run, infer.done(run.shares(*ticks.values()), 0, 1))
    run.across_page = found.value if isinstance(found.value, bool) else None
    method = f"prefetch {run.hint} right behind a load from another page, both translations warm"
    yield found.finding("software_prefetch.across_page", "bool", method)


def on_tlb_miss(run: Run) -> Iterator[Finding]:
    """Whether a prefetch is done that misses the first TLB, or both."""
    per_tick = quick_cycles_per_tick(run.context)
    walks = []
    table = []
    for pages in translation.walk_lengths(run.region):
        ticks = translation.behind_walk(run.context, run.region, pages, run.hint, run.samples)
        cost = held_up.penalty(ticks.cold, ticks.warm, run.step, per_tick)
        shares = run.shares(ticks.prefetched, ticks.baseline)
        walks.append((pages, cost, unless_ignored(run, infer.done(shares, 0, 1))))
        table.append({"pages": pages, "penalty_cycles": cost.cycles, "still_in_memory": shares.of("memory").tolist()})
        if len(walks) > 1 and cost.above(walks[0][1]):
            break  # the longest walk is only needed where shorter ones leave every translation in some TLB
    run.context.evidence["page_walks"] = table
    method = f"prefetch {run.hint} behind a walk over many pages"
    for level, found in zip(("l1", "l2"), held_up.on_tlb_misses(walks, run.across_page), strict=True):
        yield found.finding(f"software_prefetch.on_tlb_miss.{level}", "bool", method, "page_walks")


def on_page_fault(run: Run) -> Iterator[Finding]:
    """Whether a prefetch of a page that was never touched is done."""
    run.context.progress("prefetches of pages that were never touched")
    parameter = "software_prefetch.on_page_fault"
    method = f"prefetch {run.hint} of a fresh page, then its first touch"
    try:
        ticks = translation.first_touches(run.context, run.hint, 16 if run.context.fast else 32)
    except UnsupportedError as error:
        yield Answer(reason=str(error)).finding(parameter, "bool", method)
        return
    medians = {name: [float(np.median(each)) for each in pair] for name, pair in zip(ticks._fields, ticks, strict=True)}
    run.context.evidence["first_touches"] = {"median_ticks": medians, "order": ["prefetched", "not prefetched"]}
    cached = infer.done(run.shares(*ticks.line), 0, 1)
    touched, untouched = medians["touch"]
    found = unless_ignored(run, held_up.on_page_fault(touched, untouched, cached, run.memory_ticks))
    yield found.finding(parameter, "bool", method, "first_touches")
