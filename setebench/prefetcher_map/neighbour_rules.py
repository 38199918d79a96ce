"""By what rules prefetchers of neighbouring lines go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from setebench.prefetcher_map.kinds import trained_by
from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.neighbours import Neighbours, downwards, even_line, odd_line, repeated
from setebench.prefetcher_map.shared import tell_shared
from setebench.prefetcher_map.table_size import bisect
from setebench.prefetcher_map.tell import Told
from setebench.prefetcher_map.visit import Access, Visit

UNCLEAR = "some lines were there in some repetitions only; run again at a quieter time"
HIDDEN = "a next-line prefetcher of level 1 brings the same line on every access; switch it off and run again"
MOST_LINES = 60
MOST_NEXT = 10
"""Lines on one side of the accessed one that are asked for: more than next-line prefetchers are known to fetch."""

AWAY = (2, 3)
"""Lines further off, on the side of a line that came alone, that must stay away for it to be the only one."""

MIXED = "lines come that are not next to each other, or another prefetcher brings some; run again at a quieter time"
ALIKE = "what brings the next line hides whether this prefetcher does; switch that off and run again"
ONE = "it remembers nothing that threads could share: one access is enough"


def tell_next_line(lab: Laboratory, huge: Laboratory | None, found: Neighbours, told: Told) -> None:
    """Everything of level 1's next-line prefetcher."""
    method = "the next line in level 1 after repeated accesses to one line"
    trigger, target = found.next_trigger, odd_line(lab) + 1
    told.value("trigger", trigger, method, UNCLEAR)
    if trigger is None:
        return
    visit = repeated(lab, trigger, found.flushed)
    line = odd_line(lab)
    _tell_lines(_Sides(lambda ahead: lab.in_l1(visit, line + ahead), lambda back: lab.in_l1(visit, line - back)), told)
    kinds, reason = trained_by(lab, visit, lambda each: lab.in_l1(each, target), odd_line(lab) + 20)
    told.value("trained_by", kinds, "the same by other kinds of access", reason)
    told.value("fills", "l1", method, "")
    tell_shared(lab, visit, 0 if trigger == 1 else len(visit.steps) - 1, [target], told)
    if trigger > 1:
        told.value("streams", _watched(lab, found, trigger), "lines of many pages, the first once more", UNCLEAR)
    for parameter, memory in (("crosses_4k", lab), ("crosses_4k_in_2m", huge)):
        if memory is not None:
            last = memory.page_lines - 1
            edge = repeated(memory, trigger, found.flushed, at=last)
            visit = Visit(edge.steps, window=(0, 2 * memory.page_lines))
            told.value(parameter, memory.in_l1(visit, last + 1), "the last line of a page", UNCLEAR)


def _watched(lab: Laboratory, found: Neighbours, trigger: int) -> int | None:
    """Lines watched at once: all get all accesses but one, then the first gets its last."""
    place = odd_line(lab) * lab.line_size

    def holds(lines: int) -> bool | None:
        steps: list[Access] = []
        for page in range(lines):
            for number in range(trigger - 1):
                if number and found.flushed:
                    steps.append(Access(place, "flush", page=page))
                steps.append(Access(place, page=page))
        if found.flushed:
            steps.append(Access(place, "flush"))
        steps.append(Access(place))
        return lab.in_l1(Visit(tuple(steps)), odd_line(lab) + 1)

    return bisect(holds, MOST_LINES)


def tell_pair(lab: Laboratory, told: Told) -> None:
    """Everything of level 2's pair prefetcher."""
    line = odd_line(lab)
    visit = repeated(lab, 1, False)
    told.value("trigger", 1, "one access", "")
    _tell_single(lambda off: lab.brings(visit, line - off), told)
    _tell_one_access(lab, visit, line - 1, told)
    if any(len(group) > 1 for group in lab.context.machine.facts.siblings):
        told.unresolved("shared_by_smt", ONE)


def tell_next_line_of_two(lab: Laboratory, huge: Laboratory | None, found: Neighbours, told: Told) -> None:
    """Everything of level 2's next-line prefetcher, after an access further up, so that none goes up and down."""
    if found.hidden:
        _tell_hidden(lab, huge, told)
        return
    line, other = odd_line(lab), even_line(lab)
    alone = repeated(lab, 1, False, at=other)
    told.value("trigger", 1, "one access", "")
    # one access, so that no other lines of the page were asked for, to an even line: its pair is the next one
    _tell_lines(
        _Sides(lambda ahead: lab.brings(alone, other + ahead), lambda back: lab.brings(alone, other - back)), told
    )
    _tell_one_access(lab, downwards(lab, line), line + 1, told)
    _tell_page_end(lab, huge, found.up_down is False, told)
    if any(len(group) > 1 for group in lab.context.machine.facts.siblings):
        told.unresolved("shared_by_smt", ONE)


def _tell_hidden(lab: Laboratory, huge: Laboratory | None, told: Told) -> None:
    """One access is enough for it, as it was found by one; nothing shows its other rules."""
    told.value("trigger", 1, "one access", "")
    crossing = ("crosses_4k", *(("crosses_4k_in_2m",) if huge is not None else ()))
    for parameter in ("degree", "max_distance", "directions", "trained_by", "fills", *crossing):
        told.unresolved(parameter, HIDDEN)
    if any(len(group) > 1 for group in lab.context.machine.facts.siblings):
        told.unresolved("shared_by_smt", ONE)


def tell_up_down(lab: Laboratory, huge: Laboratory | None, found: Neighbours, told: Told) -> None:
    """Everything of a prefetcher that brings the neighbour on the side to which the page's accesses went."""
    line = even_line(lab)
    visit = downwards(lab, line)
    told.value("trigger", 1, "one access", "")
    _tell_single(lambda off: lab.brings(visit, line - off), told)
    _tell_one_access(lab, visit, line - 1, told)
    alone = found.l2_next_line is False and (found.next_line is False or (found.next_trigger or 1) > 1)
    upwards = lab.brings(repeated(lab, 1, False), odd_line(lab) + 1) if alone else None
    ways = None if upwards is None else "both" if upwards else "down"
    told.value("directions", ways, "the page's accesses going up and down", ALIKE)
    _tell_page_end(lab, huge, found.l2_next_line is False and found.next_line is False, told)
    tell_shared(lab, visit, 1, [line - 1], told)


def _tell_page_end(lab: Laboratory, huge: Laboratory | None, alone: bool, told: Told) -> None:
    for parameter, memory in (("crosses_4k", lab), ("crosses_4k_in_2m", huge)):
        if memory is not None:
            last = memory.page_lines - 1
            visit = Visit((Access(last * memory.line_size),), window=(0, 2 * memory.page_lines))
            crosses = memory.brings(visit, last + 1)
            if crosses and not alone:
                told.unresolved(
                    parameter, "another prefetcher of the next line may have brought it; switch that off and run again"
                )
            else:
                told.value(parameter, crosses, "the last line of a page", UNCLEAR)


@dataclass(frozen=True)
class _Sides:
    """Whether lines so far ahead of the accessed one, and so far behind it, come."""

    ahead: Callable[[int], bool | None]
    behind: Callable[[int], bool | None]


def _tell_lines(sides: _Sides, told: Told) -> None:
    """Tell how many of the next lines come, and whether any before."""
    method = f"which of {MOST_NEXT} lines ahead of one access come, and of {AWAY[-1]} behind it"
    ahead = [sides.ahead(number) for number in range(1, MOST_NEXT + 1)]
    count = None if None in ahead else ahead.index(False) if False in ahead else MOST_NEXT
    if count is not None and (not count or True in ahead[count:]):
        count = None
    for parameter in ("degree", "max_distance"):
        if count == MOST_NEXT:
            told.at_least(parameter, count, method, "lines further off were not asked")
        else:
            told.value(parameter, count, method, MIXED)
    behind = [sides.behind(number) for number in (1, *AWAY)]
    told.value("directions", "up" if set(behind) == {False} else None, method, MIXED)


def _tell_single(comes: Callable[[int], bool | None], told: Told) -> None:
    """Tell that of the lines on the side of one that came (`comes` takes how far off) none but that one did."""
    further = [comes(off) for off in AWAY]
    method = "the lines behind it stay away"
    for parameter in ("degree", "max_distance"):
        told.value(parameter, 1 if set(further) == {False} else None, method, MIXED)


def _tell_one_access(lab: Laboratory, visit: Visit, target: int, told: Told) -> None:
    kinds, reason = trained_by(lab, visit, lambda each: lab.brings(each, target), odd_line(lab) + 20)
    told.value("trained_by", kinds, "one access of another kind", reason)
    told.value(
        "fills",
        lab.level(visit, target),
        "level of the line",
        "its level stays unclear; run again without --fast, at a quieter time",
    )
