"""What the levels are: data caches, TLBs, page faults, other cores, found by measuring.

A hypervisor may present anything to its guest, so nothing of it is asked of the system. Caches and TLBs are read from
chases round and round over few, well chosen lines: they cost one latency per step until the first set is
oversubscribed. Fang et al. 2014: Table II (page faults), Figure 1 (thread starts), Figure 3 (lines of other cores).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import to_builtins

from setebench.calibration import Levels
from setebench.experiments.eviction_sets import CacheSet
from setebench.experiments.levels import find_levels, working_memory
from setebench.experiments.paired import rounds
from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario

from .cores import other_cores, sibling_threads, thread_starts
from .eviction_sets import EvictionRound, eviction_pool, measure_eviction, second_cache_findings, second_cache_shape
from .faults import FaultRound, fault_evidence, fault_finding, fault_pages, first_touches
from .first_cache import StrideRound, first_cache_findings, first_cache_shape, measure_strides
from .line_size import line_findings, line_size
from .replacement import KnownCache, Replaced, first_policy, outer_caches
from .tlbs import HUGE_PAGE, measure_large, measure_tlbs, tlb_evidence, tlb_findings

Touched = dict[str, list[FaultRound]]
"""First touches of fresh pages in rounds that lie apart, by the name of the page size."""


def answer(context: Context) -> Iterator[Finding]:
    """Yield the findings of caches, TLBs, page faults and other cores."""
    touched: Touched = {pages: [] for pages in fault_pages(context)}
    region = working_memory(context)
    try:
        context.progress("line size")
        lines = line_size(context, region)
        levels = find_levels(context, region)
    finally:
        context.machine.release(region)
    yield from line_findings(lines, len(levels.caches))
    yield from _data_caches(context, touched, levels)
    yield from other_cores(context)
    yield from sibling_threads(context)
    yield from _translations(context, touched)
    yield thread_starts(context)
    context.evidence["page_faults"] = fault_evidence(touched)
    for pages, several in touched.items():
        yield fault_finding(pages, several)


def _data_caches(context: Context, touched: Touched, levels: Levels) -> Iterator[Finding]:
    """Every level from the first outwards."""
    line, pool = context.machine.facts.line_size, eviction_pool(context)
    try:
        strides, evictions, several = list[StrideRound](), list[EvictionRound](), list[CacheSet]()
        for number in rounds(context):
            context.progress(f"sets of the first caches, round {number + 1}")
            strides.append(measure_strides(context))
            if len(levels.caches) > 1:
                counted, whole = measure_eviction(context, pool)
                evictions.append(counted)
                several += [whole] if whole else []
            _touch(context, touched)
        context.evidence["strides"], context.evidence["evictions"] = map(to_builtins, (strides, evictions))
        yield from first_cache_findings(strides)
        shape, second = first_cache_shape(strides), second_cache_shape(evictions, line)
        first, replaced = None, Replaced(reason="lines that share a set are not known by their addresses")
        if shape and shape.linear:
            context.progress("which lines level 1 replaces")
            first = KnownCache(shape.sets(line), shape.ways)
            replaced = first_policy(context, first)
            first = first._replace(by_chance=replaced.by_chance)
        yield replaced.finding(1)
        if len(levels.caches) > 1:
            yield from second_cache_findings(evictions, levels, line)
            usual = [each for each in several if second and each.ways == second.ways]
            yield from outer_caches(context, pool, first, usual[-1] if usual else None, levels)
    finally:
        pool.close()


def _translations(context: Context, touched: Touched) -> Iterator[Finding]:
    small, large = [], []
    for number in rounds(context):
        context.progress(f"TLBs, round {number + 1}")
        small.append(measure_tlbs(context))
        if HUGE_PAGE in context.machine.facts.page_sizes:
            large.append(measure_large(context, small[-1]))
        _touch(context, touched)
    context.evidence |= tlb_evidence(small, large)
    yield from tlb_findings(small, large)


def _touch(context: Context, touched: Touched) -> None:
    """Touch fresh pages of each size, in rounds that lie apart."""
    for pages, several in touched.items():
        several.append(first_touches(context, pages))


def plot(document: dict[str, Any]) -> Any:
    """Read latency of lines that other cores hold, reader by owner (the paper's Figure 3)."""
    from setebench.report.plots.heat_map import transfer_figure  # matplotlib is only loaded for a plot

    return transfer_figure(document)


SCENARIO = Scenario(
    name="hierarchy",
    summary="data caches, TLBs, page faults and other cores' lines, all found by measuring",
    answer=answer,
    parameters=("cache.", "tlb.", "page_fault.", "latency.core_to_core.", "latency.smt.", "thread_start."),
    options=(
        Option(
            name="all_pairs",
            help="Reads between all pairs of cores. Default: of as many as ten seconds allow.",
            flag=True,
        ),
    ),
    plot=plot,
    order=20,
    seconds=5.0,
    needs=("clock", "levels"),
)
