"""Prefetchers that bring a neighbouring line after one access: next line, line pair, up/down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from setebench.experiments.visits import Access, Visit

from ..attributes import report_alike, report_crossing
from ..found import Answer, Found, Question, first_that, some
from ..lab import Lab
from ..models import next_line_lead
from ..report import LEVEL_UNCLEAR, UNCLEAR, Report
from ..requests import report_beside
from ..tables import History, size

AFTER_HITS = "the next line in level 1 after repeated accesses to one line"
BEFORE_ODD = "the line before an odd one after one access, and not before an even one"
GOING_DOWN = "the neighbouring line on the side to which the page's accesses went"
AFTER_ONE = "the next line after one access"
HIDDEN = "a next-line prefetcher of level 1 brings the same line on every access; switch it off and run again"
MIXED = "lines come that are not next to each other, or another prefetcher brings some; run again at a quieter time"
SAME_LINE = "a prefetcher of level 1 brings the same line; switch that off and run again"
LAST_LINE = "the last line of a page"


def odd_line(lab: Lab) -> int:
    """An odd line amid the page."""
    return lab.page_lines // 2 - lab.eighth // 2 + 1


def even_line(lab: Lab) -> int:
    """An even line amid the page."""
    return lab.page_lines // 2 + lab.eighth // 2


def repeated(lab: Lab, count: int, flushed: bool = False, at: int | None = None) -> Visit:
    """`count` accesses to one line, flushed in between or not."""
    line = (odd_line(lab) if at is None else at) * lab.line_size
    again = [Access(line, "flush"), Access(line)] if flushed else [Access(line)]
    return Visit((Access(line), *again * (count - 1)))


def downwards(lab: Lab, line: int) -> Visit:
    """An access to a line after one further up, which level 2 hears of and which starts none of its streams: it hits
    there. What a next-line prefetcher of level 1 would ask for is there already. No traversal of other pages in
    between: level 2 would forget which way the page's accesses went."""
    above = line + lab.eighth + 2
    steps = (Access(above * lab.line_size), Access(line * lab.line_size))
    return Visit(steps, warm=(above + 1,) if lab.known.next_after_hits else (), demoted=(above,))


def find_next_line(lab: Lab) -> Found:
    """The next line after some accesses to one line, in level 1, or anywhere while level 2 hears of none of them: no
    other prefetcher sees several accesses in that."""
    target, most = odd_line(lab) + 1, lab.params.most_repeated
    answers = []
    for kind in (Found(inner=True), Found(inner=True, flushed=True), Found()):

        def comes(count: int, kind: Found = kind) -> Answer:
            return lab.comes(_asking(lab, kind, count), target, kind.inner)

        answers.append(comes(most))
        if answers[-1]:
            trigger = first_that(comes, range(1, most + 1))
            question = Question(_asking(lab, kind, trigger or most), (target,), inner=kind.inner)
            return replace(kind, present=True, question=question, trigger=trigger)
    # an unclear last one says nothing: what brought the line to level 1 beforehand may have brought the next as well
    return Found(some(answers[:-1]))


def _asking(lab: Lab, found: Found, count: int, at: int | None = None) -> Visit:
    """Accesses to one line by which level 1's next-line prefetcher shows; hits of level 1 where it fills another."""
    line = odd_line(lab) if at is None else at
    return replace(repeated(lab, count, found.flushed, line), warm=() if found.inner else (line,))


def find_pair(lab: Lab) -> Found:
    """The line before an odd one, and not before an even one. One of level 1 hides whether level 2 has one as well."""
    odd, even = odd_line(lab), even_line(lab)
    question = Question(repeated(lab, 1), (odd - 1,))
    before = lab.brings(question.visit, odd - 1), lab.brings(repeated(lab, 1, at=even), even - 1)
    found = Found(None if None in before else before == (True, False), question=question)
    if found.present and (inner := _of_level_one(lab, odd, odd - 1)) is not False:
        return replace(found, present=None, reason=SAME_LINE if inner else LEVEL_UNCLEAR, hidden=bool(inner))
    return found


def _of_level_one(lab: Lab, line: int, target: int) -> Answer:
    """Whether level 1 brings the neighbour of a line: though level 2, which waits for misses, holds that line, or to
    level 1. Where level 2 may have lost the line, only the second counts."""
    visit, apart = repeated(lab, 1, at=line), Visit((Access(even_line(lab) * lab.line_size),), demoted=(line,))
    came = lab.brings(replace(visit, demoted=(line,)), target)
    if came is False and lab.known.demotes:
        return False
    inner = lab.in_l1(visit, target)
    return True if inner or (came and lab.lost(apart, line) < lab.params.not_brought) else None if came else inner


def find_up_down(lab: Lab) -> Found:
    """The line before an even one that the page's accesses went down to."""
    even = even_line(lab)
    came = lab.brings(downwards(lab, even), even - 1)
    return Found(came, question=Question(downwards(lab, even), (even - 1,)), seen=came is not False)


def find_outer_next(lab: Lab) -> Found:
    """The next line after one access, whichever way the page's accesses went."""
    odd = odd_line(lab)
    found = Found(question=Question(downwards(lab, odd), (odd + 1,)), hidden=lab.known.next_in_l1)
    if found.hidden:
        found.present = _without_entries(lab)
    else:
        after = lab.brings(repeated(lab, 1), odd + 1)
        found.present = after if not after else lab.brings(downwards(lab, odd), odd + 1)
    return found


def _without_entries(lab: Lab) -> Answer:
    """Whether level 2 brings the next line where level 1 does after every access, too: behind a burst of misses, level
    1 may have no entry left for its own request, and drop it. Then the line is in an outer cache, or nowhere; if it
    still is in level 1, nothing follows. Nor does anything from its being nowhere if others that level 2 is known to
    have bring nothing behind a burst either: some cores pause all their prefetchers then."""
    odd = odd_line(lab)
    if not lab.known.inner_next.inner:  # its own lines are in an outer cache as well
        return None
    kinds: tuple[Literal["load", "t0"], ...] = ("load", "t0")
    for how in kinds:
        for burst in lab.params.bursts if how == "load" or how in lab.context.machine.facts.prefetch_hints else ():
            visit = replace(downwards(lab, odd), burst=burst, burst_how=how)
            level = lab.level(visit, odd + 1)
            if level not in (None, "l1"):
                others = any(lab.known.finds[name].present for name in ("l2.pair", "l2.up_down"))
                paused = others and not lab.brings(visit, odd - 1)
                return None if level == "memory" and paused else level != "memory"
    return None


def report_next_line(lab: Lab, huge: Lab | None, found: Found, report: Report) -> None:
    """Everything of level 1's next-line prefetcher."""
    trigger, question, line = found.trigger, found.question, odd_line(lab)
    report.value("trigger", trigger, AFTER_HITS, UNCLEAR)
    if trigger is None or question is None:
        return
    degree = _report_lines(lab, question, line, report)
    level = report_alike(lab, question, 0 if trigger == 1 else len(question.visit.steps) - 1, report)
    _report_lead(lab, degree if trigger == 1 else 0, level, report)
    if trigger > 1:
        watched = size(lambda n: lab.ask(_watched(lab, found, History(n))), lab.params.most_entries)
        report.value("streams", watched, "lines of many pages, the first once more", UNCLEAR)

    def crosses(memory: Lab) -> Answer:
        last = memory.page_lines - 1
        visit = replace(_asking(memory, found, trigger, last), window=(0, 2 * memory.page_lines))
        return memory.comes(visit, last + 1, found.inner)

    report_crossing(crosses, lab, huge, LAST_LINE, report)


def _watched(lab: Lab, found: Found, history: History) -> Question:
    """Lines watched at once: all get all accesses but one, then the first gets its last."""
    asking = _asking(lab, found, found.trigger or 1)
    last = 2 if found.flushed else 1

    def begin(runs: Sequence[int]) -> list[Access]:
        return [replace(access, page=history.page(run)) for run in runs for access in asking.steps[:-last]]

    steps = history.steps(begin, lambda _runs: [*asking.steps[-last:]])
    return Question(replace(asking, steps=tuple(steps)), (odd_line(lab) + 1,), inner=found.inner)


def report_pair(lab: Lab, _huge: Lab | None, found: Found, report: Report) -> None:
    """Everything of level 2's pair prefetcher."""
    _report_alike(lab, found, 0, report)


def report_outer_next(lab: Lab, huge: Lab | None, found: Found, report: Report) -> None:
    """Everything of level 2's next-line prefetcher, after an access further up, so that none goes up and down."""
    if found.hidden:  # one access is enough for it, as it was found by one; nothing shows its other rules
        crossing = ("crosses_4k", *(("crosses_4k_in_2m",) if huge is not None else ()))
        report.open(("degree", "max_distance", "trained_by", "fills", *crossing), HIDDEN)
        return
    other = even_line(lab)  # whose pair is the next line
    degree = _report_lines(lab, Question(repeated(lab, 1, at=other), ()), other, report)
    _report_lead(lab, degree, _report_alike(lab, found, 0, report), report)
    _report_page_end(lab, huge, not lab.known.may("l2.up_down"), report)


def report_up_down(lab: Lab, huge: Lab | None, found: Found, report: Report) -> None:
    """Everything of a prefetcher that brings the neighbour on the side to which the page's accesses went."""
    _report_alike(lab, found, 1, report)
    alone = not lab.known.may("l2.next_line") and lab.known.inner_next.present is False
    _report_page_end(lab, huge, alone, report)


def _report_page_end(lab: Lab, huge: Lab | None, alone: bool, report: Report) -> None:
    """Whether the next page's first line comes; which other prefetchers may have brought it unless it is `alone`."""

    def crosses(memory: Lab) -> Answer:
        last = memory.page_lines - 1
        visit = Visit((Access(last * memory.line_size),), window=(0, 2 * memory.page_lines))
        return None if (came := memory.brings(visit, last + 1)) and not alone else came

    report_crossing(crosses, lab, huge, LAST_LINE, report)


def _report_lead(lab: Lab, degree: int | None, level: str | None, report: Report) -> None:
    """Lines ahead of a run, where one access is enough to bring `degree` lines (0: it isn't, and no line is accessed
    often enough) to `level`. Where that is the prefetcher's own, the second access hits, and as many lines are ahead
    then, or one fewer where only misses count; further out all accesses are misses. The first line is an odd one, so
    that no pair brings the second; what two accesses lead brings what hits would."""
    accesses, line = min(lab.params.lead_accesses, lab.page_lines - lab.params.lead_from), odd_line(lab)
    hits: Answer = None if level is None else True
    if degree and level == f"l{report.level}":
        run = Visit((Access(line * lab.line_size), Access((line + 1) * lab.line_size)))
        hits = lab.comes(run, line + 1 + degree, report.level == 1)
        led = (lab.known.finds[each] for each in ("l1.stream", "l2.stream", "l2.stride"))
        if hits and any(each.present is not False and each.trigger in (None, 2) for each in led):
            hits = None
    lead = None if degree is None or (degree and hits is None) else next_line_lead(degree, not hits, accesses)
    report.value("lead", lead, "lines ahead after two accesses next to each other", MIXED)


def _report_lines(lab: Lab, question: Question, line: int, report: Report) -> int | None:
    """How many of the lines behind the one that is accessed come. Returns how many, if fewer than were asked for."""
    most = lab.params.most_next
    method = f"which of {most} lines ahead of one access come"
    ahead = [lab.comes(question.visit, line + number, question.inner) for number in range(1, most + 1)]
    count = None if None in ahead else ahead.index(False) if False in ahead else most
    if count is not None and (not count or True in ahead[count:]):
        count = None
    for parameter in ("degree", "max_distance"):
        if count == most:
            report.at_least(parameter, count, method, "lines further off were not asked")
        else:
            report.value(parameter, count, method, MIXED)
    return None if count == most else count


def _report_alike(lab: Lab, found: Found, first: int, report: Report) -> str | None:
    if found.question is None:
        return None
    report_beside(lab, report.identity, report)
    return report_alike(lab, found.question, first, report)
