"""How long an iteration takes with a prefetch policy, by the narrowest of the places that it needs.

Mowry, Lam and Gupta 1992 ("Design and evaluation of a compiler algorithm for prefetching", section 2.3.2): a prefetch
must be issued its latency ahead, which in iterations is latency over iteration time. The iteration can't be faster than
its work with the instructions of prefetching, nor than the miss entries that its lines need let them through (Little's
law: lines in flight = lines per cycle times latency). Fang et al. 2014, section 7: a stage of its own for each level
splits that need, many entries of level 2 for the long way and few of level 1 for the short one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from setebench.loops.records import LINE_BYTES, Loop, Policy, Strategy, Stream
from setebench.loops.table import Quantity, Table

REGULAR = ("sequential", "strided")
PAGE_BYTES = 4096


@dataclass(frozen=True, kw_only=True)
class Ways:
    """A loop's lines and where they come from: `lines` per iteration that policies prefetch, their mean `latency` from
    there to the core in cycles, `from_l2` the part of them that level 2 already holds, and whether prefetches get
    through the TLBs and across pages (`survive`)."""

    lines: float
    latency: Quantity
    level_two: Quantity
    from_l2: float
    survive: bool
    address_cycles: float


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A policy with what the model expects: cycles per iteration, and the place that is narrowest."""

    strategy: Strategy
    policy: Policy
    cycles: float
    limit: str


def ways_of(loop: Loop, table: Table) -> Ways:
    """Where the lines that policies prefetch come from."""
    streams = loop.prefetched or loop.streams
    weights = [stream.lines_per_iteration for stream in streams]
    found = [_source(loop, stream, table) for stream in streams]
    lines = sum(weights)
    level_two = table.quantity("latency.l2")
    mean = [sum(w * each[k] for w, each in zip(weights, found, strict=True)) / lines for k in range(3)]
    return Ways(
        lines=lines,
        latency=Quantity(mean[0], mean[1], mean[2], all(each[3] for each in found)),
        level_two=level_two,
        from_l2=sum(w * each[4] for w, each in zip(weights, found, strict=True)) / lines,
        survive=all(each[5] for each in found),
        address_cycles=sum(w * stream.address_cycles for w, stream in zip(weights, streams, strict=True)),
    )


def _source(loop: Loop, stream: Stream, table: Table) -> tuple[float, float, float, bool, float, bool]:
    """(latency, its lowest, its highest, whether known, part that level 2 holds, whether prefetches survive)."""
    extent = stream.extent_bytes or loop.working_set_bytes
    parts = dict(parts_of(loop, stream, table))
    cycles = {level: table.quantity(f"latency.{level}") for level in parts}
    random = stream.pattern not in REGULAR
    penalty, survives = table.translated(extent) if random else (0.0, True)
    if random and extent > PAGE_BYTES and table.said("software_prefetch.across_page") is False:
        survives = False
    sums = [
        sum(part * getattr(cycles[level], name) for level, part in parts.items()) + penalty
        for name in ("value", "low", "high")
    ]
    return (*sums, all(each.known for each in cycles.values()), parts.get("l1", 0.0) + parts.get("l2", 0.0), survives)  # type: ignore[return-value]


def parts_of(loop: Loop, stream: Stream, table: Table) -> Iterator[tuple[str, float]]:
    """Levels that serve a stream, with the part of its lines that each serves.

    A stream in order finds all of its working set in the first level that holds it, and nothing in those before; one in
    random order finds in each level as much of it as fits."""
    extent = stream.extent_bytes or loop.working_set_bytes
    whole = max(extent, loop.working_set_bytes if stream.pattern in REGULAR else extent)
    left = 1.0
    for level, size in table.sizes():
        fits = min(1.0, size / whole)
        part = left if fits >= 1.0 else 0.0 if stream.pattern in REGULAR else max(0.0, fits - (1.0 - left))
        if part > 0:
            yield level, part
        left -= part
        if left <= 0:
            return
    yield "memory", left


# -- policies ---------------------------------------------------------------------------------------------------------


def candidates(loop: Loop, table: Table) -> list[Candidate]:
    """Every strategy that this machine allows, with the distances that suit it, the fastest first."""
    ways = ways_of(loop, table)
    today = today_cycles(loop, ways, table)
    found = [Candidate(strategy="hardware", policy=Policy(), cycles=today, limit="as it is")]
    if ways.survive:
        found += _staged(loop, table, ways, today)
    return sorted(found, key=lambda candidate: candidate.cycles)


def today_cycles(loop: Loop, ways: Ways, table: Table) -> float:
    """Cycles of an iteration without software prefetches: as measured, else by what can overlap."""
    if loop.measured_cycles:
        return loop.measured_cycles
    if loop.dependent or table.blocking():
        return loop.cycles_per_iteration + ways.lines * ways.latency.value
    return max(loop.cycles_per_iteration, ways.lines * ways.latency.value / table.quantity("mshr.l1.demand").value)


def _staged(loop: Loop, table: Table, ways: Ways, today: float) -> Iterator[Candidate]:
    near, far = table.hint("l1"), table.hint("l2")
    work, lines = loop.cycles_per_iteration, ways.lines
    one = work + _issue(table, ways, 1)
    exposed = min(1.0, max(0.0, (today - work) / (lines * ways.latency.value)))
    first, second = table.entries("l1").value, table.entries("l2").value
    if near:
        bounds = {"work": one, "entries of level 1": lines * ways.latency.value / first}
        yield _candidate("l1_sw", loop, table, ways, bounds, (near, ""))
    if far and ways.from_l2 < 1:
        waits = one + exposed * lines * ways.level_two.value
        bounds = {"work": waits, "entries of level 2": lines * ways.latency.value / second}
        yield _candidate("l2_sw", loop, table, ways, bounds, ("", far))
    if near and far and ways.from_l2 < 1:
        bounds = {
            "work": work + _issue(table, ways, 2),
            "entries of level 1": lines * ways.level_two.value / first,
            "entries of level 2": lines * ways.latency.value / second,
        }
        yield _candidate("two_stage_sw", loop, table, ways, bounds, (near, far))
    if near and covered(loop, table):
        bounds = {
            "work": one,
            "entries of level 1": lines * ways.level_two.value / first,
            "the hardware prefetcher": today - exposed * lines * ways.level_two.value,
        }
        yield _candidate("two_stage_hw_sw", loop, table, ways, bounds, (near, ""))


def _issue(table: Table, ways: Ways, stages: int) -> float:
    """Cycles that the instructions of prefetching take."""
    return stages * ways.address_cycles * table.params.prefetch_cycles


def _candidate(
    strategy: Strategy, loop: Loop, table: Table, ways: Ways, bounds: dict[str, float], hints: tuple[str, str]
) -> Candidate:
    limit = max(bounds, key=lambda name: bounds[name])
    cycles = bounds[limit]
    own = distances(strategy, loop, table, ways, cycles)
    policy = Policy(
        l1_distance=own[0] if hints[0] else 0,
        l1_hint=hints[0] or "t0",
        l2_distance=own[1] if hints[1] else 0,
        l2_hint=hints[1] or "t1",
    )
    # a distance that was cut leaves a part of the latency
    reached = (policy.l2_distance - policy.l1_distance if hints[1] else policy.l1_distance) or 1
    short = ways.level_two.value if strategy == "two_stage_hw_sw" else ways.latency.value
    late = short / reached / (loop_steps(loop))
    return Candidate(strategy=strategy, policy=policy, cycles=max(cycles, late), limit=limit)


def loop_steps(loop: Loop) -> int:
    """Prefetches of one lookup that are in flight at different times, at once for different lookups."""
    return max(stream.steps for stream in loop.streams)


# -- distances --------------------------------------------------------------------------------------------------------


def distances(strategy: Strategy, loop: Loop, table: Table, ways: Ways, cycles: float) -> tuple[int, int]:
    """Distances of the L1 and the L2 stage in iterations, for iterations of so many cycles."""
    slack = table.params.slack
    far = _ahead(ways.latency.value, cycles, slack)
    short = _ahead(ways.level_two.value, cycles, slack)
    near_most, far_most = most(loop, table, "l1"), most(loop, table, "l2")
    if strategy == "l1_sw":
        return min(far, near_most), 0
    if strategy == "two_stage_hw_sw":
        return min(short, near_most), 0
    if strategy == "l2_sw":
        return 0, min(far, far_most)
    short = min(short, near_most)
    return short, max(short + 1, min(short + far, far_most))


def _ahead(latency: float, cycles: float, slack: float) -> int:
    return max(1, math.ceil(slack * latency / cycles))


def most(loop: Loop, table: Table, level: str) -> int:
    """Largest distance at which what is prefetched fills no more of a level than it may."""
    fraction = table.params.l1_fraction if level == "l1" else table.params.l2_fraction
    lines = sum(stream.lines_per_iteration for stream in loop.streams)
    return max(1, int(fraction * table.quantity(f"cache.{level}.size").value / (lines * LINE_BYTES)))


# -- hardware prefetchers ---------------------------------------------------------------------------------------------


def covered(loop: Loop, table: Table) -> str:
    """The hardware prefetcher that brings all of the loop's prefetched streams to level 2 while software fetches from
    there, "" where none does: it must follow as many streams, and go on for software prefetches."""
    regular = [stream for stream in loop.prefetched if stream.pattern in REGULAR]
    if not regular or len(regular) < len(loop.prefetched):
        return ""
    for name, own in table.prefetchers():
        followed = own.get("streams", len(regular))
        steps = [abs(stream.stride_bytes) if stream.pattern == "strided" else LINE_BYTES for stream in regular]
        reach = own.get("max_distance", 1) * LINE_BYTES
        trained = "prefetch" in own.get("trained_by", ())
        if name.startswith("l2.") and trained and followed >= len(regular) and max(steps) < reach:
            return name
    return ""
