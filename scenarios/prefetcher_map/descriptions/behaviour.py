"""What a level's prefetchers of no family do to sequences of accesses, in the words of docs/parameters.md.

Only what nothing else may have done is described: lines of level 1 where no family of that level may bring them, lines
of a level behind it where no family at all may.
"""

from __future__ import annotations

from dataclasses import replace

from setebench.experiments.visits import Access
from setebench.results import Value

from ..attributes import directions, report_crossing
from ..found import Answer, Question, some
from ..lab import Lab
from ..report import UNCLEAR, Report
from .sequences import Comes, P, Watched, lead, max_distance, sequences

METHOD = "sequences made often in other pages: which lines are there after each access in a fresh one"
BESIDE = (
    "another prefetcher that is or may be there may bring lines of the same sequences; switch that off and run again"
)
FORESEEN = ("up", "down", "stride", "deltas", "footprint")
DESCRIBED = ("patterns", "trigger", "lead", "lead_after_runs", "max_distance", "directions", "stopped_by", "crosses_4k")
IMITATED = ("l1.stride", "l2.up_down")
"""What leads unequal distances leads equal ones, and brings any neighbour that came by then."""
NONE = 0
"""Of a trigger or a distance: there is none."""
STOPS = ("skip", "repeat", "other_instruction", "page")


def level_of(lab: Lab, question: Question) -> str | None:
    """Whose prefetcher answers a question: level 1's brings lines to level 1, or while level 2 sees no access."""
    visit, target = question.visit, next(line for line in question.targets if lab.brings(question.visit, line))
    if lab.in_l1(visit, target):
        return "l1"
    accessed = {access.at // lab.line_size for access in visit.steps if not access.page}
    heard = lab.brings(replace(visit, warm=tuple(sorted(accessed)), demoted=(), thrash=False), target)
    return None if heard is None else "l1" if heard else "l2"


def report_behaviour(lab: Lab, huge: Lab | None, fills: str | None, report: Report) -> None:
    """Which sequences are foreseen, how far ahead of a run lines come, and what ends that."""
    comes = _asked_of(lab, report.level, fills)
    up = None if comes is None else _watched(lab, "up", comes)
    if comes is None or up is None or not _own_level(lab, up, report.level):
        for name in DESCRIBED:
            report.unresolved(name, BESIDE, METHOD)
        return
    foreseen = {name: _watched(lab, name, comes).foreseen() for name in FORESEEN}
    single = _watched(lab, "single", comes)
    alone = single.any_comes(1, [line for line in range(lab.page_lines) if line not in single.lines])
    up = _watched(lab, "up", comes)  # as last, as its questions are many and others were practised meanwhile
    over = up.beyond_page()[lab.page_lines]
    patterns = {**foreseen, "next_page": over, "single": alone}
    known = None not in patterns.values()
    values: dict[str, Value] = {"patterns": [name for name, led in patterns.items() if led] if known else None}
    ways = {False: foreseen["up"], True: foreseen["down"]}
    if None in ways.values() or True in ways.values():
        values["directions"] = directions(ways)
    values |= _of_runs(_watched(lab, "down", comes) if ways == {False: False, True: True} else up, over)
    if foreseen["up"] is not False:
        furthest = values.get("max_distance")
        reach = furthest if isinstance(furthest, int) else lab.page_lines
        values |= _ended(up, reach) if foreseen["up"] else {"stopped_by": None}
    for name, value in values.items():
        report.value(name, value, METHOD, UNCLEAR)

    def crosses(memory: Lab) -> Answer:
        watched = _watched(memory, "up", memory.in_l1 if comes == lab.in_l1 else memory.brings)
        return some(watched.beyond_page().values())

    report_crossing(crosses, lab, huge, METHOD, report)


def _asked_of(lab: Lab, level: int, fills: str | None) -> Comes | None:
    """What asks for lines that no family may have brought; None where one may bring them anywhere. Of the own level,
    doubts that the prefetcher itself raises don't count."""
    finds = lab.known.finds
    own = [each for each in finds if int(each[1]) == level and (finds[each].present or each not in IMITATED)]
    outer = [each for each in finds if int(each[1]) != level and each != "l1.other"]  # see `_own_level`
    if lab.known.may(*(each for each in own if not each.endswith(".other"))):
        return None
    if not lab.known.may(*outer):
        return lab.brings
    return lab.in_l1 if fills == "l1" else None


def _own_level(lab: Lab, up: Watched, level: int) -> bool:
    """Whether what leads runs is of the level in question, where something else without a name may be there."""
    if level == 1 or not lab.known.may("l1.other"):
        return True
    half = len(up.lines) // 2
    led = up.there(half, up.lines[half])
    return led is False or (led is True and level_of(lab, Question(up.visit(half), (up.lines[half],))) == "l2")


def _watched(lab: Lab, name: str, comes: Comes) -> Watched:
    return Watched(lab, sequences(lab)[name], comes, beyond=name == "up")


def _of_runs(run: Watched, over: Answer) -> dict[str, Value]:
    """How far ahead of a run lines come: after many of them, and after accesses to scattered lines."""
    accesses, lines = run.lab.params.lead_accesses, run.lines
    late = run.arrivals((*lines[1:], *(run.beyond_page() if over is not False else ())), len(lines))
    values: dict[str, Value] = dict.fromkeys(("lead", "lead_after_runs", "max_distance", "trigger"))
    if late is None:
        return values
    values["lead_after_runs"] = later = lead(lines, late, accesses)
    asked = [line for line, came in late.items() if came or line in lines[:accesses]]
    soon = run.forgotten().arrivals(asked, accesses, late)
    values["lead"] = first = None if soon is None else lead(lines, soon, accesses)
    values["max_distance"] = max_distance(lines, late) or NONE
    begun = first if first is None or any(first) else later
    values["trigger"] = begun and next((number for number, ahead in enumerate(begun, 1) if ahead), NONE)
    return {name: value for name, value in values.items() if value != NONE}


def _ended(up: Watched, reach: int) -> dict[str, Value]:
    """After which events the next two accesses of a run bring nothing, up to so many lines ahead; nothing where they do
    not without one."""
    if (without := _goes_on(up, "", reach)) is False:
        return {}
    answers = {event: _goes_on(up, event, reach) for event in STOPS}
    known = without and None not in answers.values()
    return {"stopped_by": [event for event, on in answers.items() if not on] if known else None}


def _goes_on(up: Watched, event: str, reach: int) -> Answer:
    """Whether one of the two accesses after an event (one of `STOPS`, "" for none) brings one of the lines up to so
    many ahead."""
    count = len(up.lines) if event == "page" else P.reached
    last, line, size = up.steps[count - 1], up.lines[count - 1], up.lab.line_size
    meanwhile = (last, last) if event == "repeat" else ()
    ip = P.other_ip if event == "other_instruction" else last.ip
    accessed = [line + ahead + (event == "skip") for ahead in (1, 2)]
    steps = [*meanwhile, *(Access(each * size, ip=ip) for each in accessed)]
    before, first, both = (up.visit(count, steps[: len(meanwhile) + made]) for made in range(3))
    end = min(accessed[1] + reach + 1, up.window[1])
    targets = [each for each in range(line + 1, end) if each not in accessed]
    came = up.came(both, targets) | up.came(first, accessed[1:])
    there = up.came(before, [each for each, answer in came.items() if answer])
    return some(answer and (None if there[each] is None else not there[each]) for each, answer in came.items())
