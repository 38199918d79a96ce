"""The prefetchers that have a name: by what each goes, how it is looked for, and what reports its rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import described, neighbours, regions, streams, strides
from .attributes import Found
from .lab import Lab
from .neighbours import HIDDEN, Finds
from .report import UNCLEAR, Report

UP_DOWN = "streams of level 1 may bring the line too, or it was there in some repetitions only; switch them off"
LED_BY_L1 = (
    "runs of neighbouring lines, which it may want, are led by level 1; switch that prefetcher off and run again"
)
UNEXPLAINED = "neighbouring lines are led on by nothing that was found"


@dataclass(frozen=True)
class Family:
    """One prefetcher of the table. `key`: what its memory goes by. `method`: by which comparison it is found. `doubt`:
    why it may stay open. `rules` reports everything of one that is there."""

    identity: str
    key: str
    method: str
    rules: Callable[[Lab, Lab | None, Finds, Report], None]
    doubt: str = UNCLEAR
    always: bool = True


def _stream(identity: str) -> Callable[[Lab, Lab | None, Finds, Report], None]:
    inner = identity.startswith("l1")
    return lambda lab, huge, finds, report: streams.report_stream(lab, huge, finds[identity], inner, report)


FAMILIES = (
    Family(
        "l1.next_line",
        "line",
        "the next line in level 1 after repeated accesses to one line",
        lambda lab, huge, finds, report: neighbours.report_next_line(lab, huge, finds["l1.next_line"], report),
    ),
    Family(
        "l1.stream",
        "page",
        "lines ahead of a run that level 2 holds, or in level 1 ahead of a run of neighbouring lines",
        _stream("l1.stream"),
    ),
    Family(
        "l1.stride",
        "instruction address, or that and the page",
        "equal distances of one instruction, against as many",
        lambda lab, huge, finds, report: strides.report_l1_stride(lab, huge, finds["l1.stride"], report),
    ),
    Family(
        "l1.region",
        "instruction address or place in the region of a first access",
        "lines that followed a first access in other pages",
        lambda lab, _huge, finds, report: regions.report_region(lab, finds["l1.region"], report),
    ),
    Family(
        "l2.pair",
        "line",
        "the line before an odd one after one access, and not before an even one",
        lambda lab, _huge, finds, report: neighbours.report_pair(lab, finds["l2.pair"], report),
    ),
    Family("l2.next_line", "line", "the next line after one access", neighbours.report_next_line_of_two, doubt=HIDDEN),
    Family(  # no machine is said to lack one: only some have a prefetcher of this kind at all
        "l2.up_down",
        "page",
        "the neighbouring line on the side to which the page's accesses went",
        neighbours.report_up_down,
        doubt=UP_DOWN,
        always=False,
    ),
    Family(
        "l2.stream",
        "page",
        "lines ahead of a run of misses that the run's last access alone does not bring",
        _stream("l2.stream"),
    ),
    Family(
        "l2.stride",
        "page",
        "equal distances in a page, against uneven ones",
        lambda lab, huge, finds, report: strides.report_l2_stride(lab, huge, finds["l2.stride"], report),
    ),
)


OTHERS = tuple(
    Family(
        f"{level}.other",
        "not known",
        described.METHOD,
        lambda lab, _huge, finds, report: described.report_other(lab, finds[report.identity], report),
    )
    for level in ("l1", "l2")
)
"""What no family explains, at each level."""


def find_all(lab: Lab) -> dict[str, Found]:
    """What there is, by identity. Region prefetchers first: what they remember of former visits must not disturb the
    rest; then neighbouring lines, which others have to be distinguished from."""
    progress, known = lab.context.progress, lab.known
    progress("region prefetchers")
    finds = {"l1.region": regions.find_region(lab)}
    progress("neighbouring lines")
    finds |= neighbours.find_neighbours(lab)
    inner = finds["l1.next_line"]
    known.next_repeats, known.next_counts_misses = inner.trigger, inner.flushed
    known.outer_next = any(finds[name].present is not False for name in ("l2.next_line", "l2.up_down"))
    known.pairs = finds["l2.pair"].present is not False
    known.next_in_l1 = inner.present is not False and inner.trigger in (None, 1)
    progress("strides")
    finds |= {"l1.stride": strides.find_l1_stride(lab), "l2.stride": strides.find_l2_stride(lab)}
    known.page_strides = finds["l2.stride"].present is not False
    progress("streams")
    finds |= {"l1.stream": streams.find_l1_stream(lab), "l2.stream": streams.find_l2_stream(lab)}
    return finds


def doubt(lab: Lab, finds: Finds) -> None:
    """Open what others that were found later explain as well: two accesses may be a stream to level 1, which then
    brings what going down would; a run of neighbouring lines that nothing found leads may be led by streams that the
    runs with gaps, which other prefetchers are kept out of, do not start."""
    inner, outer = finds["l1.stream"], finds["l2.stream"]
    if inner.present is not False and inner.trigger in (None, 2):
        finds["l2.up_down"].present = None
    if inner.dense and outer.present is False:
        outer.present, outer.reason = None, LED_BY_L1
    elif not any(finds[name].present for name in ("l2.stride", "l1.stream", "l2.stream")) and streams.leads_anyway(lab):
        for stream in (inner, outer):
            if stream.present is False:
                stream.present, stream.reason = None, UNEXPLAINED
