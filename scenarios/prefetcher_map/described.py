"""What no family explains: families hold against further evidence, or what was taken for one is described instead.

A prefetcher with a name goes by rules that say what it does in cases by which it was not found. A stream follows a run
that was never made before, in whatever distances; what only recalls runs that it has seen brings nothing there. A
stride of one instruction has to be seen as often again after an access that breaks it; a stride of a page wants its
accesses in order. Where a family fails its case it is absent, and something else is there at its level; beside another
family of that level it stays open, as a case of one may fail by what the other one brings. And where no
family leads runs, nothing may come of runs that were made often in other pages, or something else is there too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from setebench.experiments.visits import Access, Visit, instruction

from .attributes import report_fills, report_trained_by
from .found import Answer, Found, Question, some
from .kinds import runs
from .kinds.runs import WAYS
from .kinds.streams import Rules
from .lab import Lab
from .report import Report

METHOD = "lines that come, and do not where the family that is similar by its rules would bring them"
MASKED = "what the prefetchers that were found bring may hide what others bring"
LATE = "lines come ahead of a long run of neighbouring lines: a stream may want more accesses than runs with gaps have"
RUN_FAMILIES = ("l1.stream", "l1.stride", "l1.region", "l2.stream", "l2.stride")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """patterns, samples: runs of distances that were not used before, and repetitions of each: few, so that what
    learns has not seen most of them. gaps: those distances, in lines, further than the lines in question lie ahead.
    broken: lines from a run's end to the access that breaks it, no multiple of its distance, so that the run did not
    fetch what follows.
    practice: pages gone through before, in every repetition; warm_up: repetitions made before any counts.
    apart: lines ahead that neighbours don't bring. footprint: lines in an order without a stride. unexplained: fraction
    of counts that the best rule leaves unexplained only where none is right."""

    patterns: int = 16
    samples: int = 3
    gaps: range = range(5, 10)
    broken: int = 13
    practice: int = 2
    apart: tuple[int, ...] = (5, 7)
    footprint: tuple[int, ...] = (0, 5, 11, 3, 14)
    unexplained: float = 0.4
    warm_up: int = 40


E = Evidence()
Check = Callable[[Lab, Found, str], Answer]
"""Whether a family that was found holds in a further case; None where that says nothing."""


def unexplained(_lab: Lab) -> Found:
    """What is there beside the families of a level, before these are held against further evidence."""
    return Found(None, reason=MASKED)


def compare(lab: Lab, sure: Collection[str]) -> None:
    """Hold the families of runs that were found against their further cases, but those that former surveys are `sure`
    of, and say what is there beside them."""
    finds = lab.known.finds
    if finds["l2.pair"].hidden:
        finds["l1.other"] = Found(True, question=finds["l2.pair"].question)
    for identity in CASES:
        if finds[identity].present and f"prefetcher.{identity}" not in sure:
            _hold(lab, identity)
    if lab.known.may(*RUN_FAMILIES):
        return
    if any(lab.ask(_long_run(lab, down)) for down in WAYS):
        for identity in ("l1.stream", "l2.stream"):
            finds[identity].present, finds[identity].reason = None, LATE
    elif some([lab.ask(question) for question in _practised(lab)]) is False:
        for name in ("l1.other", "l2.other"):
            finds[name].present = finds[name].present or False


def _hold(lab: Lab, identity: str) -> None:
    """Hold one family against its further cases. What fails one is something else; beside another family of its level
    it stays open, as the failed case may be that one's doing: what is left then fits no case by itself."""
    finds, found, level = lab.known.finds, lab.known.finds[identity], identity[:2]
    if all(case(lab, found, identity) is not False for case in CASES[identity]):
        return
    if any(finds[other].present for other in RUN_FAMILIES if other != identity and other[:2] == level):
        found.present, found.reason, found.question = None, MASKED, None
        return
    finds[f"{level}.other"] = Found(True, question=found.question)
    lab.known.others_learn = True
    found.present, found.question = False, None


def _follows_new(lab: Lab, found: Found, identity: str) -> Answer:
    """Whether runs of distances that were never used before are led as the one was by which the stream was found."""
    if found.dense or found.question is None:
        return None
    question = found.question
    came = [target for target in question.targets if lab.brings(question.visit, target)]
    free = [target for target in lab.free(question) if target in came]
    if not free:
        return None
    at, inner = question.targets.index(free[0]), identity == "l1.stream"
    end_odd = inner or not found.down

    def visit(lines: list[int]) -> tuple[Visit, int]:
        asked = [runs.l1_question(lab, lines, found.down)] if inner else runs.l2_questions(lab, lines, found.down)
        same = next(each for each in asked if _hits(each) == _hits(question))
        return same.visit, same.targets[at]

    # as long as it may be, so that few runs are alike; a stream that begins anew beyond its lines has just begun again
    longest = runs.longest_run(lab)
    trigger = found.trigger or longest
    count = trigger * max(longest // trigger, 1)
    led = lab.brings(*visit(runs.gap_lines(lab, count, found.down, end_odd)))
    if not led:
        return led
    new = _new_runs(lab, count, found.down, end_odd)
    ticks = []
    for _ in range(E.patterns):
        made, target = visit(next(new))
        ticks.append(lab.samples(made, [target], E.samples)[0])
    cached = 1.0 - float(lab.references.shares([np.concatenate(ticks)]).of("memory")[0])
    return True if cached > lab.params.brought else False if cached < lab.params.not_brought else None


def _hits(question: Question) -> bool:
    """Whether the question has hits behind its run."""
    return len(question.controls[0].steps) > 1


def _leads_as_fitted(lab: Lab, found: Found, identity: str) -> Answer:
    """Whether a run of neighbouring lines is led, after many such runs in other pages, as the rules say that explain
    the first one; what comes to lead further, or less far, goes by what was of use."""
    rules = Rules(lab, found, identity == "l1.stream")
    question = found.question
    filled = question is not None and any(lab.in_l1(question.visit, target) for target in question.targets)
    rules.fills_l1 = found.dense or filled
    if not found.trigger or rules.led_on or rules.asked_along:
        return None
    found.fit = rules.fit()
    if not found.fit.fits:
        return False if found.fit.unexplained > E.unexplained else None
    if rules.beside:
        return None
    count = found.trigger + lab.params.near
    lines = runs.near_lines(lab, count, found.down, (1, 1))
    practice = [runs.near_lines(lab, lab.page_lines - 1 - lab.params.lead_from, found.down, (1, 1))] * E.practice
    steps = [replace(each, page=page) for page, run in enumerate(practice, 1) for each in runs.loads(lab, run)]
    visit = Visit((*steps, *runs.loads(lab, lines)), thrash=rules.traversed)
    expected = found.fit.lead([lab.params.lead_from + number for number in range(count)], lab.page_lines)
    if not expected or not expected[-1]:
        return None
    lab.samples(visit, [lines[0]], E.warm_up)
    edge = runs.ahead(lines, expected[-1], expected[-1] + 1, found.down)
    answers = [lab.comes(visit, line, rules.fills_l1) for line in edge]
    return None if None in answers else answers == [True, False]


def _new_runs(lab: Lab, count: int, down: bool, end_odd: bool) -> Iterator[list[int]]:
    """Runs of random distances that end where those do by which streams are found."""
    last, rng = runs.gap_lines(lab, 1, down, end_odd)[0], lab.context.rng("runs of new distances")
    while True:
        gaps = rng.choice(E.gaps, count - 1)
        back = [int(each) for each in np.cumsum(gaps[::-1])[::-1]] + [0]
        lines = [last + each if down else last - each for each in back]
        if min(lines) >= 0 and max(lines) < lab.page_lines:
            yield lines


def _starts_anew(lab: Lab, found: Found, _identity: str) -> Answer:
    """Whether a stride of one instruction is not followed right after an access that broke it, or, where two accesses
    are enough, whether another distance is."""
    stride = min(lab.params.short_stride, lab.eighth // 2)  # so that there is room behind
    lines = runs.strided_lines(lab, stride, found.down, start=1)
    step = lines[1] - lines[0]

    def led(of: list[int], furthest: int = 1) -> Answer:
        question = runs.ip_question(lab, of, found.warm, furthest)
        return lab.ask(replace(question, targets=tuple(t for t in question.targets if 0 <= t < lab.page_lines)))

    broken = lines[-1] + (E.broken if step > 0 else -E.broken)
    if led(lines) is not True:
        return None
    at_once = led(lines[-2:])
    if at_once:  # two accesses are enough, or the stride is known from other pages: then another one is not
        other = step + (2 if step > 0 else -2)
        return led([*lines, broken, broken + other])
    answers = led([*lines, broken, broken + step], lab.params.stride_run) if at_once is False else None
    return None if answers is None else not answers


def _in_order(lab: Lab, found: Found, _identity: str) -> Answer:
    """Whether equal distances of a page are not led where the same lines came in another order."""
    if found.question is None:
        return None
    steps = found.question.visit.steps
    other = replace(found.question.visit, steps=(*reversed(steps[:-1]), steps[-1]))
    answers = lab.ask(replace(found.question, visit=other, controls=()))
    return None if answers is None else not answers


def _long_run(lab: Lab, down: bool) -> Question:
    """Lines ahead of a run of neighbouring ones, longer than a run with gaps can be."""
    params = lab.params
    lines = runs.near_lines(lab, 2 * params.longest_run, down, (1, 1))
    return runs.led_question(lab, lines, (params.near, params.far))


def _practised(lab: Lab) -> Iterator[Question]:
    """Sequences that were made often in other pages, and lines further ahead of them than neighbours bring: runs up and
    down, every third line, distances of two and three in turn, all by one instruction; five lines in an order without a
    stride, each by its own; the next page after a run to the page's end."""
    lines, start = lab.page_lines, lab.params.lead_from
    deltas = [line for line in range(lines) if line % 5 in (0, 2)]
    made = [list(range(start, lines)), list(range(lines - 1 - start, -1, -1)), list(range(0, lines, 3)), deltas]
    for run in made:
        half = len(run) // 2
        targets = [line for line in run[half:] if min(E.apart) <= abs(line - run[half - 1]) <= max(E.apart)]
        yield _after_practice(lab, run, half, tuple(targets), same=True)
    yield _after_practice(lab, E.footprint, 1, E.footprint[2:3], same=False)
    first = _after_practice(lab, made[0], len(made[0]), (lines + 1,), same=True)
    yield replace(first, visit=replace(first.visit, window=(0, 2 * lines)))


def _after_practice(lab: Lab, run: Sequence[int], count: int, targets: tuple[int, ...], same: bool) -> Question:
    def accesses(lines: Sequence[int], page: int) -> list[Access]:
        ips = [lab.params.same_ip if same else instruction(number) for number in range(len(lines))]
        return [Access(line * lab.line_size, ip=ip, page=page) for line, ip in zip(lines, ips, strict=True)]

    practice = [access for page in range(1, E.practice + 1) for access in accesses(run, page)]
    return Question(Visit((*practice, *accesses(run[:count], 0))), targets)


def report_other(lab: Lab, _huge: Lab | None, found: Found, report: Report) -> None:
    """What trains it and which level it fills, by the question that showed it."""
    if found.question is not None:
        report_trained_by(lab, found.question, report)
        report_fills(lab, found.question, report)


CASES: dict[str, tuple[Check, ...]] = {
    "l1.stride": (_starts_anew,),
    "l2.stride": (_in_order,),
    "l1.stream": (_follows_new, _leads_as_fitted),
    "l2.stream": (_follows_new, _leads_as_fitted),
}
"""By family of runs, the cases that its rules say more of."""
