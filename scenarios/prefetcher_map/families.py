"""The prefetchers that have a name: by what each goes, how it is looked for, and what reports its rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import described
from .found import Found
from .kinds import ip_strides, page_strides, regions, streams
from .kinds import neighbours as near
from .kinds.stream_report import report_stream
from .lab import Lab
from .report import UNCLEAR, Report

UP_DOWN = "streams of level 1 may bring the line too, or it was there in some repetitions only; switch them off"
CHANGED = "its lines came at first and no longer after the other questions, as those of something that learns would"
EITHER = "streams of this level are open, and something else may lead what runs they would lead"
RECALLED = "spatial patterns that vote recall what former runs accessed, which looks like a stream"
UNEXPLAINED = "neighbouring lines are led on by nothing that was found"


@dataclass(frozen=True)
class Family:
    """One prefetcher of the table. `key`: what its memory goes by (an instruction by its address, an offset in a region
    of lines). `method`: by which comparison it is found. `find` looks for it, knowing those of the rows before; `rules`
    reports everything of one that is there. `doubt`: why it may stay open. `always`: a machine may be said to lack it.
    """

    identity: str
    key: str
    method: str
    find: Callable[[Lab], Found]
    rules: Callable[[Lab, Lab | None, Found, Report], None]
    doubt: str = UNCLEAR
    always: bool = True


FAMILIES = (
    Family("l1.region", "instruction or offset", regions.METHOD, regions.find_region, regions.report_region),
    Family("l1.next_line", "line", near.AFTER_HITS, near.find_next_line, near.report_next_line),
    Family("l2.pair", "line", near.BEFORE_ODD, near.find_pair, near.report_pair),
    # no machine is said to lack one: only some have a prefetcher of this kind at all
    Family("l2.up_down", "page", near.GOING_DOWN, near.find_up_down, near.report_up_down, UP_DOWN, always=False),
    Family("l2.next_line", "line", near.AFTER_ONE, near.find_outer_next, near.report_outer_next, near.HIDDEN),
    Family("l1.stride", "instruction", ip_strides.METHOD, ip_strides.find_l1_stride, ip_strides.report_l1_stride),
    Family("l2.stride", "page", page_strides.METHOD, page_strides.find_l2_stride, page_strides.report_l2_stride),
    Family("l1.stream", "page", streams.BEHIND_LEVEL_1, streams.find_l1_stream, report_stream),
    Family("l2.stream", "page", streams.OF_MISSES, streams.find_l2_stream, report_stream),
    Family("l1.other", "not known", described.METHOD, described.unexplained, described.report_other),
    Family("l2.other", "not known", described.METHOD, described.recalling, described.report_other),
)
"""In the order in which they are asked. Region prefetchers first: what they remember of former visits must not disturb
the rest; then neighbouring lines, which others have to be distinguished from."""


def find_all(lab: Lab) -> dict[str, Found]:
    """What there is, by identity."""
    for family in FAMILIES:
        lab.context.progress(f"looking for {family.identity}")
        lab.known.finds[family.identity] = family.find(lab)
    return lab.known.finds


def doubt(lab: Lab) -> None:
    """Open what others that were found later explain as well: two accesses may be a stream to level 1, which then
    brings what going down would; a run of neighbouring lines that nothing found leads may be led by streams that the
    runs with gaps, which other prefetchers are kept out of, do not start. What level 1 leads it forgets meanwhile."""
    finds = lab.known.finds
    inner, outer, up_down = finds["l1.stream"], finds["l2.stream"], finds["l2.up_down"]
    if up_down.seen and inner.present is not False and inner.trigger in (None, 2):
        up_down.present = None
    for stream in (inner, outer):
        if stream.present and lab.known.beside:
            stream.present, stream.reason = None, RECALLED
    if not (outer.present or finds["l2.stride"].present) and streams.leads_anyway(lab, bool(inner.present)):
        for stream in (inner, outer):
            if stream.present is False:
                stream.present, stream.reason = None, UNEXPLAINED
    _doubt_absent_learners(lab)


def _doubt_absent_learners(lab: Lab) -> None:
    """Open what came at first and no longer does, and with it the absence of what learns; so is that of level 2 while
    its streams are open, as either may be what led some runs."""
    finds = lab.known.finds
    for found in finds.values():
        if found.present and found.question is not None and not found.question.controls:
            with lab.anew():
                if lab.ask(found.question) is False:
                    found.present, found.reason, lab.known.changed = None, CHANGED, True
    for level in ("l1", "l2"):
        other, led = finds[f"{level}.other"], level == "l2" and finds["l2.stream"].present is None
        if other.present is False and (lab.known.changed or led):
            other.present, other.reason = None, EITHER if led else CHANGED
