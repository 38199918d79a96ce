"""The order of questions, and which behaviour is told of which prefetcher."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from setebench.errors import UnsupportedError
from setebench.machine import Region as Memory
from setebench.measure.others import Others
from setebench.measure.serving import References
from setebench.prefetcher_map.agree import LEAST, agreed, open_questions
from setebench.prefetcher_map.confirm import confirmed
from setebench.prefetcher_map.dense import METHOD, find_inner_stream, tell_dense_stream
from setebench.prefetcher_map.held_back import open_absent, told_awake, without_denials
from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.neighbour_rules import (
    HIDDEN,
    tell_next_line,
    tell_next_line_of_two,
    tell_pair,
    tell_up_down,
)
from setebench.prefetcher_map.neighbours import find_neighbours
from setebench.prefetcher_map.page_strides import find_l2_stride, tell_page_stride
from setebench.prefetcher_map.pushing_out import fit_walks
from setebench.prefetcher_map.region_rules import tell_region
from setebench.prefetcher_map.regions import find_region
from setebench.prefetcher_map.shown import Found, all_shown
from setebench.prefetcher_map.stream_tell import tell_stream
from setebench.prefetcher_map.streams import Stream, find_l2_stream, leads_anyway
from setebench.prefetcher_map.stride_tell import tell_stride
from setebench.prefetcher_map.strides import fences_hide_stride, find_l1_stride
from setebench.prefetcher_map.tell import Told
from setebench.results import Finding
from setebench.scenario import Context

HUGE_BYTES, HUGE_REGION_BYTES = 2 << 20, 32 << 20
UP_DOWN_UNCLEAR = "streams of level 1 may bring the line too, or it was there in some repetitions only; switch them off"
UNCLEAR = "some lines were there in some repetitions only; run again at a quieter time"
LED_BY_L1 = (
    "runs of neighbouring lines, which it may want, are led by level 1; switch that prefetcher off and run again"
)
CROWDED = "the lines that push others out of level 1 do not fit into level 2, whose streams they may end"
FENCES = (
    "it shows where addresses order the accesses, not where fences do: look at a pointer chase with equal distances"
)

SURVEYS, FAST_SURVEYS = (3, 4), (2, 3)
"""Surveys at least, and at most while something was told that is not sure yet; see `agree`."""


def repeated_survey(
    context: Context, region: Memory, references: Callable[[], References], *, switches: bool = False
) -> tuple[Laboratory, list[Finding]]:
    """Survey the machine several times, with `references` taken anew for each, and tell what the surveys agree on.

    `switches`: the machine's prefetchers may be switched off for a while, to confirm what was found. Returns the
    laboratory of the last survey too, for questions that are asked once."""
    least, most = FAST_SURVEYS if context.fast else SURVEYS
    huge_region = _huge_region(context)
    surveys: list[list[Finding]] = []
    others = Others(context.machine)
    try:
        while len(surveys) < max(least, LEAST) or (len(surveys) < most and open_questions(surveys)):
            context.progress(f"survey {len(surveys) + 1}")
            taken = references()
            lab = Laboratory(context, region, taken, len(surveys))
            huge = None if huge_region is None else Laboratory(context, huge_region, taken, len(surveys))
            found = _find(lab, others)
            told = list(survey(lab, huge, found))
            surveys.append(without_denials(told, others.busy_cpus()))
        findings = agreed(surveys)
        # the surveys say what there is; switches, where there are any, may only confirm or cast doubt
        return lab, confirmed(context, lab, lambda: all_shown(lab, found), findings) if switches else findings
    finally:
        if huge_region is not None:
            context.machine.release(huge_region)


def _huge_region(context: Context) -> Memory | None:
    """Some 2 MiB pages, where they are to be had."""
    if HUGE_BYTES not in context.machine.facts.page_sizes:
        return None
    try:
        return context.machine.allocate(HUGE_REGION_BYTES, HUGE_BYTES)
    except UnsupportedError as error:
        context.progress(f"no 2 MiB pages: {error}")
        return None


@dataclass(frozen=True)
class Entry:
    """One prefetcher of the table: how it was looked for, and what asks and tells its rules."""

    identity: str
    present: bool | None
    method: str
    reason: str
    rules: Callable[[Told], None]


def survey(lab: Laboratory, huge: Laboratory | None, found: Found) -> Iterator[Finding]:
    """Ask the rules of everything that was found once; `huge` is the same laboratory in 2 MiB pages."""
    known = lab.known
    known.level_two_listens = any(told is not False for told in _outer(found))
    known.inner_streams = found.l1_stream.present is not False
    known.outer_streams = found.l2_stream.present is not False
    if huge is not None:
        huge.know_as(lab)
    witnesses = {each.identity: each for each in all_shown(lab, found)}
    for entry in _entries(lab, huge, found):
        lab.context.progress(f"rules of {entry.identity}")
        told = Told(entry.identity)
        if told.present(entry.present, entry.method, entry.reason):
            told_awake(lab, witnesses.get(entry.identity), entry.rules, told)
        yield from told


def _find(lab: Laboratory, others: Others) -> Found:
    """What there is, unless `others` kept the computer busy meanwhile. Region prefetchers first: what they remember of
    former visits must not disturb the rest."""
    others.busy_cpus()  # from here on
    tell = lab.context.progress
    tell("what level 2 holds")
    fit_walks(lab)
    tell("region prefetchers")
    region = find_region(lab)
    tell("neighbouring lines")
    near = find_neighbours(lab)
    lab.known.next_repeats, lab.known.next_counts_misses = near.next_trigger, near.flushed
    lab.known.outer_next = near.l2_next_line is not False or near.up_down is not False
    lab.known.next_in_l1 = near.next_line is not False and near.next_trigger in (None, 1)
    tell("strides")
    strides = find_l1_stride(lab), find_l2_stride(lab)
    tell("streams")
    found = Found(region, near, *strides, find_inner_stream(lab), find_l2_stream(lab))
    found = open_absent(lab, found, others.busy_cpus())
    _doubt(lab, found)
    return found


def _outer(found: Found) -> tuple[bool | None, ...]:
    """What was found of every prefetcher of level 2."""
    near = found.near
    return near.pair, near.l2_next_line, near.up_down, found.l2_stride.present, found.l2_stream.present


def _doubt(lab: Laboratory, found: Found) -> None:
    """Open what others that were found later explain as well: two accesses may be a stream to level 1, which then
    brings what going down would; a run of neighbouring lines that nothing found leads may be led by streams that the
    runs with gaps, which other prefetchers are kept out of, do not wake."""
    if found.l1_stream.present is not False and found.l1_stream.trigger in (None, 2):
        found.near.up_down = None
    if found.l1_stride.present is False and fences_hide_stride(lab):
        found.l1_stride.present, found.l1_stride.reason = None, FENCES
    if found.l1_stream.dense and found.l2_stream.present is False:
        found.l2_stream.present, found.l2_stream.reason = None, LED_BY_L1
        return
    if found.l2_stream.present is False and not lab.known.walks_fit:
        found.l2_stream.present, found.l2_stream.reason = None, CROWDED
    streams = (found.l1_stream, found.l2_stream)
    explained = found.l2_stride.present or any(stream.present for stream in streams)
    if not explained and leads_anyway(lab):
        for stream in streams:
            if stream.present is False:
                stream.present, stream.reason = None, "neighbouring lines are led on by nothing that was found"


def _entries(lab: Laboratory, huge: Laboratory | None, found: Found) -> Iterator[Entry]:
    near, unclear = found.near, found.unsure or UNCLEAR
    yield Entry(
        "l1.next_line",
        near.next_line,
        "the next line in level 1 after repeated accesses to one line",
        unclear,
        lambda told: tell_next_line(lab, huge, near, told),
    )
    yield _stream(lab, huge, found.l1_stream, True, "lines ahead of a run that level 2 holds")
    yield Entry(
        "l1.stride",
        found.l1_stride.present,
        "equal distances of one instruction, against as many",
        found.l1_stride.reason or unclear,
        lambda told: tell_stride(lab, huge, found.l1_stride, told),
    )
    yield Entry(
        "l1.region",
        found.region.present,
        "lines that followed a first access in other pages",
        unclear,
        lambda told: tell_region(lab, found.region, told),
    )
    yield Entry(
        "l2.pair",
        near.pair,
        "the line before an odd one after one access",
        unclear,
        lambda told: tell_pair(lab, told),
    )
    yield Entry(
        "l2.next_line",
        near.l2_next_line,
        "the next line after one access",
        found.unsure or HIDDEN,
        lambda told: tell_next_line_of_two(lab, huge, near, told),
    )
    if near.up_down_seen:  # no machine is said to lack one: only some have a prefetcher of this kind at all
        yield Entry(
            "l2.up_down",
            near.up_down,
            "the neighbouring line on the side to which the page's accesses went",
            UP_DOWN_UNCLEAR,
            lambda told: tell_up_down(lab, huge, near, told),
        )
    yield _stream(lab, huge, found.l2_stream, False, "lines ahead of a run of misses")
    yield Entry(
        "l2.stride",
        found.l2_stride.present,
        "equal distances in a page, against uneven ones",
        found.l2_stride.reason or unclear,
        lambda told: tell_page_stride(lab, huge, found.l2_stride, told),
    )


def _stream(lab: Laboratory, huge: Laboratory | None, found: Stream, inner: bool, method: str) -> Entry:
    identity = "l1.stream" if inner else "l2.stream"
    reason = found.reason or UNCLEAR
    if found.dense:
        return Entry(identity, found.present, METHOD, reason, lambda told: tell_dense_stream(lab, huge, found, told))
    return Entry(identity, found.present, method, reason, lambda told: tell_stream(lab, huge, found, inner, told))
