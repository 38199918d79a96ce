"""A loop's misses in the machine's queues, line by line: how long an iteration takes with a prefetch policy.

Nothing is in here but the measured table: latencies, the number of misses in flight, TLBs, what hints do, and the
hardware prefetchers that were found. Time passes by dataflow: every access gets its translation, its miss entry when
one is free, its line when the level that has it delivers, and what needs it goes on then.

* A level's entries are one pool that loads, software and hardware prefetches share, each with a limit of its own.
* A prefetch is dropped where the machine drops it: without an entry free, on a page that the TLB lacks, or outside the
  page of the latest access. One that isn't dropped waits, and what comes behind it in the core waits for it in the end.
* A page walk needs a walker. Pages of streams in order are the pages that their lines lie on; a stream that goes
  anywhere finds in each TLB as much of its pages as fit.
* A cache or TLB forgets what was brought too early: as many others later as it has entries, about.
* A store leaves the core once it has its entry; what reads memory leaves it with its line.

How much a core overlaps by itself is no parameter of the memory system; it is fitted to what an iteration takes
(`advisor.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from setebench.loops._queues import Passes
from setebench.loops.params import ModelParams
from setebench.loops.rates import REGULAR, Tlb, across_page, own, sources_of, tlb_of
from setebench.loops.records import LINE_BYTES, Loop, Policy, Stream
from setebench.loops.table import Table

CAUSES = {"load": 1, "store": 2, "prefetch": 4, "l1_prefetcher": 8}
KINDS = {"pair": 0, "next_line": 1, "up_down": 1, "stride": 2, "stream": 3}
LEVELS = {"l1": 1, "l2": 2, "l3": 3}
MEANT_FILLS = {"t0": "l1", "t1": "l2", "t2": "l2", "nta": "l1", "w": "l1"}
"""Where hints are meant to bring lines (x86 manuals), for what nobody measured."""

CONTIGUOUS, STRIDED, IRREGULAR = range(3)


@dataclass(frozen=True, kw_only=True)
class Core:
    """What a core overlaps: `window` iterations at once, nothing behind a missing load (`blocking`), nothing before an
    operation begins (`in_order`), and so many page walks at a time."""

    window: float = 8.0
    blocking: bool = False
    in_order: bool = False
    walkers: int = 2


class Queues:
    """Passes of a loop through one machine's queues."""

    def __init__(self, loop: Loop, table: Table, params: ModelParams | None = None) -> None:
        self._loop, self._table, self._params = loop, table, params or ModelParams()
        tlb = tlb_of(loop, table)
        machine = _machine(loop, table, tlb, self._params)
        streams = [_stream(stream, loop, table, tlb) for stream in loop.streams]
        self._passes = Passes(machine, streams, list(_prefetchers(loop, table, self._params)))

    def cycles(self, policy: Policy, core: Core, latency_factor: float = 1.0) -> float:
        """Cycles per iteration in the steady state, with latencies below level 2 so many times what was measured."""
        work = self._loop.cycles_per_iteration + self.instructions(policy)
        window = core.window * self._loop.cycles_per_iteration / work  # it holds instructions, also those of prefetches
        lines = sum(stream.lines_per_iteration for stream in self._loop.streams)
        params = self._params
        least = int(max(params.least_timed, min(params.timed, params.many_lines / lines)))
        timed = max(least, params.turns * policy.furthest)
        steps = max(stream.steps for stream in self._loop.streams)
        warm = min(params.warm, least) + policy.furthest * (steps - 1 + params.settled)
        stages = [(distance, LEVELS.get(self._fills(hint), 1)) for _, distance, hint in policy.parts]
        overlaps = (window, core.blocking, core.in_order, core.walkers)
        return self._passes.cycles(stages, overlaps, (work, warm, timed), latency_factor)

    def instructions(self, policy: Policy) -> float:
        """Cycles an iteration of the instructions of prefetching."""
        each = sum(stream.address_cycles * max(1.0, stream.lines_per_iteration) for stream in self._loop.prefetched)
        return policy.stages * each * self._table.params.prefetch_cycles

    def _fills(self, hint: str) -> str:
        return str(self._table.said(f"software_prefetch.fills.{hint}") or MEANT_FILLS[hint])


def _machine(loop: Loop, table: Table, tlb: Tlb, params: ModelParams) -> dict[str, Any]:
    """The machine as the compiled part takes it: entries by level for loads, software and hardware."""
    first, second = (table.quantity(f"latency.{level}").value for level in ("l1", "l2"))
    entries = zip(own(table.demand, loop, table), own(table.entries, loop, table), strict=True)
    sizes = own(lambda level: table.quantity(f"cache.{level}.size"), loop, table)
    return {
        "latency": (first, second, table.number("latency.l3") or second),
        "entries": [(demand, prefetch, max(demand, prefetch)) for demand, prefetch in entries],
        "tlb_entries": int(min(tlb.entries, params.most_tlb_entries)),
        "tlb_penalties": (tlb.near, tlb.far),
        "second_tlb": tlb.second,
        "capacity": [size / LINE_BYTES for size in sizes],
        "dropped_on_tlb_miss": tlb.dropped,
        "drops": table.said("software_prefetch.when_full") == "drops",
        "across_page": across_page(table),
        "blocking_store": table.said("blocking.store") == "blocking",
        "blocking_prefetch": table.said("blocking.prefetch") == "blocking",
    }


def _stream(stream: Stream, loop: Loop, table: Table, tlb: Tlb) -> dict[str, Any]:
    pattern, each = IRREGULAR, max(1, round(stream.accesses_per_iteration))
    step_lines, lines = 1, stream.lines_per_iteration
    if stream.pattern in REGULAR:
        far_apart = stream.pattern == "strided" and abs(stream.stride_bytes) >= LINE_BYTES
        pattern = STRIDED if far_apart else CONTIGUOUS
        step_lines = abs(stream.stride_bytes) // LINE_BYTES if far_apart else 1
    pages, page_lines = tlb.pages(loop, stream), tlb.page_bytes // LINE_BYTES
    if step_lines > SMALL_PAGE_LINES:  # further apart than small pages are: as few lines as separate pages will do
        page_lines = max(SMALL_PAGE_LINES, page_lines * SMALL_PAGE_LINES // step_lines)
        step_lines = SMALL_PAGE_LINES
    return {
        "pattern": pattern,
        "steps": stream.steps,
        "each": each,
        "chase": stream.pattern == "chase",
        "prefetched": stream.prefetched,
        "store": stream.writes and stream.pattern == "sequential",
        "one_page": pages.extent_bytes <= SMALL_PAGE_BYTES,
        "lines": lines,
        "step_lines": step_lines,
        "pages": max(1, pages.extent_bytes // tlb.page_bytes),
        "page_lines": page_lines,
        "in_second_tlb": pages.in_second_tlb,
        "sources": sources_of(loop, stream, table),
    }


SMALL_PAGE_BYTES = 4096
"""What hardware prefetchers keep within, and `across_page` is about."""

SMALL_PAGE_LINES = SMALL_PAGE_BYTES // LINE_BYTES
"""The same in lines."""


def _prefetchers(loop: Loop, table: Table, params: ModelParams) -> Iterator[dict[str, Any]]:
    """The prefetchers that were found and that have entries for all of the loop's streams."""
    regular = sum(stream.pattern in REGULAR for stream in loop.streams)
    for name, said in table.prefetchers():
        level, _, kind = name.partition(".")
        enough = said.get("streams") is None or said["streams"] >= regular
        if kind not in KINDS or level not in ("l1", "l2") or not enough:
            continue
        edges = said.get("trigger_at_page_edge")
        yield {
            "level": LEVELS[level],
            "kind": KINDS[kind],
            "causes": sum(CAUSES.get(cause, 0) for cause in said.get("trained_by", ("load",))),
            "fills": LEVELS.get(str(said.get("fills", level)), LEVELS[level]),
            "trigger": int(said.get("trigger", 3)),
            "edge_trigger": int(edges[0]) if edges else 0,
            "degree": int(said.get("degree", 1)),
            "reach": int(said.get("max_distance", 1)),
            "most_step": int(said.get("max_stride", 2048)) // LINE_BYTES,
            "crosses": bool(said.get("crosses_4k") or said.get("crosses_4k_in_2m")),
            "by_page": "page" in str(said.get("indexed_by", "")),
            "streams": max(1, int(said.get("streams") or params.many_streams) - regular + 1),
        }
