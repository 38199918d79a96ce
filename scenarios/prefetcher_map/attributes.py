"""What is asked alike of every prefetcher, of the question by which it shows: by what it is trained, which level it
fills, and whether threads or cores share it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from setebench.experiments.visits import Access, Kind, Visit

from .found import Answer, Question
from .lab import Lab
from .report import LEVEL_UNCLEAR, UNCLEAR, Report

HINTS: tuple[Kind, ...] = ("t0", "t1", "nta")
SHARED = "the last access that it needs made by another thread of the core; then all of them dealt to all threads"
CROSSED = f"another prefetcher may have brought the next page's lines, or {UNCLEAR}"
BROUGHT_ON = "a prefetcher of level 1 brings the lines in question as well; switch that off and run again"
ONE = "it remembers nothing that threads could share: one access is enough"
ACROSS = "all accesses but the last by another core, the last by this one; and each core's alone"
ACROSS_UNCLEAR = (
    "lines came in some repetitions only, or with the accesses of one core alone; run again at a quieter time"
)


def directions(ways: dict[bool, Answer]) -> str | None:
    """`up`, `down` or `both`, from whether runs upwards (False) and downwards (True) are led; None where a way is
    unclear, or none is led."""
    names = {(True, True): "both", (True, False): "up", (False, True): "down"}
    return None if None in ways.values() else names.get((bool(ways[False]), bool(ways[True])))


def report_alike(lab: Lab, question: Question, first: int, report: Report) -> str | None:
    """What trains it, which level it fills (returned), and whether threads share it, of which another makes all
    accesses but the `first` ones."""
    report_trained_by(lab, question, report)
    level = report_fills(lab, question, report)
    report_shared(lab, question, first, report)
    return level


def report_crossing(crosses: Callable[[Lab], Answer], lab: Lab, huge: Lab | None, method: str, report: Report) -> None:
    """Whether lines come past a page's end, in small pages and, where there are any, within large ones."""
    for parameter, memory in (("crosses_4k", lab), ("crosses_4k_in_2m", huge)):
        if memory is not None:
            report.value(parameter, crosses(memory), method, CROSSED)


def report_trained_by(lab: Lab, question: Question, report: Report, heard: str = "") -> None:
    """Kinds of access that a question (which loads answer) works with too. A software prefetch counts if any hint
    trains: hints go to different levels. `heard`: why another kind may just be too short a run."""
    found, method = [], "the same by other kinds of access"
    offered = tuple(hint for hint in HINTS if hint in lab.context.machine.facts.prefetch_hints)
    asked: dict[str, tuple[Kind, ...]] = {"load": ("load",), "store": ("store",), "prefetch": offered}
    for name, kinds in asked.items():
        answers = [_works(lab, _by_kind(lab, question, kind)) for kind in kinds]
        if True in answers:
            found.append(name)
        elif None in answers or not answers:
            report.unresolved("trained_by", f"it stays unclear whether a {name} trains it; {UNCLEAR}", method)
            return
    if "load" not in found:
        report.unresolved("trained_by", "the accesses that showed it did not show it again", method)
    elif heard and len(found) < len(asked):
        report.unresolved("trained_by", heard, method)
    else:
        report.value("trained_by", found, method, "")


def _works(lab: Lab, question: Question) -> Answer:
    """Where all accesses are stores, which may have translations of their own, the page's for loads may be missing: a
    line of level 1 then reads like one further out. A load of another line that is in level 1 brings it."""
    came = lab.ask(question)
    if came or any(access.how != "store" for access in question.visit.steps) or (at := _apart(lab, question)) is None:
        return came

    def translated(visit: Visit) -> Visit:
        return replace(visit, steps=(*visit.steps, Access(at * lab.line_size)), warm=tuple(sorted({*visit.warm, at})))

    controls = tuple(translated(each) for each in question.controls)
    return lab.ask(replace(question, visit=translated(question.visit), controls=controls))


def _by_kind(lab: Lab, question: Question, how: Kind) -> Question:
    """The question with its loads replaced by accesses of another kind. An anchor is one access more, so it is only
    used where software prefetches are not done without it, or where that can't be seen because the lines are in level 1
    anyway."""
    line = question.visit.steps[-1].at // lab.line_size
    at: int | None = None
    if how in HINTS:
        placed = line in (*question.visit.warm, *question.visit.demoted)
        at = _apart(lab, question) if placed or not lab.brings(_changed(question.visit, how, None), line) else None
    controls = tuple(_changed(each, how, at) for each in question.controls)
    return replace(question, visit=_changed(question.visit, how, at), controls=controls)


def _apart(lab: Lab, question: Question) -> int | None:
    """The line next to the page's end that is neither asked for nor accessed, nor next to one that is."""
    lines = [*question.targets, *(access.at // lab.line_size for access in question.visit.steps if not access.page)]
    free = (line for line in reversed(range(lab.page_lines - 1)) if all(abs(line - other) > 1 for other in lines))
    return next(free, None)


def _changed(visit: Visit, how: Kind, anchor: int | None) -> Visit:
    def changed(accesses: tuple[Access, ...]) -> tuple[Access, ...]:
        return tuple(replace(access, how=how) if access.how == "load" else access for access in accesses)

    steps, training, practice = changed(visit.steps), changed(visit.training), changed(visit.practice)
    return replace(visit, steps=steps, training=training, practice=practice, anchor=anchor)


def report_fills(lab: Lab, question: Question, report: Report) -> str | None:
    """The level of the first target that comes: level 1 where the question asked for that. What a prefetcher of level 2
    brings is in level 1 only where one of level 1 brings it as well."""
    present = [target for target in question.targets if lab.comes(question.visit, target, question.inner)]
    level = None if not present else "l1" if question.inner else lab.level(question.visit, present[0])
    why = BROUGHT_ON if level == "l1" and report.level > 1 else LEVEL_UNCLEAR
    if why == BROUGHT_ON or level == "memory":  # which comes, and mostly is not there a moment later
        level = None
    report.value("fills", level, "level of the lines that come", why)
    return level


def cpus_of(lab: Lab) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The CPU that measures and the others of its core; and it and those of other cores."""
    facts = lab.context.machine.facts
    own = lab.context.own_cpu
    core = next((group for group in facts.siblings if own in group), (own,))
    same, others = ([cpu for cpu in facts.cpus if cpu != own and (cpu in core) is near] for near in (True, False))
    return (own, *same), (own, *others)


def report_shared(lab: Lab, question: Question, first: int, report: Report) -> None:
    """Whether the visit still works when a sibling thread makes all accesses but the `first` ones, and, where cores
    have more threads, when three or more take turns (Fang et al. 2014, Figure 8). Nothing is reported where cores have
    one thread."""
    cpus, _ = cpus_of(lab)
    if len(cpus) < 2:
        return
    if first < 1 and not question.visit.training:
        report.unresolved("shared_by_smt", ONE)
        return
    accesses = range(len(question.visit.steps))
    makers: dict[int, list[int | None]] = {2: [int(number >= first) for number in accesses]}
    # the thread that times makes the last of each round, so that the first accesses are those of others
    makers |= {count: [(number + 1) % count for number in accesses] for count in range(3, len(cpus) + 1)}
    shared = {count: lab.brings_by(question, makers[count], cpus[:count]) for count in makers}
    evidence = lab.context.evidence.setdefault("streams_of_threads", {})
    evidence[report.identity] = {str(count): value for count, value in shared.items()}
    agree = {value for value in shared.values() if value is not None} == {shared[2]}
    said = ", ".join(f"{count} threads {'train' if trains else 'do not train'} it" for count, trains in shared.items())
    report.value("shared_by_smt", shared[2] if agree else None, SHARED, UNCLEAR if shared[2] is None else said)


def report_across_cores(lab: Lab, question: Question, first: int, report: Report) -> None:
    """Whether the visit works when another core makes its `first` accesses and this one the rest, and with neither's
    alone: what one of them fetches of its own may lie in a cache that both see. Nothing is reported of tables of level
    1, which are a core's own, where there is one core, or where the visit has no access for each."""
    (_, cpus), last = cpus_of(lab), len(question.visit.steps)
    if report.level == 1 or len(cpus) < 2 or not 0 < first < last:
        return

    def comes(other: int | None, own: int | None) -> Answer:
        makers = [other] * first + [own] * (last - first)
        return lab.brings_by(question, makers, cpus[:2], apart=True)

    answers = comes(1, 0)
    if answers:
        answers = True if [comes(1, None), comes(None, 0)] == [False, False] else None
    report.value("shared_by_cores", answers, ACROSS, ACROSS_UNCLEAR)
