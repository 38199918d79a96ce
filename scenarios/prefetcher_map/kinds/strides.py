"""Stride prefetchers, of one instruction (`ip_strides`) or of one page (`page_strides`): what is alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from ..attributes import directions, report_across_cores, report_alike
from ..found import Answer, Found, Question, first_that
from ..lab import Lab
from ..models import stride_lead
from ..report import UNCLEAR, Report
from ..tables import History, largest

LED = "streams or next-line prefetchers bring the lines in question as well; switch those off and run again"
REACH = "strides ahead after the first triggering access, and after many"
GROWING = "runs of growing stride"
TO_END = "a run to the end of a page"
DOWN_ONLY = "it runs downwards only, which is not asked at the page's end"


@dataclass(frozen=True, kw_only=True)
class Strides:
    """settled: accesses behind the first that prefetches, after which a distance has settled."""

    settled: tuple[int, ...] = (5, 6, 7)


S = Strides()


class Rules(ABC):
    """What is asked alike of both kinds. A run has `count` accesses `stride` lines apart."""

    method = "equal distances"

    def __init__(self, lab: Lab, found: Found) -> None:
        self.lab, self.found, self.trigger = lab, found, found.trigger or 0

    @abstractmethod
    def question(self, count: int, stride: int, down: bool | None = None) -> Question:
        """Whether the line behind a run comes, and not with the control."""

    @abstractmethod
    def goes_on(self, history: History) -> Answer:
        """Whether the asked run of a table goes on."""

    def down(self, down: bool | None) -> bool:
        """The way that is asked, or that by which it was found."""
        return self.found.down if down is None else down

    def shortest(self, holds: Callable[[int], Answer]) -> int | None:
        """Accesses before the first prefetch."""
        return first_that(holds, range(2, self.lab.params.stride_run + 1))

    def report_run(self, report: Report) -> None:
        """Directions, kinds of access, the level filled, and whether threads, or cores, share it."""
        lab, stride = self.lab, self.found.stride
        ways = {down: lab.ask(self.question(self.trigger, stride, down)) for down in (False, True)}
        report.value("directions", directions(ways), self.method, UNCLEAR)
        question = self.question(self.trigger, stride)
        last = len(question.visit.steps) - 1
        report_alike(lab, question, last, report)
        report_across_cores(lab, question, last, report)

    def report_reach(self, degree: int | None, settled: int | None, next_led: Answer, report: Report) -> None:
        """Degree and distance: a prefetcher that fetches one stride at a time never gets ahead, so no limit shows. And
        lines ahead of a run of neighbouring lines, where those are followed (`next_led`)."""
        report.value("degree", degree or None, REACH, LED)
        if degree == settled == 1:
            report.at_least("max_distance", 1, REACH, "it never runs further ahead, so no limit shows")
        else:
            why = f"it does not settle at one distance within the page, or {LED}; look at the chart"
            report.value("max_distance", settled or None, REACH, why)
        accesses = min(self.lab.params.lead_accesses, self.lab.page_lines - self.lab.params.lead_from)
        lead = stride_lead(self.trigger, degree, settled, accesses) if degree and settled and next_led else None
        report.value("lead", lead, REACH, "its degree, its distance or whether it follows next lines is not known")

    def report_max_stride(self, followed: Callable[[int], Answer], high: int, report: Report) -> None:
        """The largest stride followed, of `high` lines at most."""
        size = self.lab.line_size
        found = largest(followed, self.found.stride, high)
        if found is None:
            report.unresolved("max_stride", LED, GROWING)
        elif found[1]:
            report.value("max_stride", found[0] * size, GROWING, "", (found[0] * size, (found[0] + 1) * size - 1))
        else:
            report.at_least("max_stride", found[0] * size, GROWING, "no larger stride was asked")
