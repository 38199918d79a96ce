"""What of the measured table matters for one loop, as plain numbers: where its lines come from, page walks, queues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from setebench.loops.records import LINE_BYTES, Loop, Stream
from setebench.loops.table import PAGE_BYTES, Quantity, Table

REGULAR = ("sequential", "strided")
MEANT_FILLS = {"t0": "l1", "t1": "l2", "t2": "l2", "nta": "l1", "w": "l1"}
"""Where hints are meant to bring lines (x86 manuals), for what nobody measured."""


@dataclass(frozen=True, kw_only=True)
class Walk:
    """Page walks of one stream: cycles of the first touch of a line (the mean), of a later one whose translation was
    displaced, how many other touches displace it, and the part of prefetches that are done at all."""

    first: float = 0.0
    again: float = 0.0
    entries: float = 0.0
    survives: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Rates:
    """The memory system for one loop. `latency` of level 1 to 3 in cycles; `demand` and `prefetch` entries of level 1
    and 2; `sources` per stream: the levels that serve it as (cumulated part, latency)."""

    latency: tuple[float, float, float]
    demand: tuple[float, float]
    prefetch: tuple[float, float]
    drops: bool
    fills: dict[str, str]
    sources: tuple[tuple[tuple[float, float], ...], ...]
    walks: tuple[Walk, ...]
    prefetchers: tuple[tuple[str, dict[str, Any]], ...]
    prefetch_cycles: float

    def source(self, stream: int, drawn: float) -> float:
        """Latency of a line of a stream, from a number between 0 and 1."""
        for part, latency in self.sources[stream]:
            if drawn <= part:
                return latency
        return self.sources[stream][-1][1]


def rates_of(loop: Loop, table: Table) -> Rates:
    """The measured table for this loop."""
    first, second = (table.quantity(f"latency.{level}").value for level in ("l1", "l2"))
    return Rates(
        latency=(first, second, _number(table, "latency.l3") or second),
        demand=(
            table.demand("l1").value / sharers(loop, table, "l1"),
            table.demand("l2").value / sharers(loop, table, "l2"),
        ),
        prefetch=(
            table.entries("l1").value / sharers(loop, table, "l1"),
            table.entries("l2").value / sharers(loop, table, "l2"),
        ),
        drops=table.said("software_prefetch.when_full") == "drops",
        fills={
            hint: str(table.said(f"software_prefetch.fills.{hint}") or level) for hint, level in MEANT_FILLS.items()
        },
        sources=tuple(_sources(loop, stream, table) for stream in loop.streams),
        walks=tuple(_walk(loop, stream, table) for stream in loop.streams),
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
    total, low, high, weights, known = 0.0, 0.0, 0.0, 0.0, True
    for stream in loop.prefetched or loop.streams:
        for level, part in parts_of(loop, stream, table):
            cycles, weight = table.quantity(f"latency.{level}"), part * stream.lines_per_iteration
            total, low, high = total + weight * cycles.value, low + weight * cycles.low, high + weight * cycles.high
            weights, known = weights + weight, known and cycles.known
    return Quantity(total / weights, low / weights, high / weights, known)


def serving_level(loop: Loop, table: Table) -> str:
    """The level that serves most lines of the prefetched streams."""
    parts: dict[str, float] = {}
    for stream in loop.prefetched or loop.streams:
        for level, part in parts_of(loop, stream, table):
            parts[level] = parts.get(level, 0.0) + part * stream.lines_per_iteration
    return max(parts, key=lambda level: parts[level])


def most_iterations(loop: Loop, table: Table, level: str) -> int:
    """Largest distance at which what is prefetched fills no more of a level than it may: of level 1 a quarter (Fang et
    al. 2014, section 7)."""
    fraction = table.params.l1_fraction if level == "l1" else table.params.l2_fraction
    lines = sum(stream.lines_per_iteration for stream in loop.streams)
    return max(1, int(fraction * table.quantity(f"cache.{level}.size").value / (lines * LINE_BYTES)))


def _sources(loop: Loop, stream: Stream, table: Table) -> tuple[tuple[float, float], ...]:
    """Levels as (cumulated part, latency); lines that level 1 holds count as level 2's."""
    found, total = [], 0.0
    for level, part in parts_of(loop, stream, table):
        total += part
        found.append((total, table.quantity(f"latency.{'l2' if level == 'l1' else level}").value))
    return tuple(found)


def _walk(loop: Loop, stream: Stream, table: Table) -> Walk:
    large = loop.page_bytes >= PAGE_BYTES["2m"] or not loop.page_bytes
    pages = "2m" if large and table.said("tlb.l1.entries.2m") else "4k"
    page = PAGE_BYTES[pages]
    first, second = (_number(table, f"tlb.{level}.entries.{pages}") for level in ("l1", "l2"))
    near, far = (_number(table, f"tlb.{level}.miss_penalty.{pages}") for level in ("l1", "l2"))
    across = table.said("software_prefetch.across_page") is not False
    if stream.pattern in REGULAR:
        touched = min(len(loop.streams), loop.working_set_bytes / page)
        cost = near if first and touched > first else 0.0
        # where prefetches must stay in the page of the latest access, that is the last stream's
        return Walk(first=cost, again=cost, entries=first, survives=1.0 if across else 1 / len(loop.streams))
    extent = stream.extent_bytes or loop.working_set_bytes
    lost = [max(0.0, 1 - entries * page / extent) if entries else 0.0 for entries in (first, second)]
    lost[1] = lost[1] if second else lost[0]
    mean = lost[1] * (far if second else near) + max(0.0, lost[0] - lost[1]) * near
    dropped = max(
        part if table.said(f"software_prefetch.on_tlb_miss.{level}") is False else 0.0
        for level, part in zip(("l1", "l2"), lost, strict=True)
    )
    survives = 1 - dropped if across or extent <= PAGE_BYTES["4k"] else 0.0
    return Walk(first=mean, again=near, entries=first, survives=survives)


def _number(table: Table, parameter: str) -> float:
    said = table.said(parameter)
    return float(said) if isinstance(said, int | float) else 0.0
