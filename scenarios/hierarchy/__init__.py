"""What the levels are: data caches, TLBs, page faults, other cores, found by measuring.

A hypervisor may present anything to its guest, so nothing of it is asked of the system. Caches and TLBs are read from
chases round and round over few, well chosen lines: they cost one latency per step until the first set is
oversubscribed. Fang et al. 2014: Table II (page faults), Figure 1 (thread starts), Figure 3 (lines of other cores).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec import to_builtins

from setebench.experiments.chases import Pool
from setebench.experiments.levels import find_walks, working_memory
from setebench.experiments.paired import rounds
from setebench.machine import Region
from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario
from setebench.stats.cache_model import POLICIES
from setebench.stats.decide import one_of, summed
from setebench.stats.estimate import CONFIDENCE

from .cores import other_cores, sibling_threads, thread_starts
from .eviction_sets import (
    eviction_pool,
    measure_eviction,
    outer_findings,
    second_cache_findings,
    second_cache_shape,
)
from .faults import FirstTouches, fault_finding
from .first_cache import PARAMS as STRIDES
from .first_cache import first_cache_findings, first_cache_shape, measure_strides
from .inclusion import Params as InclusionParams
from .inclusion import Question, inclusive
from .line_size import line_findings, line_size
from .replacement import SEQUENCES, KnownCache, OuterCaches, OuterFound, first_replacement
from .tlbs import HUGE_PAGE, SMALL_PAGE, measure_large, measure_tlbs, tlb_evidence, tlb_findings


@dataclass
class Known:
    """What one time found that later times need."""

    faults: dict[str, FirstTouches]
    lines: dict[str, int] = field(default_factory=dict)


def answer(context: Context) -> Iterator[Finding]:
    """Yield the findings of caches, TLBs, page faults and other cores."""
    known = Known(faults=_first_touches(context))
    _look_at_faults(context, known)
    yield from _all_once(context, known)
    _look_at_faults(context, known)
    yield from _translations(context)
    for pages, faults in known.faults.items():
        context.progress(f"page faults, {pages} pages")
        yield fault_finding(pages, faults.cost())


def _all_once(context: Context, known: Known) -> Iterator[Finding]:
    region = working_memory(context)
    try:
        context.progress("line size")
        lines = line_size(context, region)
        context.progress("working-set sweep")
        levels = find_walks(context, region)
        caches = [name for name in levels if name != "memory"]
        yield from line_findings(lines, len(caches))
        yield from _data_caches(context, known, region, caches)
    finally:
        context.machine.release(region)
    yield from other_cores(context)
    yield from sibling_threads(context)
    _look_at_faults(context, known)
    yield thread_starts(context)


def _data_caches(context: Context, known: Known, region: Region, caches: list[str]) -> Iterator[Finding]:
    """Every level from the first outwards."""
    levels = context.calibration.levels
    assert levels is not None  # the sweep found them
    pool = eviction_pool(context)
    try:
        strides, evictions = [], []
        for number in rounds(context):
            context.progress(f"sets of the first caches, round {number + 1}")
            strides.append(measure_strides(context))
            if len(caches) > 1:
                evictions.append(measure_eviction(context, pool))
        context.evidence["strides"], context.evidence["evictions"] = map(to_builtins, (strides, evictions))
        yield from first_cache_findings(strides)
        first = first_cache_shape(strides)
        inner = KnownCache(first.sets(region.line_size), first.ways) if first and first.linear else None
        inner = yield from _first_replacement(context, inner)
        known.lines = {name: int(end / region.line_size) for name, end in levels.ends_bytes.items()}
        if inner:
            known.lines[caches[0]] = inner.sets * inner.ways
        if len(caches) > 1:
            yield from second_cache_findings(evictions, levels, region.line_size)
            second = second_cache_shape(evictions, region.line_size)
            if second and second.sets:
                known.lines[caches[1]] = max(second.lines, key=second.lines.__getitem__)
        yield from _outer_sets(context, pool, inner, caches)
    finally:
        pool.close()
    takes = False
    for level in range(2, len(caches) + 1):
        held = [known.lines.get(name, 0) for name in caches]
        question = Question(level, held[level - 1], held[0], held[1], takes and level > 2)
        finding = inclusive(context, region, question, InclusionParams())
        takes = finding.value is True
        yield finding


def _first_replacement(context: Context, first: KnownCache | None) -> Generator[Finding, None, KnownCache | None]:
    """Yield which line of a set the first cache replaces, and return the cache with that, as far as it is known."""
    policies, why = dict[int, float](), "lines that share a set are not known by their addresses"
    if first:
        region = context.machine.allocate(STRIDES.region_bytes, max(context.machine.facts.page_sizes))
        try:
            policies, why = first_replacement(context, region, first)
        finally:
            context.machine.release(region)
        if max(policies.values(), default=0.0) >= CONFIDENCE:
            first = first._replace(policy=max(policies, key=policies.__getitem__))
    yield one_of("cache.l1.replacement", summed(policies, lambda each: POLICIES[each].name), "string", SEQUENCES, why)
    return first


def _outer_sets(context: Context, pool: Pool, first: KnownCache | None, caches: list[str]) -> Iterator[Finding]:
    """Which lines of a set give way in all caches but the first, and ways of those behind the second."""
    levels, cycles = context.calibration.levels, list(context.calibration.level_cycles.values())
    assert levels is not None
    outer = OuterCaches(context, pool, first) if first else None
    found = OuterFound(reason="" if first else "which lines push others out of the first cache is not known")
    for number, name in enumerate(caches[1:], 2):
        if outer and (not found.reason or found.ways):
            context.progress(f"which lines level {number} replaces")
            found = outer.next((cycles[number - 2], cycles[number - 1], cycles[number]))
        if number > 2:
            ways = found.ways if max(found.names.values(), default=0.0) >= CONFIDENCE else 0
            yield from outer_findings(name, levels, ways)
        yield from found.findings(number)


def _translations(context: Context) -> Iterator[Finding]:
    small, large = [], []
    for _ in rounds(context):
        context.progress("TLBs")
        small.append(measure_tlbs(context))
        if HUGE_PAGE in context.machine.facts.page_sizes:
            large.append(measure_large(context, small[-1]))
    context.evidence |= tlb_evidence(small, large)
    yield from tlb_findings(small, large)


def _first_touches(context: Context) -> dict[str, FirstTouches]:
    sizes = {"4k": SMALL_PAGE, "2m": HUGE_PAGE}
    offered = context.machine.facts.page_sizes
    return {pages: FirstTouches(context, size) for pages, size in sizes.items() if size in offered}


def _look_at_faults(context: Context, known: Known) -> None:
    """At one moment of several that lie apart."""
    for pages, faults in known.faults.items():
        context.progress(f"page faults, {pages} pages")
        faults.sample()


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
