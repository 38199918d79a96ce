"""What the levels are: data caches, TLBs, page faults, other cores, found by measuring.

A hypervisor may present anything to its guest, so nothing of it is read from the system. Caches and TLBs are inferred
from chases round and round over few, well chosen lines: they cost one latency per step until the first set is
oversubscribed. Fang et al. 2014: Table II (page faults), Figure 1 (thread starts), Figure 3 (lines of other cores).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec import to_builtins

from setebench.calibration import Levels
from setebench.experiments.chases import Pool
from setebench.experiments.eviction_sets import Evictions
from setebench.experiments.levels import find_levels
from setebench.experiments.paired import rounds
from setebench.results import Finding
from setebench.scenario import Context, Option, Scenario

from . import eviction_sets
from .cores import Reads, chase_together, read_lines, sibling_finding, siblings, thread_starts, transfer_findings
from .eviction_sets import EvictionRound, measure_eviction, second_cache_findings
from .faults import PAGES, FaultRound, fault_finding, first_touches
from .first_cache import StrideRound, first_cache_findings, first_cache_shape, measure_strides
from .line_size import line_findings
from .replacement import Replaced, SecondReplaced, measure_first, measure_second, replacement_finding, second_findings
from .tlbs import HUGE_PAGE, SMALL_PAGE, TlbPages, TlbRound, measure_tlbs, tlb_evidence, tlb_findings, tlb_pages


@dataclass(kw_only=True)
class _Rounds:
    """What all rounds measured, by question."""

    strides: list[StrideRound] = field(default_factory=list)
    first: list[Replaced] = field(default_factory=list)
    evictions: list[EvictionRound] = field(default_factory=list)
    second: list[SecondReplaced] = field(default_factory=list)
    tlbs: list[TlbRound] = field(default_factory=list)
    large: list[TlbRound] = field(default_factory=list)
    pages: dict[int, TlbPages | None] = field(default_factory=dict)
    faults: dict[str, list[FaultRound]] = field(default_factory=dict)
    reads: list[Reads] = field(default_factory=list)
    threads: list[float] = field(default_factory=list)


def answer(context: Context) -> Iterator[Finding]:
    """Yield the findings of caches, TLBs, page faults and other cores: each round puts all questions in turn."""
    levels = find_levels(context)
    pool, found = Pool(context, eviction_sets.PARAMS.pages), _Rounds()
    try:
        for number in rounds(context):
            for name, measure in _QUESTIONS.items():
                context.progress(f"round {number + 1}: {name}")
                measure(context, pool, found)
    finally:
        pool.close()
        for memory in found.pages.values():
            if memory:
                memory.close()
    yield from line_findings(context, len(levels.caches))
    yield from _cache_findings(context, levels, found)
    yield from transfer_findings(context, found.reads)
    if found.threads:
        yield sibling_finding(found.threads)
    context.evidence |= tlb_evidence(found.tlbs, found.large)
    yield from tlb_findings(found.tlbs, found.large)
    yield thread_starts(context)
    context.evidence["page_faults"] = {name: [each.cycles for each in found.faults[name]] for name in found.faults}
    for pages, several in found.faults.items():
        yield fault_finding(pages, several)


def _caches(context: Context, pool: Pool, found: _Rounds) -> None:
    """The first two caches, and replacement in sets of what all rounds so far say of their shape."""
    found.strides.append(measure_strides(context))
    first = first_cache_shape(found.strides)
    if first:
        found.first.append(measure_first(context, first))
    if len(context.calibration.level_cycles) > 2:
        counted, whole = measure_eviction(context, pool)
        found.evictions.append(counted)
        second = measure_second(Evictions(context, pool), whole, first) if first and whole else None
        found.second += [second] if second else []


def _tlbs(context: Context, _pool: Pool, found: _Rounds) -> None:
    for size, seen in ((SMALL_PAGE, found.tlbs), (HUGE_PAGE, found.large)):
        if size == SMALL_PAGE or size in context.machine.facts.page_sizes:
            if size not in found.pages:  # once: the first touch of so many pages takes a second
                found.pages[size] = tlb_pages(context, size)
            seen.append(measure_tlbs(found.pages[size]))


def _faults(context: Context, _pool: Pool, found: _Rounds) -> None:
    for pages, (size, _) in PAGES.items():
        if size in context.machine.facts.page_sizes:
            found.faults.setdefault(pages, []).append(first_touches(context, pages))


def _cores(context: Context, _pool: Pool, found: _Rounds) -> None:
    found.reads.append(read_lines(context))
    if siblings(context):
        found.threads.append(chase_together(context))


_QUESTIONS: dict[str, Callable[[Context, Pool, _Rounds], None]] = {
    "sets of caches": _caches,
    "TLBs": _tlbs,
    "page faults": _faults,
    "lines of other cores": _cores,
}


def _cache_findings(context: Context, levels: Levels, found: _Rounds) -> Iterator[Finding]:
    """Every level from the first outwards."""
    line = context.line_size
    context.evidence["strides"], context.evidence["evictions"] = map(to_builtins, (found.strides, found.evictions))
    yield from first_cache_findings(found.strides)
    first, second = (
        first_cache_shape(found.strides),
        eviction_sets.second_cache_shape(found.evictions, line, levels.ends_bytes.get("l2", 0.0)),
    )
    yield replacement_finding(context, 1, [each for each in found.first if first and each.ways == first.ways])
    if len(levels.caches) > 1:
        yield from second_cache_findings(found.evictions, levels, line)
        yield from second_findings(context, [each for each in found.second if second and each.ways == second.ways])
        yield from eviction_sets.further_findings(found.evictions, levels)


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
    needs=("clock", "levels"),
)
