"""By what rules prefetchers of one neighbouring line go."""

from __future__ import annotations

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
ONE = "it remembers nothing that threads could share: one access is enough"


def tell_next_line(lab: Laboratory, huge: Laboratory | None, found: Neighbours, told: Told) -> None:
    """Everything of level 1's next-line prefetcher."""
    method = "the next line in level 1 after repeated accesses to one line"
    trigger, target = found.next_trigger, odd_line(lab) + 1
    told.value("trigger", trigger, method, UNCLEAR)
    if trigger is None:
        return
    for parameter, value in (("degree", 1), ("max_distance", 1), ("directions", "up")):
        told.value(parameter, value, "the lines around it stay away", "")
    visit = repeated(lab, trigger, found.flushed)
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
    _tell_one_access(lab, repeated(lab, 1, False), odd_line(lab) - 1, told)
    if any(len(group) > 1 for group in lab.context.machine.facts.siblings):
        told.unresolved("shared_by_smt", ONE)


def tell_next_line_of_two(lab: Laboratory, huge: Laboratory | None, found: Neighbours, told: Told) -> None:
    """Everything of level 2's next-line prefetcher, after an access further up, so that none goes up and down."""
    if found.hidden:
        _tell_hidden(lab, huge, told)
        return
    line = odd_line(lab)
    _tell_one_access(lab, downwards(lab, line), line + 1, told)
    told.value("directions", "up", "the page's accesses going up and down", "")
    _tell_page_end(lab, huge, found.up_down is False, told)
    if any(len(group) > 1 for group in lab.context.machine.facts.siblings):
        told.unresolved("shared_by_smt", ONE)


def _tell_hidden(lab: Laboratory, huge: Laboratory | None, told: Told) -> None:
    """What follows from a prefetcher's being one of the next line; nothing shows its other rules."""
    for parameter in ("trigger", "degree", "max_distance"):
        told.value(parameter, 1, "one access", "")
    told.value("directions", "up", "one access", "")
    crossing = ("crosses_4k", *(("crosses_4k_in_2m",) if huge is not None else ()))
    for parameter in ("trained_by", "fills", *crossing):
        told.unresolved(parameter, HIDDEN)
    if any(len(group) > 1 for group in lab.context.machine.facts.siblings):
        told.unresolved("shared_by_smt", ONE)


def tell_up_down(lab: Laboratory, huge: Laboratory | None, found: Neighbours, told: Told) -> None:
    """Everything of a prefetcher that brings the neighbour on the side to which the page's accesses went."""
    line = even_line(lab)
    visit = downwards(lab, line)
    _tell_one_access(lab, visit, line - 1, told)
    told.value("directions", "both", "the page's accesses going up and down", "")
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


def _tell_one_access(lab: Laboratory, visit: Visit, target: int, told: Told) -> None:
    for parameter in ("trigger", "degree", "max_distance"):
        told.value(parameter, 1, "one access", "")
    kinds, reason = trained_by(lab, visit, lambda each: lab.brings(each, target), odd_line(lab) + 20)
    told.value("trained_by", kinds, "one access of another kind", reason)
    told.value(
        "fills",
        lab.level(visit, target),
        "level of the line",
        "its level stays unclear; run again without --fast, at a quieter time",
    )
