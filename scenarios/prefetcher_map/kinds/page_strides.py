"""Strides of one page, a prefetcher of level 2: equal distances, whatever instructions they come from.

Streams and next-line prefetchers bring lines ahead of such a run too, so every line of the page but the run's own and
those in question is in level 1 already, accesses come from as many instructions, and the control has uneven distances
and the same last access.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

from ..attributes import report_crossing
from ..found import Answer, Found, Question, first_shown, some
from ..lab import Lab
from ..report import UNCLEAR, Report
from ..tables import History, report_table
from .runs import WAYS, page_question, strided_lines
from .strides import DOWN_ONLY, LED, TO_END, Rules, S

METHOD = "equal distances in a page, against uneven ones"
HEARD = (
    "level 1's next-line prefetcher asks for lines of its own with a run's accesses, as level 1 can't hold all other "
    "lines of the page; switch it off and run again"
)
SHORT_LED = (
    "distances of three lines are led, of seven not: a stride prefetcher that follows short ones alone, or streams; "
    "switch those off and run again"
)


@dataclass(frozen=True, kw_only=True)
class Pages:
    """beside: lines before a run's first, for those of its control, where there is space. few: accesses of a run that
    begins there."""

    beside: int = 12
    few: int = 5


P = Pages()


def find_l2_stride(lab: Lab) -> Found:
    """Equal distances in a page against uneven ones.

    Where none are led, shorter ones are looked at as well, but only leave it open: a stream whose batches end where the
    run goes on leads them too."""
    wide, narrow = lab.params.stride, lab.params.short_stride

    def ask(down: bool) -> tuple[Answer, Question]:
        question = page_question(lab, strided_lines(lab, wide, down), lab.page_lines)
        led = lab.ask(question)
        inner = lab.in_l1(question.visit, question.targets[0]) if led else False
        return None if inner is None else led and not inner, question

    found = first_shown((*ask(down), Found(down=down, stride=wide)) for down in WAYS)
    if found.present is False and any(_short_led(lab, strided_lines(lab, narrow, down)) for down in WAYS):
        found.present, found.reason = None, SHORT_LED
    return found


def _short_led(lab: Lab, lines: list[int]) -> bool:
    """Whether short distances may be led, and uneven ones, shorter too, surely not."""
    asked = [page_question(lab, lines, lab.page_lines, nearer=nearer) for nearer in (False, True)]
    if any(lab.ask(each) is False or not each.controls for each in asked):
        return False
    return not any(lab.brings(each.controls[0], asked[0].targets[0]) for each in asked)


class PageRules(Rules):
    """A stride prefetcher of level 2."""

    method = "equal distances, against uneven ones"

    def lines(self, count: int, stride: int, down: bool | None = None) -> list[int]:
        """From near the page's end on the side that they come from."""
        first = 1 if count * stride + 2 * stride > self.lab.page_lines - P.beside else P.beside
        return strided_lines(self.lab, stride, self.down(down), count, first)

    def question(self, count: int, stride: int, down: bool | None = None, number: int = 1) -> Question:
        return page_question(self.lab, self.lines(count, stride, down), self.lab.page_lines, number)

    def leads(self, count: int, stride: int, number: int = 1, down: bool | None = None) -> Answer:
        """Whether the line so many strides ahead comes; None where it can't be controlled."""
        question = self.question(count, stride, down, number)
        answers = self.lab.ask(question)
        return None if answers and not question.controls else answers

    def find_trigger(self) -> int | None:
        """Accesses before the first prefetch."""
        return self.shortest(lambda count: self.leads(count, self.found.stride))

    def ahead(self, count: int, stride: int) -> int | None:
        """Streams may bring the nearer ones as well, so the control is only asked for the furthest."""
        lines = self.lines(count, stride)
        visit, step = self.question(count, stride).visit, lines[-1] - lines[-2]
        targets = [lines[-1] + n * step for n in range(1, self.lab.params.stride_run + 1)]
        answers = [self.lab.brings(visit, target) for target in targets if 0 <= target < self.lab.page_lines]
        if None in answers or False not in answers:
            return None
        furthest = answers.index(False)
        if True in answers[furthest:]:
            return None
        return furthest if not furthest or self.leads(count, stride, furthest) else None

    def reach(self) -> tuple[int | None, int | None]:
        """(strides ahead after the first access that prefetches, strides ahead after many: after two more where every
        access fetches one, which stays one ahead)."""
        degree = self._first_known(lambda stride: self.ahead(self.trigger, stride))
        more = (1, 2) if degree == 1 else S.settled

        def settled(stride: int) -> int | None:
            if 1 + stride * (self.trigger + more[-1] + 1) >= self.lab.page_lines:
                return None
            later = {self.ahead(self.trigger + each, stride) for each in more}
            return later.pop() if len(later) == 1 else None

        return degree, self._first_known(settled) if degree else None

    def _first_known(self, ask: Callable[[int], int | None]) -> int | None:
        """At the widest distance that says it: what lies further apart than a batch is led by strides alone."""
        params = self.lab.params
        reach = (params.stride, params.far, params.short_stride)
        return next((answers for stride in reach if (answers := ask(stride)) is not None), None)

    def goes_on(self, history: History) -> Answer:
        lines = self.lines(self.trigger, self.found.stride)
        question = self.question(self.trigger, self.found.stride)
        steps = history.in_pages(lines[:-1], lines[-1:], self.lab.line_size)
        return self.lab.brings(replace(question.visit, steps=steps), question.targets[0])

    def neighbours_led(self, degree: int) -> Answer:
        """Whether strides of one line are followed, either way and as far as one access fetches: what else brings next
        lines mostly goes upwards, or not so far."""
        down = self.found.down
        asked = product((down, not down), range(1, degree + 1))
        return some([self.leads(self.trigger, 1, number, way) for way, number in asked])

    def crosses(self, lab: Lab) -> Answer:
        """Whether a run upwards to a page's end goes on in the next page. That it does not says something only if the
        same run is led where the next line still lies in its page."""
        count, stride = self.trigger + 1, self.found.stride
        lines = [lab.page_lines - 3 - stride * (count - 1 - number) for number in range(count)]
        answers = lab.ask(page_question(lab, lines, 2 * lab.page_lines))
        if answers is False:
            within = [line - stride for line in lines if line >= stride]
            return False if lab.ask(page_question(lab, within, 2 * lab.page_lines)) else None
        return answers

    def silenced(self, count: int, down: bool) -> bool:
        """Whether the lines behind a run's are in level 1 when it is made, so that a next-line prefetcher there asks
        for none. Where level 1 has few ways, what makes tables forget the page pushes some of them out."""
        visit = self.question(count, self.found.stride, down).visit
        lines = enumerate(self.lines(count, self.found.stride, down))
        behind = [(line + 1, number) for number, line in lines if line + 1 in visit.warm]
        return all(self.lab.rests_in_l1(visit, line, number) for line, number in behind)


def report_l2_stride(lab: Lab, huge: Lab | None, found: Found, report: Report) -> None:
    """Ask and report everything of a stride prefetcher of level 2 that is there."""
    rules = PageRules(lab, found)
    asked = product((P.few, lab.params.stride_run), WAYS)
    heard = lab.known.next_in_l1 and not all(rules.silenced(count, down) for count, down in asked)
    rules.trigger = (None if heard else rules.find_trigger()) or 0
    report.value("trigger", rules.trigger or None, rules.method, HEARD if heard else UNCLEAR)
    if not rules.trigger:
        return
    rules.report_run(report)
    degree, settled = rules.reach()
    nearest, line = rules.neighbours_led(degree or 1), lab.line_size
    rules.report_reach(degree, settled, nearest, report)
    report_table(rules.goes_on, report, lab.params.most_entries)
    why = LED if nearest is None else "strides of one line are not followed, and larger ones were not asked"
    method = "strides of one line, the least that level 2 sees"
    report.value("min_stride", line if nearest else None, method, why, (1, line))
    most = (lab.page_lines - 2) // rules.trigger  # as far as a page has room
    rules.report_max_stride(lambda stride: rules.leads(rules.trigger, stride), most, report)
    if rules.leads(rules.trigger, found.stride, down=False) is True:
        report_crossing(rules.crosses, lab, huge, TO_END, report)
    else:
        report.unresolved("crosses_4k", DOWN_ONLY)
