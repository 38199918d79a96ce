"""What of the measured table matters for one loop, as plain numbers: where its lines come from, page walks, queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from setebench.loops.records import LINE_BYTES, Loop, Stream
from setebench.loops.table import PAGE_BYTES, Quantity, Table

REGULAR = ("sequential", "strided")
MEANT_FILLS = {"t0": "l1", "t1": "l2", "t2": "l2", "nta": "l1", "w": "l1"}
"""Where hints are meant to bring lines (x86 manuals), for what nobody measured."""


@dataclass(frozen=True, kw_only=True)
class Tlb:
    """Translation of pages of one size: entries of the nearest table (0: nothing is known of it), cycles of what misses
    that one (`near`) and both (`far`), entries of the `second` (0: there is none), and whether a software prefetch is
    `dropped` that misses the first or both."""

    page_bytes: int
    entries: float = 0.0
    near: float = 0.0
    far: float = 0.0
    second: float = 0.0
    dropped: tuple[bool, bool] = (False, False)


@dataclass(frozen=True, kw_only=True)
class Pages:
    """Where a stream's pages lie: the span of its addresses in bytes, the parts of its first touches that miss the
    nearest TLB and that find their page in the second one."""

    extent_bytes: int
    missing: float
    in_second_tlb: float


@dataclass(frozen=True, kw_only=True)
class Rates:
    """The memory system for one loop. `latency` of level 1 to 3 in cycles; `sizes` of level 1 and 2 in
    bytes; `demand` and `prefetch` entries of level 1
    and 2; `sources` per stream: the levels that serve it as (cumulated part, latency); `blocking_store` and
    `blocking_prefetch`: nothing begins before what one of them asks for is there."""

    latency: tuple[float, float, float]
    demand: tuple[float, float]
    prefetch: tuple[float, float]
    sizes: tuple[float, float]
    drops: bool
    fills: dict[str, str]
    sources: tuple[tuple[tuple[float, float], ...], ...]
    tlb: Tlb
    pages: tuple[Pages, ...]
    across_page: bool
    blocking_store: bool
    blocking_prefetch: bool
    prefetchers: tuple[tuple[str, dict[str, Any]], ...]
    prefetch_cycles: float

    def walk_cycles(self, stream: int) -> float:
        """Mean cycles that the first touch of a line of a stream in random order takes for its translation."""
        own, tlb = self.pages[stream], self.tlb
        far = own.missing * (1 - own.in_second_tlb if tlb.second else 1.0)
        return (own.missing - far) * tlb.near + far * (tlb.far if tlb.second else tlb.near)


def rates_of(loop: Loop, table: Table) -> Rates:
    """The measured table for this loop."""
    first, second = (table.quantity(f"latency.{level}").value for level in ("l1", "l2"))

    def own(of: Callable[[str], Quantity]) -> tuple[float, float]:
        """What a thread has of both levels' amounts."""
        near, far = (of(level).value / sharers(loop, table, level) for level in ("l1", "l2"))
        return near, far

    return Rates(
        latency=(first, second, _number(table, "latency.l3") or second),
        demand=own(table.demand),
        prefetch=own(table.entries),
        sizes=own(lambda level: table.quantity(f"cache.{level}.size")),
        drops=table.said("software_prefetch.when_full") == "drops",
        fills={
            hint: str(table.said(f"software_prefetch.fills.{hint}") or level) for hint, level in MEANT_FILLS.items()
        },
        sources=tuple(_sources(loop, stream, table) for stream in loop.streams),
        tlb=_tlb(loop, table),
        pages=tuple(_pages(loop, stream, table) for stream in loop.streams),
        across_page=table.said("software_prefetch.across_page") is not False,
        blocking_store=table.said("blocking.store") == "blocking",
        blocking_prefetch=table.said("blocking.prefetch") == "blocking",
        prefetchers=tuple(table.prefetchers()),
        prefetch_cycles=table.params.prefetch_cycles,
    )


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


def latency_of(loop: Loop, table: Table) -> Quantity:
    """Mean cycles from the levels that serve the prefetched streams to level 1, without page walks."""
    lines = _lines_by_level(loop, table)
    every = {level: table.quantity(f"latency.{level}") for level in lines}

    def mean(end: str) -> float:
        return float(sum(lines[level] * getattr(every[level], end) for level in lines) / sum(lines.values()))

    return Quantity(mean("value"), mean("low"), mean("high"), all(each.known for each in every.values()))


def serving_level(loop: Loop, table: Table) -> str:
    """The level that serves most lines of the prefetched streams."""
    lines = _lines_by_level(loop, table)
    return max(lines, key=lambda level: lines[level])


def _lines_by_level(loop: Loop, table: Table) -> dict[str, float]:
    """Lines of the prefetched streams that each level serves in an iteration."""
    lines: dict[str, float] = {}
    for stream in loop.prefetched or loop.streams:
        for level, part in parts_of(loop, stream, table):
            lines[level] = lines.get(level, 0.0) + part * stream.lines_per_iteration
    return lines


def most_iterations(loop: Loop, table: Table, level: str) -> int:
    """Largest distance of one of two stages at which what is prefetched fills no more of a level than it may: of level
    1 a quarter (Fang et al. 2014, section 7)."""
    fraction = table.params.l1_fraction if level == "l1" else table.params.l2_fraction
    lines = sum(stream.lines_per_iteration for stream in loop.streams)
    return max(1, int(fraction * table.quantity(f"cache.{level}.size").value / (lines * LINE_BYTES)))


def held_iterations(loop: Loop, table: Table, level: str) -> float:
    """Largest distance at which a level holds at all what is prefetched before it is used: further ahead, the first
    line is gone when the last one comes."""
    lines = sum(stream.lines_per_iteration for stream in loop.prefetched or loop.streams)
    return float(dict(table.sizes()).get(level, float("inf"))) / (lines * LINE_BYTES)


def _sources(loop: Loop, stream: Stream, table: Table) -> tuple[tuple[float, float], ...]:
    """Levels as (cumulated part, latency); lines that level 1 holds count as level 2's."""
    found, total = [], 0.0
    for level, part in parts_of(loop, stream, table):
        total += part
        found.append((total, table.quantity(f"latency.{'l2' if level == 'l1' else level}").value))
    return tuple(found)


def _tlb(loop: Loop, table: Table) -> Tlb:
    large = loop.page_bytes >= PAGE_BYTES["2m"] or not loop.page_bytes
    pages = "2m" if large and table.said("tlb.l1.entries.2m") else "4k"
    return Tlb(
        page_bytes=PAGE_BYTES[pages],
        entries=_number(table, f"tlb.l1.entries.{pages}"),
        near=_number(table, f"tlb.l1.miss_penalty.{pages}"),
        far=_number(table, f"tlb.l2.miss_penalty.{pages}"),
        second=_number(table, f"tlb.l2.entries.{pages}"),
        dropped=(
            table.said("software_prefetch.on_tlb_miss.l1") is False,
            table.said("software_prefetch.on_tlb_miss.l2") is False,
        ),
    )


def _pages(loop: Loop, stream: Stream, table: Table) -> Pages:
    """A stream in order comes back to a page after all the others of the working set, so that it misses a TLB that
    doesn't hold them all; one in random order finds in each as many of its pages as fit."""
    tlb = _tlb(loop, table)
    extent = int(stream.extent_bytes or loop.working_set_bytes)
    reach = [min(1.0, entries * tlb.page_bytes / extent) for entries in (tlb.entries, tlb.second)]
    if stream.pattern in REGULAR:
        whole = tlb.second * tlb.page_bytes >= loop.working_set_bytes
        return Pages(extent_bytes=extent, missing=0.0, in_second_tlb=float(whole))
    missing = 1 - reach[0] if tlb.entries else 0.0
    kept = max(0.0, reach[1] - reach[0]) / missing if missing else 1.0
    return Pages(extent_bytes=extent, missing=missing, in_second_tlb=kept)


def _number(table: Table, parameter: str) -> float:
    said = table.said(parameter)
    return float(said) if isinstance(said, int | float) else 0.0
