"""What the levels are: data caches, TLBs, page faults, other cores, found by measuring.

A guest may be told anything by its hypervisor, so nothing of it is asked of the system. Caches and TLBs are read from
chases round and round over few, well chosen lines: they cost one latency per step until the first set is overfull.
Fang et al. 2014: Table II (page faults), Figure 1 (thread starts), Figure 3 (lines of other cores).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from setebench.hierarchy.cores import STATES, Transfers, cpu_pairs, further_cpu, smt_latency, start_spread
from setebench.hierarchy.faults import FirstTouches
from setebench.hierarchy.findings import (
    OWN_RATIO,
    cache_findings,
    fault_finding,
    line_findings,
    measured,
    no_sharing_finding,
    tlb_findings,
    transfer_finding,
    walked_finding,
    without_second,
)
from setebench.hierarchy.first_level import first_level, line_size
from setebench.hierarchy.included import inclusion_findings
from setebench.hierarchy.outer import Outer
from setebench.hierarchy.outer_levels import outer_levels
from setebench.hierarchy.private_walk import private_walk
from setebench.hierarchy.second_tlb import second_table
from setebench.hierarchy.system import beside, system_says
from setebench.hierarchy.tlb import LINES_SHARE, Pages, Table, first_table, still
from setebench.hierarchy.twice import merged
from setebench.infer.ticks import Estimate
from setebench.machine import Region
from setebench.measure.alone import watch
from setebench.measure.calibrate import step_ticks
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.rings import Lines
from setebench.measure.serving import levels_of
from setebench.measure.sweep import working_memory
from setebench.results import Finding, Outcome
from setebench.scenario import Context, Option, Scenario

HUGE_PAGE = 2 << 20
HUGE_BYTES, HUGE_SHARE = 12 << 30, 0.75
"""Address space for large pages at most, and of what the machine offers; only pages that are used take memory."""

MOST_HUGE_PAGES = 320
"""Large pages that are used at most: 640 MiB."""

SPLINTER_BYTES = 16 << 20
SCATTERED_SHARE = 0.25
"""Of the second cache's lines, so many of random pages stay there, and as many again that prefetchers bring: with two
lines in a set on average, one set in some thousand gets more than eight."""

LEAST_LINES = 256
"""Lines of the first cache where its size was not found: the smallest of the last twenty years hold so many."""


def answer(context: Context) -> Iterator[Finding]:
    """Yield the findings of caches, TLBs, page faults and other cores, with what the system says where it differs."""
    says = system_says(context.machine.facts)
    context.evidence["system"] = says
    for finding in _findings(context):
        yield beside(finding, says)


def _findings(context: Context) -> Iterator[Finding]:
    watch(context)
    known = _Known(faults=_first_touches(context))
    _look_at_faults(context, known)
    first = list(_all_once(context, known))
    yield from merged(first, _again(context, known))
    for pages, faults in known.faults.items():
        context.progress(f"page faults, {pages} pages")
        yield fault_finding(pages, faults.told())


@dataclass
class _Known:
    """What one time found that later times need."""

    faults: dict[str, FirstTouches]
    most_lines: int = 0
    way_bytes: int = 0
    fits: int = 0
    outer: dict[str, Outer] = field(default_factory=dict)


def _all_once(context: Context, known: _Known) -> Iterator[Finding]:
    region = working_memory(context)
    try:
        context.progress("line size and first cache")
        lines, first = line_size(context, region), first_level(context, region)
        context.progress("working-set sweep")
        levels = levels_of(context, region)
        caches = [name for name in levels if name != "memory"]
        yield from line_findings(lines, len(caches))
        yield from cache_findings("l1", first, "conflicts at strides of a page, half and twice as much", "")
        known.outer = outer_levels(context, region, first, caches)
        for name, found in known.outer.items():
            yield from cache_findings(name, found.geometry, found.method, "sweep", found.size_method)
        yield from inclusion_findings(context, region, first.size, known.outer)
        known.most_lines = int(LINES_SHARE * ((first.size or LEAST_LINES * region.line_size) // region.line_size))
        known.way_bytes = first.way_bytes or 0
        small = _small_tables(context, region, known)
        known.fits = small[0].entries or small[0].at_least or 0
        yield from _told("4k", small)
        yield from _other_cores(context, region, private_walk(context, region, known.outer))
        yield from _sibling_threads(context, region)
    finally:
        context.machine.release(region)
    _look_at_faults(context, known)
    yield from _large_pages(context, small, known)
    yield _thread_starts(context)


def _again(context: Context, known: _Known) -> Iterator[Finding]:
    """What neighbours and the placement of virtual CPUs change most, at another time and in other memory."""
    yield _thread_starts(context)
    _look_at_faults(context, known)
    region = working_memory(context)
    try:
        yield from _other_cores(context, region, private_walk(context, region, known.outer))
        yield from _told("4k", _small_tables(context, region, known, known.fits))
    finally:
        context.machine.release(region)


def _first_touches(context: Context) -> dict[str, FirstTouches]:
    sizes = {"4k": TLB_PAGE_BYTES, "2m": HUGE_PAGE}
    offered = context.machine.facts.page_sizes
    return {pages: FirstTouches(context, size) for pages, size in sizes.items() if size in offered}


def _look_at_faults(context: Context, known: _Known) -> None:
    """At one moment of several that lie apart."""
    for pages, faults in known.faults.items():
        context.progress(f"page faults, {pages} pages")
        faults.look()


# -- TLBs ----------------------------------------------------------------------------------------


def _small_tables(context: Context, region: Region, known: _Known, fits: int = 0) -> tuple[Table, Table]:
    context.progress("TLBs, small pages")
    pages = Pages(context, region, TLB_PAGE_BYTES, known.most_lines, known.way_bytes)
    return _tables(pages, "4k", _scattered(known, region), fits)


def _scattered(known: _Known, region: Region) -> int:
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


def _told(name: str, tables: tuple[Table, Table]) -> Iterator[Finding]:
    for level, table in zip(("l1", "l2"), tables, strict=True):
        yield from tlb_findings(level, name, table)


def _large_pages(context: Context, small: tuple[Table, Table], known: _Known) -> Iterator[Finding]:
    """The TLBs for 2 MiB pages. Where a hypervisor splinters them, their 4 KiB parts are what the TLB holds."""
    facts = context.machine.facts
    if HUGE_PAGE not in facts.page_sizes:
        return
    if small[0].entries is None or small[0].penalty is None:
        reason = "the first TLB for small pages is not known, so whether the system splinters large ones can't be told"
        yield from _told("2m", (Table(reason=reason), Table(reason=reason)))
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
    yield from _told("2m", (first, without_second(first, second, *small)))


def _splintered(context: Context, small: Table, known: _Known) -> bool:
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


# -- other cores ---------------------------------------------------------------------------------


def _other_cores(context: Context, region: Region, walk: Lines) -> Iterator[Finding]:
    pairs = cpu_pairs(context, context.options.get("pairs") == "all")
    transfers = Transfers(context, region, walk)
    evidence = context.evidence["core_to_core"] = {state: [] for state in STATES}
    exclusive: dict[tuple[int, int], float] = {}
    for reader, owner in pairs:
        context.progress(f"lines that CPU {owner} holds, read by CPU {reader}")
        for state in ("modified", "exclusive"):
            estimate, share = transfers.cycles(reader, owner, state)
            evidence[state].append([reader, owner, round(estimate.value, 2)])
            exclusive[reader, owner] = estimate.value
            yield transfer_finding(f"latency.core_to_core.{reader}-{owner}.{state}", estimate, share, 0.0)
    if pairs:
        pasts = _difference_of_pasts(transfers, exclusive, context.known["level_cycles"].get("l2", 0.0))
    for reader, owner in pairs:
        context.progress(f"lines that CPU {owner} shares, read by CPU {reader}")
        parameter, third = f"latency.core_to_core.{reader}-{owner}.shared", further_cpu(exclusive, reader, owner)
        if not transfers.can_share(third):
            yield no_sharing_finding(parameter)
            continue
        estimate, share = transfers.cycles(reader, owner, "shared", third)
        evidence["shared"].append([reader, owner, round(estimate.value, 2)])
        walked = walked_finding(parameter, estimate, context.known["level_cycles"]) if third is None else None
        yield walked or transfer_finding(parameter, estimate, share, pasts)


def _difference_of_pasts(transfers: Transfers, exclusive: dict[tuple[int, int], float], second: float) -> float:
    """Cycles by which a read of a shared line differs with the line's past, held by a third core or lost by the reader;
    0 where there are no cores for both, or the reader lost nothing: its second cache, at `second` cycles, answered."""
    reader, owner = min(exclusive, key=lambda pair: exclusive[pair])
    third = further_cpu(exclusive, reader, owner)
    if third is None or not transfers.can_share(None):
        return 0.0
    held, lost = (transfers.cycles(reader, owner, "shared", each)[0] for each in (third, None))
    return 0.0 if lost.value <= OWN_RATIO * second else lost.value - held.value


def _sibling_threads(context: Context, region: Region) -> Iterator[Finding]:
    own = next((each for each in context.machine.facts.siblings if len(each) > 1), None)
    if own is None:
        return
    one, two = smt_latency(context, region, own)
    estimate = Estimate((one.value + two.value) / 2, min(one.low, two.low), max(one.high, two.high)).widened(0.05, 0.05)
    yield measured("latency.smt.l1", estimate, "cycles", "chases in two threads of a core at once")


def _thread_starts(context: Context) -> Finding:
    parameter, method = "thread_start.spread", "waits at the first barrier"
    if len(context.machine.facts.cpus) < 2:
        return Finding(
            parameter=parameter, unit="microseconds", outcome=Outcome.UNAVAILABLE, reason="one CPU", method=method
        )
    context.progress("thread starts")
    spread = np.sort(start_spread(context))
    context.evidence["thread_start_microseconds"] = [round(float(each), 4) for each in spread]
    low, high = np.quantile(spread, (0.025, 0.975))
    # two waits are subtracted, each read on a clock that moves in steps
    step = 2 * step_ticks(context) / context.machine.facts.ticks_per_second * 1e6
    middle = Estimate(float(np.median(spread)), max(float(low) - step, 0.0), float(high) + step)
    return measured(parameter, middle, "microseconds", method, "thread_start_microseconds")


def plot(document: dict[str, Any]) -> Any:
    """Read latency of lines that other cores hold, reader by owner (the paper's Figure 3)."""
    from setebench.report.heat_map import transfer_figure  # matplotlib is only loaded for a plot

    return transfer_figure(document)


SCENARIO = Scenario(
    name="hierarchy",
    summary="data caches, TLBs, page faults and other cores' lines, all found by measuring",
    answer=answer,
    parameters=("cache.", "tlb.", "page_fault.", "latency.core_to_core.", "latency.smt.", "thread_start."),
    options=(
        Option(
            name="pairs",
            help="pairs of CPUs for reads of other cores' lines: auto (all up to 8 cores, else one reader) or all",
            default="auto",
            choices=("auto", "all"),
        ),
    ),
    plot=plot,
    order=20,
    seconds=5.0,
)
