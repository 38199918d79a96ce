"""What no family explains: families held against further evidence, and sequences that nothing found would lead.

A prefetcher with a name goes by rules that say what it does in cases by which it was not found. A stream follows a run
that was never made before, in whatever distances; what only recalls runs that it has seen brings nothing there. A
stride of a page wants its accesses in order. Where a family fails its case it is absent, and something else is there at
its level; beside another family of that level it stays open, as a case of one may fail by what the other one brings.

Then sequences of accesses are made often in other pages, and begun in a fresh one (BEYOND). If lines come ahead of
one that no family which may be there would lead, something else is there. If none comes ahead of those by which what
learns sequences shows, nothing else is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from setebench.experiments.visits import Visit

from .attributes import report_fills, report_trained_by
from .descriptions.behaviour import IMITATED, level_of, report_behaviour
from .descriptions.sequences import AccessSequence, P
from .found import Answer, Found, Question
from .kinds import runs
from .kinds.streams import Rules
from .lab import Lab
from .report import Report

METHOD = "lines that come, and do not where the family that is similar by its rules would bring them"
MASKED = "what the prefetchers that were found bring may hide what others bring"
LATE = "lines come ahead of a long run of neighbouring lines: a stream may want more accesses than runs with gaps have"
STREAMS, STRIDES, REGION = ("l1.stream", "l2.stream"), ("l1.stride", "l2.stride"), ("l1.region",)
RUN_FAMILIES = (*STREAMS, *STRIDES, *REGION)
NEIGHBOURS = ("l1.next_line", "l2.next_line", "l2.pair", "l2.up_down")

BEYOND = {
    "deltas": REGION,
    "footprint": REGION,
    "next_page": (*RUN_FAMILIES, *NEIGHBOURS),
    "single": (*REGION, *NEIGHBOURS),
}
"""Sequences that are led where anything learns sequences that has no name here, and the families that lead them too:
distances of two and three lines in turn by one instruction, and not by many; five lines in an order without a stride,
each by its own; the next page after a run to the page's end; one access after many runs."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """patterns, samples: runs of distances that were not used before, and repetitions of each: few, so that what
    learns has not seen most of them. gaps: those distances, in lines, further than the lines in question lie ahead.
    practice: pages gone through before, in every repetition.
    apart: lines ahead that neighbours don't bring. single: lines ahead of one access, after runs.
    unexplained: fraction of counts that the best rule of a stream leaves unexplained only where none is right."""

    patterns: int = 16
    samples: int = 3
    gaps: range = range(5, 10)
    practice: int = 2
    apart: tuple[int, ...] = (5, 7)
    single: range = range(2, 20)
    unexplained: float = 0.4


E = Evidence()
Check = Callable[[Lab, Found, str], Answer]
"""Whether a family that was found holds in a further case; None where that says nothing."""


def unexplained(_lab: Lab) -> Found:
    """What is there beside the families of a level, before these are held against further evidence."""
    return Found(None, reason=MASKED)


def recalling(lab: Lab) -> Found:
    """The same of level 2, where regions may be recalled that level 1 does not know."""
    region = lab.known.finds["l1.region"]
    return Found(True, question=region.question) if region.seen and region.present is False else unexplained(lab)


def compare(lab: Lab, sure: Collection[str]) -> None:
    """Hold the families of runs that were found against their further cases, but those that former surveys are `sure`
    of, and say what is there beside them."""
    finds = lab.known.finds
    if finds["l2.pair"].hidden:
        finds["l1.other"] = Found(True, question=finds["l2.pair"].question)
    for identity in CASES:
        if finds[identity].present and f"prefetcher.{identity}" not in sure:
            _hold(lab, identity)
    questions = _practised(lab)
    led: dict[str, Answer] = {}
    for name, question in questions.items():
        made = len(question.visit.practice) + len(question.visit.steps)
        lab.samples(question.visit, question.targets[:1], -(-P.learned // made))
        led[name] = lab.ask(replace(question, controls=()))
    recalled = led["single"] or led["footprint"]  # what no stream does, however many accesses it wants
    late = led["deltas"] or ((led["up"] or led["down"]) and not lab.known.may(*RUN_FAMILIES))
    if late and not recalled and not lab.known.may(*STREAMS, *REGION):
        for identity in STREAMS:
            finds[identity].present, finds[identity].reason = None, LATE
    beyond = [name for name in BEYOND if lab.ask(questions[name]) and not lab.known.may(*BEYOND[name])]
    for name in beyond:
        _add_other(lab, questions[name])
    if not beyond and all(led[name] is False for name in BEYOND if name != "single"):
        for name in ("l1.other", "l2.other"):
            finds[name].present = finds[name].present or False


def _add_other(lab: Lab, question: Question, level: str | None = None) -> None:
    """Something else answers this question, at its level or else at `level`."""
    finds, level = lab.known.finds, level_of(lab, question) or level
    if level is None:
        return
    finds[f"{level}.other"] = Found(True, question=question)
    lab.known.others_learn = True
    for identity in IMITATED:
        if identity.startswith(level) and finds[identity].present:
            finds[identity].present, finds[identity].reason = None, MASKED


def _hold(lab: Lab, identity: str) -> None:
    """Hold one family against its further cases. What fails one is something else; beside another family of its level
    it stays open, as the failed case may be that one's doing: what is left then fits no case by itself."""
    finds, found, level = lab.known.finds, lab.known.finds[identity], identity[:2]
    if all(case(lab, found, identity) is not False for case in CASES[identity]):
        return
    beside = (other for other in RUN_FAMILIES if other != identity and (other[:2] == level or other in REGION))
    if any(finds[other].present for other in beside):
        found.present, found.reason, found.question = None, MASKED, None
        return
    question, found.present, found.question = found.question, False, None
    if question is not None:
        _add_other(lab, question, level)


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
    count = len(question.visit.steps) - len(question.controls[0].steps) + 1  # of the run that was led
    if found.trigger:
        count = found.trigger * max(longest // found.trigger, 1)
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


def _goes_by_rules(lab: Lab, found: Found, identity: str) -> Answer:
    """Whether rules of streams explain some of what it brings ahead of runs; None where they are not asked."""
    rules = Rules(lab, found, identity == "l1.stream")
    question = found.question
    rules.fills_l1 = found.dense or (
        question is not None and any(lab.in_l1(question.visit, target) for target in question.targets)
    )
    if not found.trigger or rules.led_on or rules.asked_along:
        return None
    explained = rules.fit().unexplained <= E.unexplained
    others = rules.beside or (not rules.inner and lab.known.may("l1.stream"))  # whose lines the rules do not count
    return explained or (None if others else False)


def _new_runs(lab: Lab, count: int, down: bool, end_odd: bool) -> Iterator[list[int]]:
    """Runs of random distances that end where those do by which streams are found."""
    last, rng = runs.gap_lines(lab, 1, down, end_odd)[0], lab.context.rng("runs of new distances")
    while True:
        gaps = rng.choice(E.gaps, count - 1)
        back = [int(each) for each in np.cumsum(gaps[::-1])[::-1]] + [0]
        lines = [last + each if down else last - each for each in back]
        if min(lines) >= 0 and max(lines) < lab.page_lines:
            yield lines


def _in_order(lab: Lab, found: Found, _identity: str) -> Answer:
    """Whether equal distances of a page are not led where the same lines came in another order."""
    if found.question is None:
        return None
    steps = found.question.visit.steps
    other = replace(found.question.visit, steps=(*reversed(steps[:-1]), steps[-1]))
    answers = lab.ask(replace(found.question, visit=other, controls=()))
    return None if answers is None else not answers


def _practised(lab: Lab) -> dict[str, Question]:
    """By name, a sequence that was made often in other pages, and lines further ahead of it than neighbours bring; runs
    to the page's ends, too."""
    lines, start = lab.page_lines, lab.params.lead_from
    up, down = list(range(start, lines)), list(range(lines - 1 - start, -1, -1))
    deltas = [line for line in range(lines) if line % 5 in (0, 2)]
    questions = {}
    for name, run in {"up": up, "down": down, "deltas": deltas}.items():
        half = len(run) // 2
        targets = [line for line in run[half:] if min(E.apart) <= abs(line - run[half - 1]) <= max(E.apart)]
        control = _after_practice(lab, run, half, tuple(targets), same=False).visit
        questions[name] = replace(_after_practice(lab, run, half, tuple(targets), same=True), controls=(control,))
    questions["footprint"] = _after_practice(lab, P.footprint, 1, P.footprint[2:3], same=False)
    over = _after_practice(lab, up, len(up), (lines, lines + 1), same=True)
    window = replace(over.visit, window=(0, 2 * lines))
    questions["next_page"] = replace(over, visit=window)
    questions["single"] = _after_practice(lab, up, 1, tuple(start + each for each in E.single), same=True)
    return questions


def _after_practice(lab: Lab, run: Sequence[int], count: int, targets: tuple[int, ...], same: bool) -> Question:
    sequence = AccessSequence(tuple(run), lab.params.same_ip if same else None, E.practice)
    return Question(Visit(sequence.accesses(lab)[:count], practice=sequence.practice(lab)), targets)


def report_other(lab: Lab, huge: Lab | None, found: Found, report: Report) -> None:
    """What trains it and which level it fills, by the question that showed it; and what it does."""
    if found.question is not None:
        report_trained_by(lab, found.question, report)
        report_behaviour(lab, huge, report_fills(lab, found.question, report), report)


CASES: dict[str, tuple[Check, ...]] = {
    "l2.stride": (_in_order,),
    "l1.stream": (_follows_new, _goes_by_rules),
    "l2.stream": (_follows_new, _goes_by_rules),
}
"""By family of runs, the cases that its rules say more of."""
