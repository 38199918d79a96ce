"""Whether requests of level 1's prefetchers train those of level 2.

Level 1's prefetcher is made to ask for one line while level 2 holds what is accessed, or far from that, so that nothing
else that level 2 sees could bring the line's neighbours. Then a line comes that level 2's prefetcher alone would bring;
in the control it does not, as there the line that was asked for is in level 1 already, and nothing is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from setebench.experiments.visits import Access, Visit

from .found import Answer, Found, Question
from .lab import Lab
from .report import Report

NAME = "trained_by_l1_prefetcher"
METHOD = "a line that level 1's prefetcher asked for, and what level 2 brings beside it"
UNSURE = (
    "level 1's prefetchers can't be made to ask for one line at a time, or another prefetcher would bring the same "
    "lines; switch that off and run again"
)
ASKING = ("l1.next_line", "l1.region", "l1.stride", "l1.stream")
"""What may ask: where level 1 has none of them, there is no question."""


def report_beside(lab: Lab, identity: str, report: Report) -> None:
    """Of a prefetcher of level 2 that brings a neighbouring line."""
    if lab.known.may(*ASKING):
        answers = (_beside(lab, identity, visit, asked) for visit, asked in _requests(lab))
        report.value(NAME, next((each for each in answers if each is not None), None), METHOD, UNSURE)


def report_streams(lab: Lab, woken: Answer, report: Report) -> None:
    """Of level 2's streams: trained where one request is enough to start one. Several are not made apart from the
    accesses that they come with, which level 2 may see as well, so no start says nothing."""
    if lab.known.may(*ASKING):
        report.value(NAME, woken or None, METHOD, UNSURE)


def _one_by_one(inner: Found) -> bool:
    """Whether a next-line prefetcher of level 1 asks for one line, by hits of level 2."""
    return bool(inner.present) and inner.trigger is not None and not (inner.flushed and inner.trigger > 1)


def _requests(lab: Lab) -> Iterator[tuple[Visit, int]]:
    """Visits by which level 1 alone asks for a line, and that line: next lines of an odd and of an even line, and what
    a region prefetcher recalls."""
    middle, inner, size = lab.page_lines // 2, lab.known.inner_next, lab.line_size
    if _one_by_one(inner):
        for line in (middle, middle + 1):
            yield Visit((Access(line * size),) * (inner.trigger or 1), demoted=(line,)), line + 1
    region = lab.known.finds["l1.region"]
    if region.present and region.question is not None:
        yield region.question.visit, region.question.targets[0]


def _beside(lab: Lab, identity: str, visit: Visit, asked: int) -> Answer:
    """Whether the neighbour comes of a line that level 1 asked for; None where something else may bring it."""
    target = asked ^ 1 if identity == "l2.pair" else asked + 1
    bring = {"l2.pair": asked ^ 1 == target, "l2.next_line": target > asked, "l2.up_down": True}
    others = [name for name, brings in bring.items() if brings and name != identity]
    accessed = {access.at // lab.line_size for access in visit.steps}
    if target in accessed or lab.known.may(*others) or lab.known.others_learn or not lab.brings(visit, asked):
        return None
    came = lab.ask(Question(visit, (target,), (replace(visit, warm=(asked,)),)))
    if came and lab.brings(visit, 2 * target - asked) is not False:  # a run of lines is no neighbour
        return None
    return came
