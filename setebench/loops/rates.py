"""What of the measured table matters for one loop, as plain numbers: where its lines come from, page walks, limits."""

from __future__ import annotations

import math
from collections.abc import Iterator

from setebench.loops.records import LINE_BYTES, Loop, Stream
from setebench.loops.table import PAGE_BYTES, Quantity, Table

REGULAR = ("sequential", "strided")
SMALL_PAGE_BYTES = 4096


def lines_of(loop: Loop) -> float:
    """Lines to prefetch in an iteration, by one stage; those that any stream touches where none can be prefetched."""
    return sum(stream.lines_per_iteration for stream in loop.prefetched or loop.streams)


def sharers(loop: Loop, table: Table, level: str) -> int:
    """Threads that share a level's miss entries: those of the core that run the loop, unless each has its own pool."""
    return 1 if table.said(f"mshr.{level}.shared_by_smt") is False else loop.threads_per_core


def parts_of(loop: Loop, stream: Stream, table: Table) -> Iterator[tuple[str, float]]:
    """Levels that serve a stream, with the part of its lines that each serves.

    A stream in order finds all of its working set in the first level that holds it, and nothing in those before; one in
    random order finds in each level as much of it as fits."""
    extent = stream.extent_bytes or loop.working_set_bytes
    left = 1.0
    for level, size in table.sizes():
        fits = min(1.0, size / extent)
        whole = left if fits >= 1.0 else 0.0
        part = whole if stream.pattern in REGULAR else max(0.0, fits - (1.0 - left))
        if part > 0:
            yield level, part
        left -= part
        if left <= 0:
            return
    yield "memory", left


def served_lines(loop: Loop, table: Table) -> dict[str, float]:
    """Lines of the prefetched streams that each level serves in an iteration; level 1 counts as level 2."""
    lines: dict[str, float] = {}
    for stream in loop.prefetched or loop.streams:
        for level, part in parts_of(loop, stream, table):
            served = "l2" if level == "l1" else level
            lines[served] = lines.get(served, 0.0) + part * stream.lines_per_iteration
    return lines


def latency_of(loop: Loop, table: Table) -> Quantity:
    """Mean cycles from the levels that serve the prefetched streams to level 1, with page walks."""
    lines = served_lines(loop, table)
    every = {level: table.quantity(f"latency.{level}") for level in lines}
    walk = walk_cycles(loop, table)

    def mean(end: str) -> float:
        cycles = sum(lines[level] * getattr(every[level], end) for level in lines)
        return float(cycles / sum(lines.values())) + walk

    return Quantity(mean("value"), mean("low"), mean("high"), all(each.known for each in every.values()))


def missed_pages(loop: Loop, table: Table, level: str) -> float:
    """The part of the lines to prefetch whose pages a TLB lacks: of streams in random order what doesn't fit it."""
    pages = _pages(loop, table)
    entries = table.number(f"tlb.{level}.entries.{pages}")
    missed = 0.0
    for stream in loop.prefetched:
        if entries and stream.pattern not in REGULAR:
            reach = entries * PAGE_BYTES[pages] / (stream.extent_bytes or loop.working_set_bytes)
            missed += stream.lines_per_iteration * max(0.0, 1 - reach)
    return missed / lines_of(loop)


def walk_cycles(loop: Loop, table: Table) -> float:
    """Mean cycles of translating the page of a line to prefetch."""
    pages = _pages(loop, table)
    return sum(
        missed_pages(loop, table, level) * table.number(f"tlb.{level}.miss_penalty.{pages}") for level in ("l1", "l2")
    )


def dropped_part(loop: Loop, table: Table) -> float:
    """The part of prefetches that gets nowhere: on pages that a TLB lacks, where those are dropped; all of a stream in
    random order where prefetches don't get beyond the page of the latest access."""
    drops = [level for level in ("l1", "l2") if table.said(f"software_prefetch.on_tlb_miss.{level}") is False]
    if across_page(table):
        return max((missed_pages(loop, table, level) for level in drops), default=0.0)
    lost = (stream.lines_per_iteration for stream in loop.prefetched if stream.pattern not in REGULAR)
    return sum(lost) / lines_of(loop)


def across_page(table: Table) -> bool:
    """True where software prefetches get through to another page than that of the latest access."""
    return table.said("software_prefetch.across_page") is not False


def most_iterations(loop: Loop, table: Table, level: str, alone: bool) -> int:
    """Largest distance of a stage to a level: what is prefetched fills no more of it than it may (of level 1 a
    quarter, Fang et al. 2014, section 7; all of it by prefetches to level 1 `alone`), and prefetches that don't get
    beyond a page stay within one."""
    whole = alone and level == "l1"
    fraction = 1.0 if whole else table.params.l1_fraction if level == "l1" else table.params.l2_fraction
    lines = lines_of(loop) if whole else sum(stream.lines_per_iteration for stream in loop.streams)
    sizes = dict(table.sizes())
    most = fraction * sizes.get(level, math.inf) / (lines * LINE_BYTES)
    steps = [stream.bytes_per_iteration for stream in loop.prefetched if stream.pattern == "sequential"]
    steps += [abs(s.stride_bytes) * s.accesses_per_iteration for s in loop.prefetched if s.pattern == "strided"]
    if steps and not across_page(table):
        most = min(most, SMALL_PAGE_BYTES / max(steps) / 2)
    return max(1, int(min(most, table.params.distances[-1])))


def _pages(loop: Loop, table: Table) -> str:
    """The size of the pages that the loop's data lie on, as findings call it."""
    large = loop.page_bytes >= PAGE_BYTES["2m"] or not loop.page_bytes
    return "2m" if large and table.said("tlb.l1.entries.2m") else "4k"
