"""Streams of neighbouring lines: prefetchers that take only lines next to each other for a stream.

Runs with gaps of several lines, which other prefetchers are kept out of, are none to such a prefetcher. A run of
neighbouring lines is led by much else: what brings the next line, what learns equal distances, what remembers regions.
So the run alternates between distances of one and two lines, comes from as many instructions, and only lines count that
lie two or more ahead, are in level 1, and do not come with the last access or with the same lines in another order.
"""

from __future__ import annotations

from dataclasses import replace

from setebench.prefetcher_map.across_cores import tell_across_cores
from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.led_runs import UNCLEAR, directions
from setebench.prefetcher_map.replacement import of_dense_streams, tell_replacement
from setebench.prefetcher_map.streams import Stream, ahead, find_l1_stream
from setebench.prefetcher_map.table_size import bisect
from setebench.prefetcher_map.tell import Told
from setebench.prefetcher_map.visit import Access, Visit

LONGEST, NEAREST, FURTHEST, MOST_AHEAD, STEADY = 10, 2, 5, 24, 16
MOST_STREAMS_ASKED = 60
METHOD = "a run of neighbouring lines, each by its own instruction"


def uneven(lab: Laboratory, count: int, down: bool) -> list[int]:
    """A run of `count` lines, one and two apart in turn, with room ahead."""
    lines = [lab.page_lines // 8 + number + number // 2 for number in range(count)]
    return [lab.page_lines - 1 - line for line in lines] if down else lines


def even(lab: Laboratory, count: int, down: bool) -> list[int]:
    """A run of `count` lines next to each other."""
    lines = [lab.page_lines // 8 + number for number in range(count)]
    return [lab.page_lines - 1 - line for line in lines] if down else lines


def visit_of(lab: Laboratory, lines: list[int]) -> Visit:
    """Accesses to these lines, each by its own instruction."""
    return Visit(tuple(Access(line * lab.line_size) for line in lines))


def find_inner_stream(lab: Laboratory) -> Stream:
    """The stream prefetcher of level 1: one that follows runs with gaps, or else one of neighbouring lines."""
    found = find_l1_stream(lab)
    if found.present:
        return found
    dense = find_dense_stream(lab)
    if dense.present is False:
        return found
    if dense.present is None:
        dense.reason = found.reason
    return dense


def find_dense_stream(lab: Laboratory) -> Stream:
    """The shortest uneven run of near lines that is led in level 1."""
    found = Stream(dense=True)
    told: list[bool | None] = []
    for down in (False, True):
        led = [_led(lab, uneven(lab, count, down), down) for count in (LONGEST, LONGEST - 1)]
        told.append(True if all(led) else (None if None in led or True in led else False))
        if told[-1]:
            found.present, found.down, found.trigger = True, down, _trigger(lab, down)
            return found
    found.present = None if None in told else False
    return found


def _led(lab: Laboratory, lines: list[int], down: bool) -> bool | None:
    """Whether lines ahead come to level 1 with the run, and neither with its last access nor in another order."""
    visit = visit_of(lab, lines)
    targets = ahead(lines, NEAREST, FURTHEST, down)
    told = [lab.in_l1(visit, target) for target in targets]
    if True not in told:
        return None if None in told else False
    target = targets[told.index(True)]
    others = (lines[-1:], [*reversed(lines[:-1]), lines[-1]])
    anyway = [lab.in_l1(visit_of(lab, order), target) for order in others]
    return True if anyway == [False, False] else None


def _trigger(lab: Laboratory, down: bool) -> int | None:
    """Accesses to neighbouring lines after which one more comes to level 1; None where a next-line prefetcher of level
    1 would bring that one as well."""
    if lab.known.next_in_l1:
        return None
    for count in range(2, LONGEST + 1):
        told = _next_comes(lab, even(lab, count, down), down)
        if told is None:
            return None
        if told:
            return count
    return None


def _next_comes(lab: Laboratory, lines: list[int], down: bool) -> bool | None:
    target = ahead(lines, 1, 1, down)[0]
    told = lab.in_l1(visit_of(lab, lines), target)
    return told if not told else (True if lab.in_l1(visit_of(lab, lines[-1:]), target) is False else None)


def tell_dense_stream(lab: Laboratory, huge: Laboratory | None, found: Stream, told: Told) -> None:
    """Ask and tell the rules of a stream prefetcher of level 1 that follows neighbouring lines only."""
    told.value(
        "trigger", found.trigger, "the shortest run of neighbouring lines that brings one more to level 1", UNCLEAR
    )
    ways = {down: _led(lab, uneven(lab, LONGEST, down), down) for down in (False, True)}
    told.value("directions", directions(ways), METHOD, UNCLEAR)
    told.value("fills", "l1", METHOD, "")
    reached = [_reach(lab, even(lab, count, found.down), found.down) for count in (LONGEST, STEADY, STEADY + 1)]
    seen = "unclear" if None in reached else " and ".join(str(each) for each in reached)
    for parameter in ("degree", "max_distance"):
        told.unresolved(
            parameter,
            f"batches show on runs with gaps, which it does not follow; after {LONGEST}, {STEADY} and {STEADY + 1} "
            f"neighbouring lines it is {seen} lines ahead: look at the chart",
            METHOD,
        )
    entries = _streams(lab, found)
    told.value("streams", entries, "runs in many pages, the first continued", UNCLEAR)
    lines, trigger = even(lab, LONGEST, found.down), found.trigger or 0
    goes_on = of_dense_streams(lab, lines[:trigger], lines[min(trigger, LONGEST - 1)], found.down)
    tell_replacement(goes_on, entries, told)
    run = uneven(lab, LONGEST, found.down)
    tell_across_cores(lab, visit_of(lab, run), LONGEST - 1, ahead(run, NEAREST, FURTHEST, found.down), told)
    if found.down:
        told.unresolved("crosses_4k", "it runs downwards only, which is not asked at the page's end")
        return
    for parameter, memory in (("crosses_4k", lab), ("crosses_4k_in_2m", huge)):
        if memory is not None:
            told.value(parameter, _crosses(memory), "a run of neighbouring lines to the end of a page", UNCLEAR)


def _reach(lab: Laboratory, lines: list[int], down: bool) -> int | None:
    """Lines ahead of the run that are in level 1 without a gap."""
    visit = visit_of(lab, lines)
    for number, target in enumerate(ahead(lines, 1, MOST_AHEAD, down)):
        inner = lab.in_l1(visit, target)
        if not inner:
            return None if inner is None else number
    return MOST_AHEAD


def _streams(lab: Laboratory, found: Stream) -> int | None:
    """How many runs, each in a page of its own, are remembered at once."""
    if found.trigger is None:
        return None
    lines = even(lab, LONGEST, found.down)
    size = lab.line_size
    first, more = lines[: found.trigger], lines[found.trigger]
    target = ahead([*first, more], 2, 2, found.down)[0]

    def run_on(pages: int) -> Visit:
        steps = [Access(line * size) for line in first]
        steps += [Access(line * size, page=page) for page in range(1, pages) for line in first]
        return Visit((*steps, Access(more * size)))

    return bisect(
        lambda pages: lab.in_l1(run_on(pages), target),
        MOST_STREAMS_ASKED,
        lambda pages: lab.plainly(run_on(pages), target, inner=True),
    )


def _crosses(lab: Laboratory) -> bool | None:
    """Whether a run that ends with a page's last line but one is led into the next page, further than one line."""
    last = lab.page_lines - 1
    lines = [last - 1 - number for number in reversed(range(LONGEST))]
    visit = replace(visit_of(lab, lines), window=(0, 2 * lab.page_lines))
    within = lab.in_l1(visit, last)
    if not within:  # the run must be led at its end, or nothing follows from what lies beyond
        return None
    told = [lab.in_l1(visit, target) for target in (last + 1, last + 2, last + 3)]
    if True in told:
        alone = replace(visit, steps=visit.steps[-1:])
        return True if lab.in_l1(alone, last + 1 + told.index(True)) is False else None
    return None if None in told else False
