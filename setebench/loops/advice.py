"""Advice as data: for each stream which stage does what, with which hint, how far ahead, and why.

`prefetch_advice` answers from a result file and the description of a loop alone. The scenario `advise-prefetch` goes on
from there: it tries what the model likes, and proves what it advises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from setebench.errors import UsageError
from setebench.loops.advisor import Advisor, Candidate, follower
from setebench.loops.rates import (
    REGULAR,
    across_page,
    held_iterations,
    latency_of,
    most_iterations,
    serving_level,
    sharers,
    tlb_of,
)
from setebench.loops.records import Loop, Policy, Stream
from setebench.loops.table import UNLIMITED_ENTRIES, Quantity, Table
from setebench.results import Document

LEVEL_NAMES = {"l1": "level 1", "l2": "level 2", "l3": "level 3", "memory": "memory"}


class StreamAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done for one stream: by whom each level gets its lines (`software`, `hardware` or `nobody`)."""

    stream: str
    l1: str
    l2: str
    reason: str


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """Advice for a loop. `cycles` is what an iteration is expected to take by strategy; `low` and `high` are the
    distances (L1 stage, L2 stage) that the range of the findings allows; `why` are sentences, `needs` what is missing
    in the result, with the reason; `smallest_block`: iterations below which a loop that is begun anew gains nothing, 0
    where it never does."""

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
    smallest_block: int = 0


def prefetch_advice(result: Document, loop: Loop | Mapping[str, Any]) -> Advice:
    """Advice for a loop from a result document. `loop` is a `Loop`, or its fields as a mapping.

    Without `measured_cycles` in it (what an iteration takes now) it is guessed how much of the misses the core overlaps
    by itself. Raises `UsageError` for a loop that makes no sense."""
    described = loop if isinstance(loop, Loop) else loop_of(loop)
    advisor = Advisor(described, Table.of(result.findings))
    return advice_of(advisor, advisor.choice())


def loop_of(fields: Mapping[str, Any]) -> Loop:
    """A loop from its fields, as a TOML file has them. Raises `UsageError`."""
    try:
        return msgspec.convert(dict(fields), type=Loop)
    except msgspec.ValidationError as error:
        raise UsageError(f"the loop's description: {error}") from error


def advice_of(advisor: Advisor, chosen: Candidate) -> Advice:
    """The chosen policy as advice, with reasons."""
    loop, table = advisor.loop, advisor.table
    low, high = _range(advisor, chosen.policy)
    return Advice(
        loop=loop.name,
        unit=loop.unit,
        strategy=chosen.strategy,
        policy=chosen.policy,
        low=low,
        high=high,
        cycles={each.strategy: round(each.cycles, 2) for each in reversed(advisor.candidates())},
        streams=tuple(_stream(stream, chosen, loop, table) for stream in loop.streams),
        why=tuple(why(advisor, chosen)),
        needs=dict(table.missing),
        smallest_block=advisor.smallest_block(chosen),
    )


# -- streams ----------------------------------------------------------------------------------------------------------


def _stream(stream: Stream, chosen: Candidate, loop: Loop, table: Table) -> StreamAdvice:
    follows = _covering(stream, table)
    policy = chosen.policy
    if not stream.prefetched or not policy.stages:
        l1 = "hardware" if follows.startswith("l1.") else "nobody"
        reason = f"left to prefetcher {follows}" if follows else "no prefetch pays for its instructions here"
        if not stream.prefetched:
            reason = f"left to prefetcher {follows}" if follows else "its accesses hit, or can't be foreseen"
        return StreamAdvice(stream=stream.name, l1=l1, l2="hardware" if follows else "nobody", reason=reason)
    by_hardware = follower(loop, table) if not policy.l2_distance else ""
    return StreamAdvice(
        stream=stream.name,
        l1="software" if policy.l1_distance else "nobody",
        l2="software" if policy.l2_distance else "hardware" if by_hardware else "software",
        reason=f"prefetcher {by_hardware} follows the software's prefetches" if by_hardware else "see why",
    )


def _covering(stream: Stream, table: Table) -> str:
    """A hardware prefetcher that follows the stream by itself, "" where none does."""
    if stream.pattern not in REGULAR:
        return ""
    kinds = ("l1.stride", "l1.stream", "l2.stream", "l2.stride")
    cause = "store" if stream.writes and stream.pattern == "sequential" else "load"
    present = dict(table.prefetchers())
    return next((kind for kind in kinds if kind in present and cause in present[kind].get("trained_by", (cause,))), "")


# -- reasons ----------------------------------------------------------------------------------------------------------


def why(advisor: Advisor, chosen: Candidate) -> Iterator[str]:
    """Sentences, each with the findings that it rests on."""
    loop, table = advisor.loop, advisor.table
    latency, lines = latency_of(loop, table), sum(stream.lines_per_iteration for stream in loop.prefetched)
    level = serving_level(loop, table)
    now = advisor.expected(Policy())
    yield (
        f"An iteration works {loop.cycles_per_iteration:.1f} cycles on data in level 1 and takes {now:.1f} without "
        f"software prefetches; the lines to prefetch ({lines:.3g} an iteration) come mostly from {LEVEL_NAMES[level]}, "
        f"{_said(latency)} cycles away (latency.{level}, cache.*.size)."
    )
    yield from _walks(advisor)
    if not chosen.policy.stages:
        yield from _nothing(advisor)
        return
    yield from _queues(lines, latency, chosen, table)
    yield from _shared(advisor.loop, table)
    yield from _distances(advisor, chosen)
    yield from _stages(advisor, chosen)
    block = advisor.smallest_block(chosen)
    if block:
        yield (
            f"Begun anew, the loop gains from {block} {loop.unit} on: nothing was prefetched for the first ones, up to "
            "the furthest distance. Leave shorter ones as they are."
        )


def _walks(advisor: Advisor) -> Iterator[str]:
    tlb = tlb_of(advisor.loop, advisor.table)
    for stream in advisor.loop.prefetched:
        cycles = tlb.walk_cycles(tlb.pages(advisor.loop, stream))
        if cycles >= 1:
            dropped = not across_page(advisor.table) or any(tlb.dropped)
            yield (
                f"Its accesses to {stream.name} miss TLBs, {cycles:.0f} cycles on average, and prefetches "
                f"{'are dropped then' if dropped else 'are done all the same'} "
                "(tlb.*, software_prefetch.on_tlb_miss.*, software_prefetch.across_page)."
            )
            return


def _nothing(advisor: Advisor) -> Iterator[str]:
    others = [each for each in advisor.candidates() if each.policy.stages]
    if not others:
        yield "Don't prefetch: no hint's prefetches get through (software_prefetch.fills.*, .on_tlb_miss.*)."
        return
    yield (
        f"Don't prefetch: the best that was found ({_named(others[0])}) is expected to take "
        f"{others[0].cycles:.1f} cycles an iteration, which gains less than "
        f"{advisor.table.params.least_gain:.0%} or loses."
    )


def _queues(lines: float, latency: Quantity, chosen: Candidate, table: Table) -> Iterator[str]:
    flight = lines * latency.value / chosen.cycles
    counts = [f"level {level[1]} keeps {_entries(table, level)} (mshr.{level}.prefetch)" for level in ("l1", "l2")]
    full = {"drops": "more are dropped", "stalls": "more stall"}.get(
        str(table.said("software_prefetch.when_full")), "what happens to more is not known"
    )
    yield (
        f"At the {chosen.cycles:.1f} cycles expected, {flight:.1f} lines are in flight (lines times latency over "
        f"time); {' and '.join(counts)}, {full} (software_prefetch.when_full)."
    )


def _shared(loop: Loop, table: Table) -> Iterator[str]:
    for level in ("l1", "l2"):
        if (threads := sharers(loop, table, level)) > 1:
            yield f"Those of {LEVEL_NAMES[level]} are shared by {threads} threads (mshr.{level}.shared_by_smt)."


def _entries(table: Table, level: str) -> str:
    entries = table.entries(level)
    if entries.value >= UNLIMITED_ENTRIES:
        return "any number"
    return f"{entries.value:.0f}" if entries.known else f"{entries.low:.0f} to {entries.high:.0f}, not known"


def _distances(advisor: Advisor, chosen: Candidate) -> Iterator[str]:
    loop, table, policy = advisor.loop, advisor.table, chosen.policy
    latency, far = latency_of(loop, table), table.quantity("latency.l2")
    for stage, distance, cycles in (
        ("L2", policy.l2_distance, latency),
        ("L1", policy.l1_distance, far if policy.l2_distance else latency),
    ):
        if not distance:
            continue
        level = stage.lower()
        share, full = table.params.l2_fraction, most_iterations(loop, table, level)
        if level == "l1" and not policy.l2_distance:
            share, full = 1.0, int(held_iterations(loop, table, level))
        elif level == "l1":
            share = table.params.l1_fraction
        yield (
            f"{stage} stage: {_said(cycles)} cycles over {chosen.cycles:.1f} an iteration ask for at least "
            f"{max(1, round(cycles.value / chosen.cycles))} {loop.unit} (Mowry et al. 1992); advised are {distance}, "
            f"and {share:.0%} of the level are full at {full} (cache.{level}.size)."
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


def _named(candidate: Candidate) -> str:
    return " and ".join(f"{hint} {distance} ahead" for _, distance, hint in candidate.policy.parts) or "none"


def _range(advisor: Advisor, policy: Policy) -> tuple[tuple[int, int], tuple[int, int]]:
    """The distances that the findings' range allows: in proportion to the latencies that each stage hides."""
    loop, table = advisor.loop, advisor.table
    whole, short = latency_of(loop, table), table.quantity("latency.l2")
    first = short if policy.l2_distance else whole
    ends = [
        (_scaled(policy.l1_distance, first, end), _scaled(policy.l2_distance, whole, end)) for end in ("low", "high")
    ]
    return ends[0], ends[1]


def _scaled(distance: int, latency: Quantity, end: str) -> int:
    return max(1, round(distance * getattr(latency, end) / latency.value)) if distance else 0
