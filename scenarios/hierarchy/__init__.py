"""The memory hierarchy, all of it measured: data caches, TLBs, page faults, and lines that other cores hold.

A hypervisor may present any hierarchy to its guest, so nothing is read from the system. Caches and TLBs are inferred
from cyclic pointer chases over few, well chosen lines: a load costs one level's latency until the first set is
oversubscribed. Fang et al. 2014: Table II (page faults), Figure 1 (thread starts), Figure 3 (lines of other cores).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, nullcontext
from typing import Any

from msgspec import to_builtins

from setebench.experiments.chases import Pool
from setebench.experiments.levels import find_levels
from setebench.experiments.paired import rounds
from setebench.results import Finding
from setebench.scenario import PAGE_SIZE, Context, Option, Scenario
from setebench.stats.decide import unavailable

from . import eviction_sets
from .cores import Reads, read_lines, thread_starts, transfer_findings
from .eviction_sets import EvictionRound, measure_eviction, second_cache_findings, second_cache_shape
from .faults import PAGES, FaultRound, fault_finding, first_touches
from .first_cache import StrideRound, first_cache_findings, first_cache_shape, measure_strides
from .line_size import line_findings
from .replacement import Replaced, measure_first, measure_second, replacement_finding, second_findings
from .tlbs import HUGE_PAGE, SMALL_PAGE, TlbPages, TlbRound, measure_tlbs, tlb_evidence, tlb_findings, tlb_pages


def answer(context: Context) -> Iterator[Finding]:
    """Yield findings of caches, TLBs, page faults and other cores' lines; each round measures all of them once."""
    levels, sizes = find_levels(context), context.machine.facts.page_sizes
    strides, evictions, reads = list[StrideRound](), list[EvictionRound](), list[Reads]()
    first, second = list[Replaced](), list[Replaced]()
    tlbs: dict[int, list[TlbRound]] = {SMALL_PAGE: [], HUGE_PAGE: []}
    whole, end = None, levels.ends_bytes.get("l2", 0.0)
    faults: dict[str, list[FaultRound]] = {name: [] for name, (size, _) in PAGES.items() if size in sizes}
    with ExitStack() as memory:
        pool = memory.enter_context(closing(Pool(context, eviction_sets.PARAMS.pages)))
        pages = dict[int, TlbPages | None]()
        for number in rounds(context):
            context.progress(f"round {number + 1}: sets of caches")
            strides.append(measure_strides(context, strides))
            shape = first_cache_shape(strides)  # by all rounds so far
            first += [measure_first(context, shape)] if shape else []
            if len(context.calibration.level_cycles) > 2:
                if not eviction_sets.clear(evictions, context.line_size, end):
                    counted, whole = measure_eviction(context, pool, evictions)
                    evictions.append(counted)
                if shape and whole and (one := measure_second(context, pool.region, whole, shape)):
                    second.append(one)
            context.progress(f"round {number + 1}: TLBs")
            for size in (each for each in tlbs if each == SMALL_PAGE or each in sizes):
                if size not in pages:  # once: the first touch of so many pages takes a second
                    pages[size] = own = tlb_pages(context, size)
                    memory.enter_context(closing(own) if own else nullcontext())
                tlbs[size].append(measure_tlbs(pages[size]))
            context.progress(f"round {number + 1}: page faults and lines of other cores")
            for name, several in faults.items():
                several.append(first_touches(context, name))
            reads.append(read_lines(context))
    yield from line_findings(context, len(levels.caches))
    context.evidence["strides"], context.evidence["evictions"] = map(to_builtins, (strides, evictions))
    yield from first_cache_findings(strides)
    shape = first_cache_shape(strides)
    outer = second_cache_shape(evictions, context.line_size, end)
    yield replacement_finding(context, 1, [each for each in first if shape and each.ways == shape.ways])
    if len(levels.caches) > 1:
        yield from second_cache_findings(evictions, levels, context.line_size)
        yield from second_findings(context, [each for each in second if outer and each.ways == outer.ways])
        yield from eviction_sets.further_findings(levels)
    yield from transfer_findings(context, reads)
    yield unavailable("latency.smt.l1", "cycles", "not measured since 0.2")
    context.evidence |= tlb_evidence(*tlbs.values())
    yield from tlb_findings(*tlbs.values())
    yield thread_starts(context)
    context.evidence["page_faults"] = {name: [each.cycles for each in several] for name, several in faults.items()}
    for name, several in faults.items():
        yield fault_finding(name, several)


def plot(document: dict[str, Any]) -> Any:
    """Return a figure of the read latency of other cores' lines in a result's `document` (Fang et al., Figure 3)."""
    from setebench.report.plots.maps import transfer_figure  # matplotlib is only loaded for a plot

    return transfer_figure(document)


SCENARIO = Scenario(
    name="hierarchy",
    summary="data caches, TLBs, page faults and other cores' lines, all found by measuring",
    answer=answer,
    parameters=("cache.", "tlb.", "page_fault.", "latency.core_to_core.", "latency.smt.", "thread_start."),
    options=(
        PAGE_SIZE,
        Option(
            name="all_pairs",
            help="Reads between all pairs of cores. Default: of as many as ten seconds allow.",
            flag=True,
        ),
    ),
    plot=plot,
    order=20,
    needs=("clock", "levels"),
)
