"""What the levels are: data caches, TLBs, page faults, other cores, found by measuring.

A hypervisor may present anything to its guest, so nothing of it is asked of the system. Caches and TLBs are read from
chases round and round over few, well chosen lines: they cost one latency per step until the first set is
oversubscribed. Fang et al. 2014: Table II (page faults), Figure 1 (thread starts), Figure 3 (lines of other cores).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from setebench.experiments.alone import watch
from setebench.experiments.levels import find_walks, working_memory
from setebench.machine import Region
from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario
from setebench.stats.estimate import CONFIDENCE

from .cores import other_cores, sibling_threads, thread_starts
from .cores.findings import merged
from .cores.transfers import private_walk
from .faults import FirstTouches, fault_finding
from .first_cache import FirstCache, first_cache
from .first_cache import Params as FirstCacheParams
from .inclusion import Params as InclusionParams
from .inclusion import Question, inclusive
from .line_size import line_findings, line_size
from .outer_caches import OuterCache, outer_cache
from .outer_caches import Params as OuterParams
from .replacement import OuterCaches, OuterFound
from .tlbs import HUGE_PAGE, SMALL_PAGE, Tlbs, look_at_large_pages, unknown_large_pages


@dataclass
class Known:
    """What one time found that later times need."""

    faults: dict[str, FirstTouches]
    small: Tlbs
    large: Tlbs | None = None
    outer: dict[str, OuterCache] = field(default_factory=dict)


def answer(context: Context) -> Iterator[Finding]:
    """Yield the findings of caches, TLBs, page faults and other cores."""
    watch(context)
    known = Known(faults=_first_touches(context), small=Tlbs(context, "4k", SMALL_PAGE))
    _look_at_faults(context, known)
    first = list(_all_once(context, known))
    yield from merged(first, _again(context, known))
    yield from _translations(context, known)
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
        _look_at_translations(context, known, region)
        yield from other_cores(context, region, private_walk(context, region, known.outer))
        yield from sibling_threads(context, region)
    finally:
        context.machine.release(region)
    _look_at_faults(context, known)
    known.large = look_at_large_pages(context, known.large, known.small)
    yield thread_starts(context)


def _data_caches(context: Context, known: Known, region: Region, caches: list[str]) -> Iterator[Finding]:
    """Every level from the first outwards; what those before hold is taken as found, or as the sweep says."""
    levels = context.calibration.levels
    assert levels is not None  # the sweep found them
    cycles = list(levels.cycles.values())
    first = first_cache(context, cycles[1] - cycles[0], FirstCacheParams())
    yield from first.findings()
    held = first.likely_lines or int(levels.ends_bytes[caches[0]] / region.line_size)
    before = [OuterCache(caches[0], region.line_size, lines={held: 1.0}, index=first.index)]
    for name in caches[1:]:
        found = outer_cache(context, region, name, before, OuterParams())
        known.outer[name] = found
        before.append(found)
    for number, sets in _outer_sets(context, first, region, len(caches)):
        name = caches[number - 1]
        if max(sets.names.values(), default=0.0) >= CONFIDENCE:  # its ways explain what sequences cost
            known.outer[name] = known.outer[name].with_ways(sets.ways)
        yield from known.outer[name].findings()
        yield from sets.findings(number)
    takes, second = False, known.outer[caches[1]].likely_lines if len(caches) > 1 else 0
    for level in range(2, len(caches) + 1):
        outer = known.outer[caches[level - 1]]
        question = Question(level, 0 if outer.bound_only else outer.likely_lines, held, second, takes and level > 2)
        finding = inclusive(context, region, question, InclusionParams())
        takes = finding.value is True
        yield finding


def _outer_sets(context: Context, first: FirstCache, region: Region, caches: int) -> Iterator[tuple[int, OuterFound]]:
    """Which lines of a set give way in all caches but the first, by their number."""
    if first.shape is None:
        unknown = OuterFound(reason="which lines push others out of the first cache is not known")
        yield from ((number, unknown) for number in range(2, caches + 1))
        return
    # within large pages lines of a set lie in few translations
    own = context.machine.allocate(region.size, max(context.machine.facts.page_sizes))
    try:
        outer, cycles = OuterCaches(context, own, first.shape), list(context.calibration.level_cycles.values())
        found = OuterFound()
        for number in range(2, caches + 1):
            if not found.reason or found.ways:
                context.progress(f"which lines level {number} replaces")
                found = outer.next((cycles[number - 2], cycles[number - 1], cycles[number]))
            yield number, found
    finally:
        context.machine.release(own)


def _again(context: Context, known: Known) -> Iterator[Finding]:
    """What neighbours and the placement of virtual CPUs change most, at another time and in other memory."""
    yield thread_starts(context)
    _look_at_faults(context, known)
    region = working_memory(context)
    try:
        yield from other_cores(context, region, private_walk(context, region, known.outer))
        _look_at_translations(context, known, region)
    finally:
        context.machine.release(region)
    known.large = look_at_large_pages(context, known.large, known.small)


def _look_at_translations(context: Context, known: Known, region: Region) -> None:
    context.progress("TLBs, small pages")
    known.small.look(region)


def _translations(context: Context, known: Known) -> Iterator[Finding]:
    yield from known.small.findings(known.large)
    if known.large is not None:
        yield from known.large.findings(known.small)
    elif HUGE_PAGE in context.machine.facts.page_sizes:
        yield from unknown_large_pages()


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
