"""The TLBs of small and of large pages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from setebench.hierarchy.findings import tlb_findings, without_second
from setebench.hierarchy.second_tlb import second_table
from setebench.hierarchy.tlb import Pages, Table, first_table, still
from setebench.machine import Region
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.results import Finding
from setebench.scenario import Context

from .known import Known

HUGE_PAGE = 2 << 20
HUGE_BYTES, HUGE_SHARE = 12 << 30, 0.75
"""Address space for large pages at most, and of what the machine offers; only pages that are used take memory."""

MOST_HUGE_PAGES = 320
"""Large pages that are used at most: 640 MiB."""

SPLINTER_BYTES = 16 << 20
SCATTERED_SHARE = 0.25
"""Of the second cache's lines, so many of random pages stay there, and as many again that prefetchers bring: with two
lines in a set on average, one set in some thousand gets more than eight."""


def small_tables(context: Context, region: Region, known: Known, fits: int = 0) -> tuple[Table, Table]:
    context.progress("TLBs, small pages")
    pages = Pages(context, region, TLB_PAGE_BYTES, known.most_lines, known.way_bytes)
    return _tables(pages, "4k", _scattered(known, region), fits)


def _scattered(known: Known, region: Region) -> int:
    """Lines that surely stay in the second cache, one in a page."""
    second = known.outer.get("l2")
    return 0 if second is None else int(SCATTERED_SHARE * second.geometry.held_bytes / region.line_size)


def _tables(pages: Pages, name: str, second_cache_lines: int = 0, fits: int = 0) -> tuple[Table, Table]:
    """Both TLBs. The first one is looked at again when the second one is known: not all that others do ends within the
    moment that one search takes."""
    first = first_table(pages, fits)
    second = second_table(pages, first, second_cache_lines)
    pages.context.evidence[f"tlb_{name}"] = pages.evidence
    return still(pages, first), second


def told(name: str, tables: tuple[Table, Table]) -> Iterator[Finding]:
    for level, table in zip(("l1", "l2"), tables, strict=True):
        yield from tlb_findings(level, name, table)


def large_pages(context: Context, small: tuple[Table, Table], known: Known) -> Iterator[Finding]:
    """The TLBs for 2 MiB pages. Where a hypervisor splinters them, their 4 KiB parts are what the TLB holds."""
    facts = context.machine.facts
    if HUGE_PAGE not in facts.page_sizes:
        return
    if small[0].entries is None or small[0].penalty is None:
        reason = "the first TLB for small pages is not known, so whether the system splinters large ones can't be told"
        yield from told("2m", (Table(reason=reason), Table(reason=reason)))
        return
    context.progress("TLBs, large pages")
    fits = held = 0
    if _splintered(context, small[0], known):
        region = context.machine.allocate(SPLINTER_BYTES * 8, HUGE_PAGE)
        pages = Pages(context, region, TLB_PAGE_BYTES, known.most_lines, known.way_bytes)
        context.evidence["splintered"] = True
        fits, held = small[0].entries, _scattered(known, region)
    else:
        wanted = min(HUGE_BYTES, int(HUGE_SHARE * facts.memory_bytes)) // HUGE_PAGE * HUGE_PAGE
        region = context.machine.allocate(wanted, HUGE_PAGE, populate=False)
        pages = Pages(context, region, HUGE_PAGE, min(known.most_lines, MOST_HUGE_PAGES), known.way_bytes)
    try:
        first, second = _tables(pages, "2m", held, fits)
    finally:
        context.machine.release(region)
    yield from told("2m", (first, without_second(first, second, *small)))


def _splintered(context: Context, small: Table, known: Known) -> bool:
    """Whether 4 KiB parts of large pages use up TLB entries one each."""
    if small.entries is None or small.penalty is None:
        return False
    region = context.machine.allocate(SPLINTER_BYTES, HUGE_PAGE)
    try:
        pages = Pages(context, region, TLB_PAGE_BYTES, known.most_lines, known.way_bytes)
        count = min(2 * small.entries, pages.reach(1))
        return float(np.median([pages.excess(count, 1) for _ in range(3)])) > small.penalty / 2
    finally:
        context.machine.release(region)
