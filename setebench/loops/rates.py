"""What of the measured table matters for one loop, as plain numbers: where its lines come from, page walks, queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from setebench.loops.records import LINE_BYTES, Loop, Stream
from setebench.loops.table import PAGE_BYTES, Quantity, Table

REGULAR = ("sequential", "strided")


@dataclass(frozen=True, kw_only=True)
class Tlb:
    """Translation of pages of one size: entries of the nearest table (0: nothing is known of it), cycles of what misses
    that one (`near`) and both (`far`), entries of the `second` (0: there is none), and whether a software prefetch is
    `dropped` that misses the first or both."""

    page_bytes: int
    entries: float
    near: float
    far: float
    second: float
    dropped: tuple[bool, bool]

    def pages(self, loop: Loop, stream: Stream) -> Pages:
        """A stream in order comes back to a page after all the others of the working set, so that it misses a TLB that
        doesn't hold them all; one in random order finds in each as many of its pages as fit."""
        extent = int(stream.extent_bytes or loop.working_set_bytes)
        if stream.pattern in REGULAR:
            whole = self.second * self.page_bytes >= loop.working_set_bytes
            return Pages(extent_bytes=extent, missing=0.0, in_second_tlb=float(whole))
        reach = [min(1.0, entries * self.page_bytes / extent) for entries in (self.entries, self.second)]
        missing = 1 - reach[0] if self.entries else 0.0
        kept = max(0.0, reach[1] - reach[0]) / missing if missing else 1.0
        return Pages(extent_bytes=extent, missing=missing, in_second_tlb=kept)

    def walk_cycles(self, pages: Pages) -> float:
        """Mean cycles that the first touch of a line of a stream in random order takes for its translation."""
        far = pages.missing * (1 - pages.in_second_tlb if self.second else 1.0)
        return (pages.missing - far) * self.near + far * (self.far if self.second else self.near)


@dataclass(frozen=True, kw_only=True)
class Pages:
    """Where a stream's pages lie: the span of its addresses in bytes, the parts of its first touches that miss the
    nearest TLB and that find their page in the second one."""

    extent_bytes: int
    missing: float
    in_second_tlb: float


def tlb_of(loop: Loop, table: Table) -> Tlb:
    """Translation of the pages that the loop's data lie on."""
    large = loop.page_bytes >= PAGE_BYTES["2m"] or not loop.page_bytes
    pages = "2m" if large and table.said("tlb.l1.entries.2m") else "4k"
    dropped = [table.said(f"software_prefetch.on_tlb_miss.{level}") is False for level in ("l1", "l2")]
    return Tlb(
        page_bytes=PAGE_BYTES[pages],
        entries=table.number(f"tlb.l1.entries.{pages}"),
        near=table.number(f"tlb.l1.miss_penalty.{pages}"),
        far=table.number(f"tlb.l2.miss_penalty.{pages}"),
        second=table.number(f"tlb.l2.entries.{pages}"),
        dropped=(dropped[0], dropped[1]),
    )


def across_page(table: Table) -> bool:
    """Whether software prefetches get through to another page than that of the latest access."""
    return table.said("software_prefetch.across_page") is not False


def own(of: Callable[[str], Quantity], loop: Loop, table: Table) -> tuple[float, float]:
    """What a thread has of an amount of both levels."""
    near, far = (of(level).value / sharers(loop, table, level) for level in ("l1", "l2"))
    return near, far


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


def sources_of(loop: Loop, stream: Stream, table: Table) -> tuple[tuple[float, float], ...]:
    """The levels that serve a stream as (cumulated part, latency); lines that level 1 holds count as level 2's."""
    found, total = [], 0.0
    for level, part in parts_of(loop, stream, table):
        total += part
        found.append((total, table.quantity(f"latency.{'l2' if level == 'l1' else level}").value))
    return tuple(found)
