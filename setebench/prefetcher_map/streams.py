"""Stream prefetchers: lines ahead of accesses that go one way through a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.strides import page_kept_warm
from setebench.prefetcher_map.visit import Access, Visit

GAPS = (6, 7)
"""Lines between accesses of a run, in turn: never equal in a row, so no stride, and further than a batch, so that every
access is a miss."""

LONGEST = 7
NEIGHBOURING = 14
"""Lines of a run of neighbouring ones, about as many as half of a page of 32 has: what wants more accesses than a run
with gaps can have in a page shows there."""

HAMMERED = 16
"""Hits on one line that a stream owns: each draws the next batch, up to the stream's distance."""


DRAWN = (3, 5)
"""Lines ahead of a run, first and last, that hits on the next one draw from a stream: nearer than the run's own gaps,
for where two accesses are enough a stride prefetcher of level 2 takes the last gap for a stride."""


@dataclass
class Stream:
    """What was found of one stream prefetcher; the trigger counts accesses. `dense`: it only follows neighbouring
    lines."""

    present: bool | None = None
    trigger: int | None = None
    down: bool = False
    reason: str = ""
    dense: bool = False


def gap_lines(lab: Laboratory, count: int, down: bool = False, end_odd: bool = True) -> list[int]:
    """`count` lines of a run that ends amid the page, on an odd or an even line."""
    last = lab.page_lines * 5 // 8 + 1
    lines = [last]
    for number in range(count - 1):
        lines.insert(0, lines[0] - GAPS[number % 2])
    if down:
        lines = [lab.page_lines - 1 - line for line in lines]
    shift = int((lines[-1] % 2 == 1) != end_odd)
    return [line + shift for line in lines]


def ahead(lines: list[int], first: int, last: int, down: bool) -> list[int]:
    """The lines from `first` to `last` ahead of a run's last one."""
    return [lines[-1] + (-number if down else number) for number in range(first, last + 1)]


def l1_visit(lab: Laboratory, lines: list[int], hammered: int, down: bool) -> Visit:
    """Accesses that miss level 1 and hit level 2, then hits on the line behind the last one."""
    targets = ahead(lines, DRAWN[0], 8, down)
    steps = [Access(line * lab.line_size) for line in lines]
    steps += [Access(ahead(lines, 1, 1, down)[0] * lab.line_size)] * hammered
    return Visit(tuple(steps), warm=page_kept_warm(lab, lines, targets), demoted=tuple(sorted(lines)))


def find_l1_stream(lab: Laboratory) -> Stream:
    """Lines that come although level 2 sees only hits, and no next line can be asked for."""
    found = _shortest(lab, _l1_streams)
    if found.present is False and not _placed(lab):
        found.present = None
        found.reason = "the lines of the run could not be kept in level 2 alone, nor the others in level 1"
    if found.present is False and _nearest_led(lab):
        found.present = None
        found.reason = "runs bring a line or two right ahead, nothing further by which a stream could be followed"
    return found


def _nearest_led(lab: Laboratory) -> bool:
    """Whether a run that level 2 holds surely brings one of the next two lines.

    A stream that goes no further shows nothing where others look ahead of a run, and what hits would draw, a next-line
    prefetcher brings as well. Neither the run's last access alone may bring the line nor those before it: where two
    accesses are enough for a stride prefetcher of level 2, it takes the last gap but one for a stride."""
    for down in (False, True):
        for count in range(2, LONGEST + 1):
            lines = gap_lines(lab, count, down)
            targets = ahead(lines, 1, 2, down)
            steps = tuple(Access(line * lab.line_size) for line in lines)
            visit = Visit(steps, warm=page_kept_warm(lab, lines, targets), demoted=tuple(sorted(lines)))
            parts = [lab.scan(replace(visit, steps=part), targets) for part in (steps[-1:], steps[:-1])]
            free = [target for target in targets if all(part[target] is False for part in parts)]
            if lab.any_of(visit, free):
                return True
    return False


def leads_anyway(lab: Laboratory) -> bool:
    """Whether a run of neighbouring lines, each by its own instruction, brings lines that its last access doesn't: with
    fences between the accesses, or ordered by their addresses alone."""
    for down in (False, True):
        first = lab.page_lines // 4 + 4
        lines = [lab.page_lines - 1 - first - n if down else first + n for n in range(NEIGHBOURING)]
        plain = Visit(tuple(Access(line * lab.line_size) for line in lines))
        for visit in (plain, replace(plain, chained=True)):
            for target in ahead(lines, 3, 6, down):
                if lab.brings(visit, target) and not lab.brings(replace(visit, steps=visit.steps[-1:]), target):
                    return True
    return False


def _placed(lab: Laboratory) -> bool:
    """Whether lines were where a run needs them: each of its own not in level 1 when its turn comes, what is hit
    afterwards in level 1. A region prefetcher brings back what the run's first access reminds it of."""
    lines = gap_lines(lab, 4)
    visit = l1_visit(lab, lines, HAMMERED, False)
    own = [lab.rests_in_l1(visit, line, count) for count, line in enumerate(lines)]
    return own == [False] * len(lines) and lab.rests_in_l1(visit, lines[-1] + 1) is True


def drawn_by_runs(lab: Laboratory, lines: list[int], down: bool) -> list[int]:
    """The lines that hits draw from a stream but not after the run's last access alone, as a prefetcher of several next
    lines would have it."""
    targets = ahead(lines, *DRAWN, down)
    alone = lab.scan(l1_visit(lab, lines[-1:], HAMMERED, down), targets)
    return [target for target in targets if alone[target] is False]


def _l1_streams(lab: Laboratory, count: int, down: bool) -> bool | None:
    lines = gap_lines(lab, count, down)
    targets = drawn_by_runs(lab, lines, down)
    if not targets:
        return None
    told = lab.any_of(l1_visit(lab, lines, HAMMERED, down), targets)
    # a short stream's lines may be among those that come anyway; where one access doesn't bring them, `_nearest_led`
    # sees what a run brings without hits
    anyway = lab.known.next_in_l1 and len(targets) < len(ahead(lines, *DRAWN, down))
    return None if told is False and anyway else told


def _shortest(lab: Laboratory, streams: Callable[[Laboratory, int, bool], bool | None]) -> Stream:
    """The shortest run that something streams ahead of. Every length is asked: an access that is no part of a stream
    ends it on some machines, so longer runs show less."""
    found = Stream()
    told: list[bool | None] = []
    for down in (False, True):
        for count in range(2, LONGEST + 1):
            told.append(streams(lab, count, down))
            if told[-1]:
                found.present, found.down = True, down
                found.trigger = count if None not in told else None
                return found
    found.present = None if None in told else False
    return found


def l2_visit(lab: Laboratory, lines: list[int]) -> Visit:
    """Accesses that miss every level, between which level 1 forgets the page; their next lines are in level 1."""
    return Visit(tuple(Access(line * lab.line_size) for line in lines), warm=silenced(lab, lines), thrash=True)


def silenced(lab: Laboratory, lines: list[int]) -> tuple[int, ...]:
    """The next lines of these: in level 1 already, so that its next-line prefetcher asks level 2 for none of them. The
    last one's only where there is such a prefetcher, for it is what streams bring first."""
    return next_lines(lab, lines if lab.known.next_in_l1 else lines[:-1])


def next_lines(lab: Laboratory, lines: list[int]) -> tuple[int, ...]:
    """Lines behind some lines, in order of address, in their page and not among them."""
    return tuple(sorted({line + 1 for line in lines if line + 1 < lab.page_lines} - set(lines)))


def find_l2_stream(lab: Laboratory) -> Stream:
    """Lines ahead of a run of misses that the run's last access alone doesn't bring."""
    return _shortest(lab, _l2_streams)


def _l2_streams(lab: Laboratory, count: int, down: bool) -> bool | None:
    lines = gap_lines(lab, count, down, end_odd=not down)
    targets = ahead(lines, 1, 4, down)
    single = lab.scan(l2_visit(lab, lines[-1:]), targets)
    told = lab.any_of(l2_visit(lab, lines), [target for target in targets if single[target] is False])
    if told is False and single[targets[0]] is not False:
        return _follow_up(lab, lines, down)
    return told


def _follow_up(lab: Laboratory, lines: list[int], down: bool) -> bool | None:
    """Where one access brings the next line anyway: whether hits of level 2 on that line bring lines further ahead."""
    following = ahead(lines, 1, 1, down)[0]
    targets = ahead(lines, 3, 5, down)
    alone = lab.any_of(hammering(lab, lines[-1:], [following] * 6), targets)
    if alone is not False:
        return None
    return lab.any_of(hammering(lab, lines, [following] * 6), targets)


def hammering(lab: Laboratory, lines: list[int], hammered: list[int]) -> Visit:
    """A run of misses, then some lines, each pushed out of level 1 before, so that level 2 hears of it."""
    steps = [Access(line * lab.line_size) for line in lines]
    for line in hammered:
        steps += [Access(line * lab.line_size, "demote"), Access(line * lab.line_size)]
    # level 1's next-line prefetcher may ask for the line behind one that is hit again and again, and level 2's streams
    # take that for an access one line further on; where it asks after every access, that goes for the run as well
    asking = [*lines, *hammered] if lab.known.next_after_hits else []
    warm = {*next_lines(lab, asking), *(next_lines(lab, lines) if lab.known.next_in_l1 else ())}
    return Visit(tuple(steps), warm=tuple(sorted(warm)), thrash=True)
