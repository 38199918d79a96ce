"""Stream prefetchers: whether there is one, what starts it, and how far ahead of a run it goes.

A stream is found by a run with gaps (`runs`), each access by its own instruction, whose neighbouring lines are in level
1 already. Some streams of level 1 follow neighbouring lines only: a run of distances of one and two lines in turn, of
which lines count that lie two or more ahead, are in level 1, and come neither with the last access nor with the same
lines in another order. How many lines a stream fetches, how far ahead and by what is a comparison of rules (`models`)
with the lines ahead after each access of a run, and after hits on one line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from setebench.experiments.visits import Access, Visit

from ..found import Answer, Found, Question, first_shown, first_that
from ..lab import Lab
from ..models import Fit, Seen, fit_stream
from . import runs
from .runs import WAYS

BEHIND_LEVEL_1 = "lines ahead of a run that level 2 holds, or in level 1 ahead of a run of neighbouring lines"
OF_MISSES = "lines ahead of a run of misses that the run's last access alone does not bring"
NOT_PLACED = "the lines of the run could not be kept in level 2 alone, nor the others in level 1"
HEARD = "runs that level 2 holds are led although level 1 forgets them, or no further by hits: level 2 may hear them"
NEAREST = "runs bring a line or two right ahead, nothing further by which a stream could be followed"
CONFLICTING = "no lines push others out of level 1 and fit into level 2, whose streams they would end"


@dataclass(frozen=True, kw_only=True)
class Edges:
    """apart: lines between accesses that start at a page's edge. amid: lines before a page's end at which the next
    lines of a run are still in the page. hits: on the last line, that draw what follows."""

    apart: int = 6
    amid: int = 8
    hits: int = 3


E = Edges()

Ask = Callable[[Lab, list[int], bool], tuple[Answer, Question]]


def ask_l1(lab: Lab, lines: list[int], down: bool) -> tuple[Answer, Question]:
    """A short stream's lines may be among those that come anyway; where one access doesn't bring them, `_nearest_led`
    sees what a run brings without hits."""
    question = runs.l1_question(lab, lines, down)
    answers = lab.ask(question)
    anyway = answers is False and lab.known.next_in_l1
    if anyway and any(lab.brings(question.controls[0], target) is not False for target in question.targets):
        answers = None
    return answers, question


def ask_l2(lab: Lab, lines: list[int], down: bool) -> tuple[Answer, Question]:
    """The second question only where the first says nothing of the next line; a no of it only where level 2 surely
    heard the hits."""
    first, second = runs.l2_questions(lab, lines, down)
    answers = lab.ask(first)
    if answers or lab.brings(first.controls[0], first.targets[0]) is False:
        return answers, first
    answers = lab.ask(second)
    return answers if answers is not False or lab.known.demotes else None, second


def _shortest(lab: Lab, ask: Ask, end_even_down: bool) -> Found:
    """The shortest run that something streams ahead of. Every length is asked: an access that is no part of a stream
    ends it on some machines, so longer runs show less."""
    asked = product(WAYS, range(2, runs.longest_run(lab) + 1))
    return first_shown(
        (
            *ask(lab, runs.gap_lines(lab, count, down, not (down and end_even_down)), down),
            Found(down=down, trigger=count),
        )
        for down, count in asked
    )


def find_l1_stream(lab: Lab) -> Found:
    """The stream prefetcher of level 1: one that follows runs with gaps, or else one of neighbouring lines. Where it is
    made to forget the page between accesses nothing must come."""
    found = _shortest(lab, ask_l1, end_even_down=False)
    if found.present and found.question is not None:
        forgotten = replace(found.question, visit=replace(found.question.visit, thrash=True))
        if lab.ask(forgotten) is not False or not _follows_hits(lab, found.question):
            found.present, found.reason = None, HEARD
    if found.present is False and not _placed(lab):
        found.present, found.reason = None, NOT_PLACED
    if found.present is False and _nearest_led(lab):
        found.present, found.reason = None, NEAREST
    if found.present:
        return found
    dense = _find_dense(lab)
    if dense.present is None:
        dense.reason = found.reason
    return found if dense.present is False else dense


def _follows_hits(lab: Lab, question: Question) -> bool:
    """Whether a line comes to level 1, or comes by the hits of level 1 alone that end the visit, of which level 2 hears
    nothing: what trains by level 2's hits, and forgets as level 1 does, leads the run before them as well. So does a
    stream of level 2 that listens to level 1's; but that one leads runs of misses, whatever level 1 forgets."""
    if any(lab.in_l1(question.visit, target) for target in question.targets):
        return True
    unhit = replace(question.visit, steps=question.visit.steps[: -lab.params.repeats])
    drawn = lab.ask(replace(question, controls=(*question.controls, unhit)))
    return bool(drawn or _shortest(lab, ask_l2, end_even_down=True).present)


def find_l2_stream(lab: Lab) -> Found:
    """Lines ahead of a run of misses, while level 1 forgets the page between them."""
    found = _shortest(lab, ask_l2, end_even_down=True)
    if not lab.known.traversals_fit and (found.present is False or lab.known.may("l1.stream")):
        found.present, found.reason = None, CONFLICTING
    if found.present is False and any(drawn_singly(lab, runs.longest_run(lab), down) for down in WAYS):
        found.present, found.reason = None, NEAREST
    return found


def drawn_singly(lab: Lab, count: int, down: bool) -> bool:
    """Whether hits on line after line may draw a further one, where level 2 brings the next line anyway: hits on one
    line again and again draw none from a stream that is led by new lines, one at a time."""
    if not lab.known.outer_next or lab.known.next_after_hits:
        return False
    lines = runs.gap_lines(lab, count, down, end_odd=not down)
    hit = runs.ahead(lines, 1, runs.R.near_targets - 1, down)
    visits = [runs.hit_visit(lab, run, hit) for run in (lines, lines[-1:])]
    target = runs.ahead(lines, runs.R.near_targets, runs.R.near_targets, down)
    return lab.ask(Question(visits[0], tuple(target), (visits[1],))) is not False


def _nearest_led(lab: Lab) -> bool:
    """Whether a run that level 2 holds surely brings one of the next two lines: a stream that goes no further shows
    nothing where others look ahead of a run, and what hits would draw, a next-line prefetcher brings as well. Neither
    the run's last access alone may bring the line nor those before it: where two accesses are enough for a stride
    prefetcher of level 2, it takes the last gap but one for a stride."""
    for down, count in product(WAYS, range(2, runs.longest_run(lab) + 1)):
        lines = runs.gap_lines(lab, count, down)
        targets = tuple(runs.ahead(lines, 1, 2, down))
        visit = runs.placed_visit(lab, lines, targets)
        controls = (replace(visit, steps=visit.steps[-1:]), replace(visit, steps=visit.steps[:-1]))
        if lab.ask(Question(visit, targets, controls)):
            return True
    return False


def _placed(lab: Lab) -> bool:
    """Whether lines were where a run needs them: each of its own not in level 1 when its turn comes, what is hit
    afterwards in level 1. A region prefetcher brings back what the run's first access reminds it of."""
    lines = runs.gap_lines(lab, 4)
    visit = runs.l1_visit(lab, lines, False)
    own = [lab.rests_in_l1(visit, line, count) for count, line in enumerate(lines)]
    return own == [False] * len(lines) and lab.rests_in_l1(visit, lines[-1] + 1) is True


def _find_dense(lab: Lab) -> Found:
    """The shortest uneven run of near lines that is led in level 1, and one access fewer too."""
    longest = lab.params.dense_run

    def ask(down: bool) -> tuple[Answer, Question]:
        asked = [runs.dense_question(lab, count, down) for count in (longest, longest - 1)]
        led = {lab.ask(question) for question in asked}
        return led.pop() if len(led) == 1 else None, asked[0]

    found = first_shown((*ask(down), Found(down=down, dense=True)) for down in WAYS)
    if found.present and not lab.known.next_in_l1:  # which would bring the next line as well

        def next_comes(count: int) -> Answer:
            return lab.ask(runs.led_question(lab, runs.near_lines(lab, count, found.down, (1, 1)), (1, 1), inner=True))

        found.trigger = first_that(next_comes, range(2, longest + 1))
    return found


def leads_anyway(lab: Lab, outer: bool) -> bool:
    """Whether a run of neighbouring lines, each by its own instruction, brings lines that its last access doesn't: with
    fences between the accesses, or ordered by their addresses alone; `outer`: while level 1 forgets the page between
    them."""
    for down, chained in product(WAYS, (False,) if outer else (False, True)):
        lines = runs.near_lines(lab, lab.params.dense_run, down, (1, 1))
        question = runs.led_question(lab, lines, (3, 6), chained=chained)
        if lab.ask(replace(question, visit=replace(question.visit, thrash=outer))):
            return True
    return False


class Rules:
    """Questions about one stream prefetcher that has been found. `inner`: it is level 1's. `fills_l1`: lines go there.
    `asked_along`: level 1's next-line prefetcher takes part in its runs."""

    def __init__(self, lab: Lab, found: Found, inner: bool) -> None:
        self.lab, self.found, self.inner, self.down = lab, found, inner, found.down
        self.trigger = found.trigger or 0
        self.fills_l1 = found.dense
        self.asked_along = not inner and lab.known.next_in_l1 and self.hears_requests() is not False

    @property
    def led_on(self) -> bool:
        """Whether level 2 may go on where the stream, one of level 1, stops."""
        return self.inner and not self.fills_l1 and self.lab.known.level_two_listens

    @property
    def beside(self) -> bool:
        """Whether other prefetchers may bring the line next to an access."""
        known = self.lab.known
        return known.next_in_l1 or (not self.fills_l1 and (known.outer_next or known.may("l2.pair")))

    @property
    def traversed(self) -> bool:
        """Whether level 1 must forget pages between accesses, or its own streams would go on in them."""
        return self.lab.known.inner_streams and not self.inner

    def comes(self, visit: Visit, target: int) -> Answer:
        """Whether the visit brings the target to the level that this prefetcher fills."""
        return self.lab.comes(visit, target, self.fills_l1)

    def low_run(self, count: int) -> list[int]:
        """A run of `count` accesses that ends as near to where it came from as it can, to leave room ahead."""
        lines = runs.gap_lines(self.lab, count)
        shift = (lines[0] - 2) // 2 * 2
        return runs.mirrored(self.lab, [line - shift for line in lines], self.down)

    def starts(self, lines: list[int], down: bool) -> Answer:
        """Whether a run of these lines starts a stream. One that begins at a page's edge may be a single access, so its
        control is amid the page, where one access starts none."""
        lab = self.lab
        if len(lines) > 1 and lines[0] not in (0, 1, lab.page_lines - 2, lab.page_lines - 1):
            return (ask_l1 if self.inner else ask_l2)(lab, lines, down)[0]
        amid = runs.gap_lines(lab, 1, down, end_odd=self.inner or lines[-1] % 2 == 1)
        answers: Answer = None
        for question, control in zip(self.asked(lines, down), self.asked(amid, down), strict=True):
            pairs = zip(question.targets, control.targets, strict=True)
            free = tuple(t for t, c in pairs if lab.brings(control.visit, c) is False)
            answers = lab.ask(replace(question, targets=free, controls=())) if free else None
            if answers or len(free) == len(question.targets):
                break
        return answers

    def asked(self, lines: list[int], down: bool) -> list[Question]:
        """The questions by which a run of these lines shows."""
        return [runs.l1_question(self.lab, lines, down)] if self.inner else runs.l2_questions(self.lab, lines, down)

    def trigger_from(self, start: int, down: bool) -> int | None:
        """Accesses that a run needs which starts at this line."""

        def starts(count: int) -> Answer:
            lines = [start]
            for number in range(count - 1):
                lines.append(lines[-1] + (-1 if down else 1) * (E.apart + number % 2))
            return self.starts(lines, down)

        return first_that(starts, range(1, self.trigger + 1))

    def crosses(self, lab: Lab) -> Answer:
        """Whether a stream that runs upwards at a page's end goes on in the next page of `lab`'s memory. The same run
        must be led amid the page, or nothing follows from its end: what else is there may bring the run's last lines
        to level 1 before their turn. A load in another page than the latest may miss the TLB and read like level 2, so
        what level 1 brings is asked for in any cache; unless level 2's streams may bring it, too."""
        last = lab.page_lines - 1
        asked = self._behind(lab, last)
        answers = lab.ask(replace(asked, inner=False))
        if answers is False:
            return False if lab.ask(self._behind(lab, last - E.amid)) else None
        sure = not self.inner or not lab.known.may("l2.stream") or lab.ask(replace(asked, inner=True))
        return answers if sure else None

    def _behind(self, lab: Lab, last: int) -> Question:
        """Whether an upward run that ends on line `last` is led beyond it."""
        window = (0, 2 * lab.page_lines)
        if self.found.dense:
            lines = [last - 1 - number for number in reversed(range(lab.params.dense_run))]
            visit = Visit(runs.loads(lab, lines), window=window)
            control = replace(visit, steps=visit.steps[-1:])
            return Question(visit, tuple(runs.ahead(lines, 2, 4, False)), (control,), inner=True)
        gaps = runs.gap_lines(lab, self.trigger)
        lines = [*(line + last - 1 - gaps[-1] for line in gaps), last]
        hit = Access(last * lab.line_size)
        hits = [hit] if self.inner else [replace(hit, how="demote"), hit]
        visit = Visit((*runs.loads(lab, lines), *hits * E.hits), thrash=not self.inner, window=window)
        if self.inner:
            visit = replace(visit, demoted=tuple(sorted(lines)))
        alone = replace(visit, steps=visit.steps[len(lines) - 1 :])  # next lines may go over the page's end as well
        targets = tuple(runs.ahead(lines, 1, runs.R.near_targets, False))
        return Question(visit, targets, (alone,), inner=self.fills_l1)

    def start(self) -> list[int]:
        """The run that starts the stream: with gaps, so that nothing else takes part."""
        return (
            runs.near_lines(self.lab, self.trigger, self.down, (1, 1))
            if self.found.dense
            else self.low_run(self.trigger)
        )

    def seen(self, hits: Sequence[int]) -> Seen:
        """Lines ahead after the run that starts the stream, and after hits on lines so far ahead of its last one. Level
        2 hears of a hit if it has to. A count of one may be another prefetcher's where there is one of next lines."""
        lab, lines = self.lab, self.start()
        run = [*lines, *(runs.ahead(lines, off, off, self.down)[0] for off in hits)]
        counts: dict[int, int] = {}
        there: set[int] = set()
        for number in range(len(lines), len(run) + 1):
            if self.inner:
                visit = Visit(runs.loads(lab, run[:number]), demoted=() if self.found.dense else tuple(sorted(lines)))
            else:
                visit = runs.hit_visit(lab, lines, run[len(lines) : number], placed=False)
            reached = self._ahead(visit, run[:number], there | set(visit.warm))
            there.update(runs.ahead(run[:number], 1, reached or 0, self.down))
            if reached is not None and (reached > 1 or not self.beside):
                counts[number] = reached
            if reached is None or (
                len(set(hits)) == 1 and [counts.get(number - back) for back in (0, 1, 2)] == [reached] * 3
            ):
                break  # unclear, or hits bring no more
        return Seen(tuple(runs.mirrored(lab, run, self.down)), counts)

    def _ahead(self, visit: Visit, run: Sequence[int], there: set[int]) -> int | None:
        """Lines ahead of the run's last that are there without a gap; what came once stays."""
        for number in range(1, self.lab.page_lines):
            line = runs.ahead(run, number, number, self.down)[0]
            answers = 0 <= line < self.lab.page_lines and (line in there or line in run or self.comes(visit, line))
            if not answers:
                return None if answers is None else number - 1
        return None

    def fit(self) -> Fit:
        """The rules that explain hits on one line again and again, on line after line, and on line after line once hits
        on one bring no more, where the limit alone says when more comes. Where level 1 asks for the line behind each
        access only the first; only the second where level 2 may not hear of one line again and again."""
        lab, params, lines = self.lab, self.lab.params, self.start()
        room = lab.page_lines - 1 - runs.mirrored(lab, lines, self.down)[-1]
        heard = self.inner or lab.known.demotes
        seen = [self.seen([1] * params.repeats)] if heard else []
        if not lab.known.next_in_l1:
            seen.append(self.seen(range(1, min(params.lead_accesses, room - 1))))
        if not lab.known.next_in_l1 and heard:
            held = max(seen[0].ahead, default=len(lines)) - len(lines)
            seen.append(self.seen([*[1] * held, *range(2, min(2 + params.held_accesses, room - 1))]))
        return fit_stream(seen, lab.page_lines, [self.trigger])

    def hears_requests(self) -> Answer:
        """Whether a run's last access may be a request of level 1's next-line prefetcher: the line before it is in
        level 2 and is accessed, so that nothing else misses there. None where that stays unclear: a next-line
        prefetcher of level 2 brings the nearest line, and a stream perhaps no other."""
        lab, lines = self.lab, self.low_run(self.trigger)
        asking = lines[-1] - 1
        steps = runs.loads(lab, [*lines[:-1], asking])
        visit = Visit(steps, warm=runs.next_lines(lab, lines[:-1]), demoted=(asking,), thrash=True)
        targets = [line for line in runs.ahead(lines, 1, runs.R.near_targets, self.down) if line != asking]
        control = replace(visit, steps=steps[-1:])
        if lab.brings(control, targets[0]) is not False:
            return None
        return lab.ask(Question(visit, tuple(targets), (control,)))
