"""Advice as data: for each stream which stage does what, with which hint, how far ahead, and why.

`prefetch_advice` answers from a result file and the description of a loop alone, which is a start. The scenario
`advise-prefetch` goes on from there: it times distances and hints, and proves what it advises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from setebench.errors import UsageError
from setebench.loops.advisor import Advisor, Candidate, covering, follower
from setebench.loops.rates import (
    dropped_part,
    latency_of,
    lines_of,
    most_iterations,
    served_lines,
    sharers,
    walk_cycles,
)
from setebench.loops.records import Loop, Policy, Stream
from setebench.loops.table import UNLIMITED_ENTRIES, Quantity, Table
from setebench.results import Document

START = (
    "This is a start from the table alone: nothing was timed. Time half and twice the distance, and the loop without "
    "prefetches, before you keep it."
)


class StreamAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done for one stream: by whom each level gets its lines (`software`, `hardware` or `nobody`)."""

    stream: str
    l1: str
    l2: str
    reason: str


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """Advice for a loop. `cycles` is what an iteration is expected to take by strategy; `low` and `high` are the
    distances (L1 stage, L2 stage) that the range of the findings allows; `why` are sentences, `needs` what is missing
    in the result, with the reason."""

    loop: str
    unit: str
    strategy: str
    policy: Policy
    low: tuple[int, int]
    high: tuple[int, int]
    cycles: dict[str, float]
    streams: tuple[StreamAdvice, ...]
    why: tuple[str, ...]
    needs: dict[str, str]


def prefetch_advice(result: Document, loop: Loop | Mapping[str, Any]) -> Advice:
    """Advice for a loop from a result document. `loop` is a `Loop`, or its fields as a mapping.

    Without `measured_cycles` in it (what an iteration takes now) it is guessed how much of the misses the core overlaps
    by itself. Raises `UsageError` for a loop that makes no sense."""
    advisor = Advisor(loop if isinstance(loop, Loop) else loop_of(loop), Table.of(result.findings))
    return advice_of(advisor, advisor.choice(), START)


def loop_of(fields: Mapping[str, Any]) -> Loop:
    """A loop from its fields, as a TOML file has them. Raises `UsageError`."""
    try:
        return msgspec.convert(dict(fields), type=Loop)
    except msgspec.ValidationError as error:
        raise UsageError(f"the loop's description: {error}") from error


def advice_of(advisor: Advisor, chosen: Candidate, *remarks: str) -> Advice:
    """The chosen policy as advice, with reasons, before them `remarks`."""
    loop, table, policy = advisor.loop, advisor.table, chosen.policy
    whole, short = latency_of(loop, table), table.quantity("latency.l2")
    first = short if policy.l2_distance else whole
    low, high = (
        (_scaled(policy.l1_distance, first, end), _scaled(policy.l2_distance, whole, end)) for end in ("low", "high")
    )
    return Advice(
        loop=loop.name,
        unit=loop.unit,
        strategy=chosen.strategy,
        policy=policy,
        low=low,
        high=high,
        cycles={each.strategy: round(each.cycles, 2) for each in reversed(advisor.candidates())},
        streams=tuple(_stream(stream, policy, loop, table) for stream in loop.streams),
        why=(*remarks, *_why(advisor, chosen)),
        needs=dict(table.missing),
    )


def _scaled(distance: int, latency: Quantity, end: str) -> int:
    """The distance in proportion to the latency that it hides."""
    return max(1, round(distance * getattr(latency, end) / latency.value)) if distance else 0


def _stream(stream: Stream, policy: Policy, loop: Loop, table: Table) -> StreamAdvice:
    follows = covering(stream, loop, table)
    if not stream.prefetched or not policy.stages:
        none = "no prefetch pays for its instructions here" if stream.prefetched else "it hits, or can't be foreseen"
        return StreamAdvice(
            stream=stream.name,
            l1="hardware" if follows.startswith("l1.") else "nobody",
            l2="hardware" if follows else "nobody",
            reason=f"left to prefetcher {follows}" if follows else none,
        )
    by_hardware = follower(loop, table) if not policy.l2_distance else ""
    return StreamAdvice(
        stream=stream.name,
        l1="software" if policy.l1_distance else "nobody",
        l2="hardware" if by_hardware else "software",
        reason=f"prefetcher {by_hardware} follows the software's prefetches" if by_hardware else "see why",
    )


# -- reasons ----------------------------------------------------------------------------------------------------------


def _why(advisor: Advisor, chosen: Candidate) -> Iterator[str]:
    """Sentences, each with the findings that it rests on."""
    loop, table, lines = advisor.loop, advisor.table, served_lines(advisor.loop, advisor.table)
    level = max(lines, key=lambda each: lines[each])
    yield (
        f"An iteration works {loop.cycles_per_iteration:.1f} cycles on data in level 1 and takes "
        f"{advisor.expected(Policy()):.1f} without software prefetches; the lines to prefetch ({lines_of(loop):.3g} an "
        f"iteration) come mostly from {level}, {_said(latency_of(loop, table))} cycles away (latency.{level}, "
        "cache.*.size, tlb.*)."
    )
    dropped = dropped_part(loop, table)
    if walk_cycles(loop, table) >= 1 or dropped:
        yield (
            f"Page walks are {walk_cycles(loop, table):.0f} of these cycles, and {dropped:.0%} of the prefetches are "
            "dropped (software_prefetch.on_tlb_miss.*, software_prefetch.across_page)."
        )
    if not chosen.policy.stages:
        others = [each for each in advisor.candidates() if each.policy.stages]
        expected = f"; the best other is expected to take {others[0].cycles:.1f} cycles" if others else ""
        least = table.params.least_gain
        yield f"Don't prefetch: it gains less than {least:.0%}, or no prefetch gets through{expected}."
        return
    yield from _queues(loop, chosen, table)
    yield from _distances(advisor, chosen)
    yield from _stages(advisor, chosen)


def _queues(loop: Loop, chosen: Candidate, table: Table) -> Iterator[str]:
    flight = lines_of(loop) * latency_of(loop, table).value / chosen.cycles
    counts = [f"level {level[1]} has {_entries(table, level)} (mshr.{level}.prefetch)" for level in ("l1", "l2")]
    full = {"drops": "more are dropped", "stalls": "more stall"}.get(
        str(table.said("software_prefetch.when_full")), "what happens to more is not known"
    )
    threads = max(sharers(loop, table, level) for level in ("l1", "l2"))
    shared = f", shared by {threads} threads (mshr.*.shared_by_smt)" if threads > 1 else ""
    yield (
        f"At {chosen.cycles:.1f} cycles an iteration {flight:.1f} lines are in flight (lines times latency over time: "
        f"Little's law); of entries {' and '.join(counts)}{shared}, and {full} (software_prefetch.when_full)."
    )


def _entries(table: Table, level: str) -> str:
    entries = table.entries(level)
    if entries.value >= UNLIMITED_ENTRIES:
        return "any number"
    return f"{entries.value:.0f}" if entries.known else f"{entries.low:.0f} to {entries.high:.0f}, not known"


def _distances(advisor: Advisor, chosen: Candidate) -> Iterator[str]:
    loop, table, policy = advisor.loop, advisor.table, chosen.policy
    for level, distance, _ in policy.parts:
        cycles = table.quantity("latency.l2") if policy.stages == 2 and level == "l1" else latency_of(loop, table)
        yield (
            f"{level.upper()} stage: {_said(cycles)} cycles over {chosen.cycles:.1f} an iteration ask for "
            f"{int(cycles.value / chosen.cycles) + 1} {loop.unit} (Mowry et al. 1992); advised are {distance}, and "
            f"at most {most_iterations(loop, table, level, policy.stages == 1)} fit (cache.{level}.size)."
        )


def _stages(advisor: Advisor, chosen: Candidate) -> Iterator[str]:
    near, far, name = chosen.policy.l1_hint, chosen.policy.l2_hint, follower(advisor.loop, advisor.table)
    sentences = {
        "two_stage_sw": (
            f"Two stages: {far} brings lines the long way, {near} on to level 1, so that a line holds an entry of "
            f"level 1 for the short way only (software_prefetch.fills.{far}, .{near})."
        ),
        "two_stage_hw_sw": (
            f"One software stage, {near}, which trains prefetcher {name} further ahead; that serves level 2 "
            f"(prefetcher.{name}.trained_by, .streams, .max_distance)."
        ),
        "l2_sw": (
            f"{far} alone: what level 1 still misses is near, and costs less than a second prefetch "
            f"(software_prefetch.fills.{far}, latency.l2)."
        ),
        "l1_sw": (
            f"{near} alone: level 1 has entries for the whole way, and a second prefetch costs instructions "
            f"(software_prefetch.fills.{near}, mshr.l1.prefetch)."
        ),
    }
    yield sentences[chosen.strategy]


def _said(quantity: Quantity) -> str:
    if quantity.known:
        return f"{quantity.value:.0f}"
    return f"{quantity.low:.0f} to {quantity.high:.0f} (not measured)"
