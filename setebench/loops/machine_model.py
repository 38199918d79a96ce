"""What of the measured table the model of queues needs, as plain numbers for one loop."""

from __future__ import annotations

from dataclasses import dataclass

from setebench.loops.model import REGULAR, parts_of
from setebench.loops.records import Loop, Stream
from setebench.loops.table import PAGE_BYTES, Table


@dataclass(frozen=True, kw_only=True)
class Walk:
    """Page walks of one stream: cycles of the first touch of a line (the mean), of a later one whose translation was
    displaced, how many other touches displace it, and whether prefetches that miss the TLB are done at all."""

    first: float = 0.0
    again: float = 0.0
    entries: float = 0.0
    survives: bool = True


@dataclass(frozen=True, kw_only=True)
class Rates:
    """The memory system for one loop. `latency` of level 1 to 3 in cycles; `demand` and `prefetch` entries of level 1
    and 2; `sources` per stream: the levels below 2 that serve it as (cumulated part, latency)."""

    latency: tuple[float, float, float]
    demand: tuple[float, float]
    prefetch: tuple[float, float]
    drops: bool
    fills: dict[str, str]
    sources: tuple[tuple[tuple[float, float], ...], ...]
    walks: tuple[Walk, ...]
    prefetchers: tuple[tuple[str, dict[str, object]], ...]
    prefetch_cycles: float

    def source(self, stream: int, drawn: float) -> float:
        """Latency of a line of a stream, from a number between 0 and 1."""
        for part, latency in self.sources[stream]:
            if drawn <= part:
                return latency
        return self.sources[stream][-1][1]


def rates_of(loop: Loop, table: Table) -> Rates:
    """The measured table for this loop."""
    latency = tuple(table.quantity(f"latency.{level}").value for level in ("l1", "l2"))
    third = table.said("latency.l3") or latency[1]
    demand = tuple(_entries(table, f"mshr.{level}.demand") for level in ("l1", "l2"))
    return Rates(
        latency=(latency[0], latency[1], float(third)),
        demand=(demand[0], demand[1]),
        prefetch=(table.entries("l1").value, table.entries("l2").value),
        drops=table.said("software_prefetch.when_full") == "drops",
        fills=_fills(table),
        sources=tuple(_sources(loop, stream, table) for stream in loop.streams),
        walks=tuple(_walk(loop, stream, table) for stream in loop.streams),
        prefetchers=tuple(table.prefetchers()),
        prefetch_cycles=table.params.prefetch_cycles,
    )


def _entries(table: Table, parameter: str) -> float:
    said = table.said(parameter)
    return float(said) if isinstance(said, int | float) and said else table.quantity("mshr.l1.demand").value


def _fills(table: Table) -> dict[str, str]:
    meant = {"t0": "l1", "t1": "l2", "t2": "l2", "nta": "l1", "w": "l1"}
    return {hint: str(table.said(f"software_prefetch.fills.{hint}") or level) for hint, level in meant.items()}


def _sources(loop: Loop, stream: Stream, table: Table) -> tuple[tuple[float, float], ...]:
    """Levels as (cumulated part, latency); lines that level 1 or 2 holds count as level 2's."""
    found, total = [], 0.0
    for level, part in parts_of(loop, stream, table):
        total += part
        found.append((total, table.quantity(f"latency.{'l2' if level == 'l1' else level}").value))
    return tuple(found)


def _walk(loop: Loop, stream: Stream, table: Table) -> Walk:
    extent = stream.extent_bytes or loop.working_set_bytes
    pages = "2m" if table.said("tlb.l1.entries.2m") else "4k"
    first, second = (_number(table, f"tlb.{level}.entries.{pages}") for level in ("l1", "l2"))
    near, far = (_number(table, f"tlb.{level}.miss_penalty.{pages}") for level in ("l1", "l2"))
    across = table.said("software_prefetch.across_page") is not False
    if stream.pattern in REGULAR:
        touched = min(len(loop.streams), loop.working_set_bytes / PAGE_BYTES[pages])
        cost = near if first and touched > first else 0.0
        return Walk(first=cost, again=cost, entries=first, survives=across or len(loop.streams) == 1)
    missing_first = max(0.0, 1 - first * PAGE_BYTES[pages] / extent) if first else 0.0
    missing_second = max(0.0, 1 - second * PAGE_BYTES[pages] / extent) if second else missing_first
    walk = far if second else near
    mean = missing_second * walk + max(0.0, missing_first - missing_second) * near
    survives = across or extent <= PAGE_BYTES["4k"]
    for level, missing in (("l1", missing_first), ("l2", missing_second)):
        if missing > 0.5 and table.said(f"software_prefetch.on_tlb_miss.{level}") is False:
            survives = False
    return Walk(first=mean, again=near, entries=first, survives=survives)


def _number(table: Table, parameter: str) -> float:
    said = table.said(parameter)
    return float(said) if isinstance(said, int | float) else 0.0
