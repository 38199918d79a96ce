"""Stream prefetchers: lines ahead of accesses that go one way through a page.

A stream is found by a run with gaps, each by its own instruction and never equal in a row, whose neighbouring lines are
in level 1 already. For level 1 the run's lines are in level 2, so that level 2's streams, which wait for misses, see
none; for level 2 level 1 is made to forget the page between accesses. Some streams of level 1 follow neighbouring lines
only: a run of distances of one and two lines in turn, of which lines count that lie two or more ahead, are in level 1,
and come neither with the last access nor with the same lines in another order.

How many lines a stream fetches, how far ahead and by what is a comparison of rules (`models`) with the lines ahead
after each access of a run, and after hits on one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from setebench.experiments.visits import LAYOUT, Access, Visit, instruction

from .attributes import Found, directions, report_across_cores, report_fills, report_shared, report_trained_by
from .lab import Answer, Lab, Question
from .models import Fit, Seen, fit_stream
from .neighbours import even_line, report_crossing
from .report import UNCLEAR, Report
from .strides import DOWN_ONLY, kept_warm
from .tables import METHOD as TABLES
from .tables import History, first_that, report_replacement, size

RUN = "runs with gaps, seven accesses long at most"
DENSE = "a run of neighbouring lines, each by its own instruction"
RULES = "rules that explain how far ahead a run was after each access, and after hits on one line"
BY_NEXT_LINE = "accesses to one line that level 2 holds, so that level 1's next-line prefetcher alone misses there"
NO_TRIGGER = "the number of accesses that start it is not known; run again at a quieter time"
NOT_PLACED = "the lines of the run could not be kept in level 2 alone, nor the others in level 1"
NEAREST = "runs bring a line or two right ahead, nothing further by which a stream could be followed"
CONFLICTING = "the lines that push others out of level 1 do not fit into level 2, whose streams they may end"
ASKED_ALONG = (
    "level 1's next-line prefetcher asks for a line of its own with every access of a run; switch it off and run again"
)
LED_ON = "level 2's streams lead these on, and their table may be the smaller one; switch those off and run again"
OF_LEVEL_TWO = "prefetchers of level 2 may go on where this one stops; switch those off and run again"
NOT_WHOLE = "level 2 loses some of the lines that push others out of level 1, and their misses take entries too"
ONE_RUN = "two runs in one page could not be taken up again one by one; run again at a quieter time"
AT_END = "one access is enough at an end, for level 1's streams perhaps as well; switch those off and run again"
NO_RULE = "no rule explains how far ahead it was after each access ({seen}); look at the chart"
NOT_ONE = (
    "one request of level 1's next-line prefetcher does not start it, and more can't be made one by one; or it brings "
    "one line, as would a next-line prefetcher of level 2"
)


@dataclass(frozen=True, kw_only=True)
class Streams:
    """hits, hits_led_on: hits on the first line ahead by which a run is taken up again: a prefetcher of neighbouring
    lines may have brought what the first would; and where level 2 is a batch of its own ahead of level 1's streams.
    follow_up: hits of level 2 on the next line that draw lines further ahead. often: fraction of repetitions in which a
    lost line counts. amid: lines before a page's end at which the next lines of a run are still in the page.
    apart: lines between accesses that start at a page's edge, and of two runs in one page.
    near_targets: lines ahead that misses bring."""

    hits: int = 2
    hits_led_on: int = 6
    follow_up: int = 6
    often: float = 0.25
    amid: int = 8
    apart: int = 6
    page_apart: int = 3
    near_targets: int = 4


S = Streams()


# -- runs ------------------------------------------------------------------------------------------------------------


def gap_lines(lab: Lab, count: int, down: bool = False, end_odd: bool = True) -> list[int]:
    """`count` lines of a run that ends amid the page, on an odd or an even line."""
    lines = [lab.page_lines * 5 // 8 + 1]
    for number in range(count - 1):
        lines.insert(0, lines[0] - lab.params.gaps[number % 2])
    if down:
        lines = [lab.page_lines - 1 - line for line in lines]
    shift = int((lines[-1] % 2 == 1) != end_odd)
    return [line + shift for line in lines]


def near_lines(lab: Lab, count: int, down: bool, steps: tuple[int, int] = (1, 2)) -> list[int]:
    """`count` lines at these distances in turn, from near the page's end on the side that they come from."""
    lines = [lab.params.lead_from if steps == (1, 1) else lab.page_lines // 8]
    for number in range(count - 1):
        lines.append(lines[-1] + steps[number % 2])
    return [lab.page_lines - 1 - line for line in lines] if down else lines


def ahead(lines: Sequence[int], first: int, last: int, down: bool) -> list[int]:
    """The lines from `first` to `last` ahead of a run's last one."""
    return [lines[-1] + (-number if down else number) for number in range(first, last + 1)]


def loads(lab: Lab, lines: Iterable[int]) -> tuple[Access, ...]:
    """Accesses to these lines, each by its own instruction."""
    return tuple(Access(line * lab.line_size) for line in lines)


def next_lines(lab: Lab, lines: Sequence[int]) -> tuple[int, ...]:
    """Lines behind some lines, in order of address, in their page and not among them."""
    return tuple(sorted({line + 1 for line in lines if line + 1 < lab.page_lines} - set(lines)))


def l1_visit(lab: Lab, lines: list[int], down: bool) -> Visit:
    """Accesses that miss level 1 and hit level 2, then hits on the line behind the last one."""
    targets = ahead(lines, lab.params.drawn[0], 2 * S.near_targets, down)
    steps = loads(lab, [*lines, *ahead(lines, 1, 1, down) * lab.params.repeats])
    return Visit(steps, warm=kept_warm(lab, lines, targets), demoted=tuple(sorted(lines)))


def l2_visit(lab: Lab, lines: list[int]) -> Visit:
    """Accesses that miss every level, between which level 1 forgets the page; their next lines are in level 1, the last
    one's only where its next-line prefetcher asks each time, for it is what streams bring first."""
    silenced = next_lines(lab, lines if lab.known.next_in_l1 else lines[:-1])
    return Visit(loads(lab, lines), warm=silenced, thrash=True)


def hit_visit(lab: Lab, lines: list[int], hit: Sequence[int]) -> Visit:
    """A run of misses, then some lines, each pushed out of level 1 before, so that level 2 hears of it. Level 1's
    next-line prefetcher may ask for the line behind one that is hit again and again, and level 2's streams take that
    for an access one line further on; where it asks after every access, that goes for the run as well."""
    steps = list(loads(lab, lines))
    for line in hit:
        steps += [Access(line * lab.line_size, "demote"), Access(line * lab.line_size)]
    asking = [*lines, *hit] if lab.known.next_after_hits else []
    warm = {*next_lines(lab, asking), *(next_lines(lab, lines) if lab.known.next_in_l1 else ())}
    return Visit(tuple(steps), warm=tuple(sorted(warm)), thrash=True)


# -- presence --------------------------------------------------------------------------------------------------------


def l1_question(lab: Lab, lines: list[int], down: bool) -> Question:
    """Lines that come although level 2 sees only hits, and no next line can be asked for."""
    control = l1_visit(lab, lines[-1:], down)
    return Question(l1_visit(lab, lines, down), tuple(ahead(lines, *lab.params.drawn, down)), (control,))


def l2_questions(lab: Lab, lines: list[int], down: bool) -> list[Question]:
    """Lines ahead of a run of misses that the run's last access alone doesn't bring; and, as one access may bring the
    next line anyway, lines further ahead that hits of level 2 on that line bring."""
    single, following = l2_visit(lab, lines[-1:]), ahead(lines, 1, 1, down) * S.follow_up
    misses = Question(l2_visit(lab, lines), tuple(ahead(lines, 1, S.near_targets, down)), (single,))
    control = hit_visit(lab, lines[-1:], following)
    further = tuple(ahead(lines, *lab.params.drawn, down))
    return [misses, Question(hit_visit(lab, lines, following), further, (control,))]


def ask_l1(lab: Lab, lines: list[int], down: bool) -> tuple[Answer, Question]:
    """A short stream's lines may be among those that come anyway; where one access doesn't bring them, `_nearest_led`
    sees what a run brings without hits."""
    question = l1_question(lab, lines, down)
    answers = lab.ask(question)
    anyway = answers is False and lab.known.next_in_l1
    if anyway and any(lab.brings(question.controls[0], target) is not False for target in question.targets):
        answers = None
    return answers, question


def ask_l2(lab: Lab, lines: list[int], down: bool) -> tuple[Answer, Question]:
    """The second question only where the first says nothing of the next line."""
    first, second = l2_questions(lab, lines, down)
    answers = lab.ask(first)
    if answers or lab.brings(first.controls[0], first.targets[0]) is False:
        return answers, first
    return lab.ask(second), second


Ask = Callable[[Lab, list[int], bool], tuple[Answer, Question]]


def _shortest(lab: Lab, ask: Ask, end_even_down: bool) -> Found:
    """The shortest run that something streams ahead of. Every length is asked: an access that is no part of a stream
    ends it on some machines, so longer runs show less."""
    answers: list[Answer] = []
    for down in (False, True):
        for count in range(2, lab.params.longest_run + 1):
            lines = gap_lines(lab, count, down, end_odd=not (down and end_even_down))
            came, question = ask(lab, lines, down)
            answers.append(came)
            if came:
                return Found(True, question=question, down=down, trigger=count if None not in answers else None)
    return Found(None if None in answers else False)


def find_l1_stream(lab: Lab) -> Found:
    """The stream prefetcher of level 1: one that follows runs with gaps, or else one of neighbouring lines."""
    found = _shortest(lab, ask_l1, end_even_down=False)
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


def find_l2_stream(lab: Lab) -> Found:
    """Lines ahead of a run of misses."""
    found = _shortest(lab, ask_l2, end_even_down=True)
    if found.present is False and not lab.known.traversals_fit:
        found.present, found.reason = None, CONFLICTING
    return found


def _nearest_led(lab: Lab) -> bool:
    """Whether a run that level 2 holds surely brings one of the next two lines: a stream that goes no further shows
    nothing where others look ahead of a run, and what hits would draw, a next-line prefetcher brings as well. Neither
    the run's last access alone may bring the line nor those before it: where two accesses are enough for a stride
    prefetcher of level 2, it takes the last gap but one for a stride."""
    for down in (False, True):
        for count in range(2, lab.params.longest_run + 1):
            lines = gap_lines(lab, count, down)
            targets = tuple(ahead(lines, 1, 2, down))
            steps = loads(lab, lines)
            visit = Visit(steps, warm=kept_warm(lab, lines, targets), demoted=tuple(sorted(lines)))
            controls = (replace(visit, steps=steps[-1:]), replace(visit, steps=steps[:-1]))
            if lab.ask(Question(visit, targets, controls)):
                return True
    return False


def _placed(lab: Lab) -> bool:
    """Whether lines were where a run needs them: each of its own not in level 1 when its turn comes, what is hit
    afterwards in level 1. A region prefetcher brings back what the run's first access reminds it of."""
    lines = gap_lines(lab, 4)
    visit = l1_visit(lab, lines, False)
    own = [lab.rests_in_l1(visit, line, count) for count, line in enumerate(lines)]
    return own == [False] * len(lines) and lab.rests_in_l1(visit, lines[-1] + 1) is True


def dense_question(lab: Lab, lines: list[int], down: bool) -> Question:
    """Whether lines ahead of neighbouring ones come to level 1, and neither with the last access nor in another
    order."""
    params = lab.params
    orders = (lines[-1:], [*reversed(lines[:-1]), lines[-1]])
    controls = tuple(Visit(loads(lab, order)) for order in orders)
    return Question(Visit(loads(lab, lines)), tuple(ahead(lines, params.near, params.far, down)), controls, inner=True)


def _find_dense(lab: Lab) -> Found:
    """The shortest uneven run of near lines that is led in level 1."""
    longest, found = lab.params.dense_run, Found(dense=True)
    answers: list[Answer] = []
    for down in (False, True):
        asked = [dense_question(lab, near_lines(lab, count, down), down) for count in (longest, longest - 1)]
        led = [lab.ask(question) for question in asked]
        answers.append(True if all(led) else (None if None in led or True in led else False))
        if answers[-1]:
            found.present, found.down, found.question = True, down, asked[0]
            if not lab.known.next_in_l1:  # which would bring the next line as well
                counts = range(2, longest + 1)
                found.trigger = first_that(lambda count: lab.ask(_next_comes(lab, count, found.down)), counts)
            return found
    found.present = None if None in answers else False
    return found


def _next_comes(lab: Lab, count: int, down: bool) -> Question:
    lines = near_lines(lab, count, down, (1, 1))
    visit = Visit(loads(lab, lines))
    return Question(visit, tuple(ahead(lines, 1, 1, down)), (replace(visit, steps=visit.steps[-1:]),), inner=True)


def leads_anyway(lab: Lab) -> bool:
    """Whether a run of neighbouring lines, each by its own instruction, brings lines that its last access doesn't: with
    fences between the accesses, or ordered by their addresses alone."""
    for down in (False, True):
        lines = near_lines(lab, lab.params.dense_run, down, (1, 1))
        for chained in (False, True):
            visit = Visit(loads(lab, lines), chained=chained)
            control = replace(visit, steps=visit.steps[-1:])
            if lab.ask(Question(visit, tuple(ahead(lines, 3, 6, down)), (control,))):
                return True
    return False


# -- rules -----------------------------------------------------------------------------------------------------------


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
        return known.next_in_l1 or (not self.fills_l1 and (known.outer_next or known.pairs))

    @property
    def traversed(self) -> bool:
        """Whether level 1 must forget pages between accesses, or its own streams would go on in them."""
        return self.lab.known.inner_streams and not self.inner

    def comes(self, visit: Visit, target: int) -> Answer:
        """Whether the visit brings the target to the level that this prefetcher fills."""
        return self.lab.comes(visit, target, self.fills_l1)

    def low_run(self, count: int) -> list[int]:
        """A run of `count` accesses that ends as near to where it came from as it can, to leave room ahead."""
        lines = gap_lines(self.lab, count)
        shift = (lines[0] - 2) // 2 * 2
        lines = [line - shift for line in lines]
        return [self.lab.page_lines - 1 - line for line in lines] if self.down else lines

    def starts(self, lines: list[int], down: bool) -> Answer:
        """Whether a run of these lines starts a stream. The control is amid the page, where one access starts none."""
        lab = self.lab
        ask = ask_l1 if self.inner else ask_l2
        amid = gap_lines(lab, 1, down, end_odd=self.inner or lines[-1] % 2 == 1)
        answers: list[Answer] = []
        asked = [l1_question(lab, lines, down)] if self.inner else l2_questions(lab, lines, down)
        alone = [l1_question(lab, amid, down)] if self.inner else l2_questions(lab, amid, down)
        if len(lines) > 1 and lines[0] not in (0, 1, lab.page_lines - 2, lab.page_lines - 1):
            return ask(lab, lines, down)[0]
        for question, control in zip(asked, alone, strict=True):
            pairs = zip(question.targets, control.targets, strict=True)
            free = tuple(t for t, c in pairs if lab.brings(control.visit, c) is False)
            answers.append(lab.ask(replace(question, targets=free, controls=())) if free else None)
            if answers[-1] or len(free) == len(question.targets):
                break
        return answers[-1]

    def trigger_from(self, start: int, down: bool) -> int | None:
        """Accesses that a run needs which starts at this line."""

        def starts(count: int) -> Answer:
            lines = [start]
            for number in range(count - 1):
                lines.append(lines[-1] + (-1 if down else 1) * (S.apart + number % 2))
            return self.starts(lines, down)

        return first_that(starts, range(1, self.trigger + 1))

    def crosses(self, lab: Lab) -> Answer:
        """Whether a stream that runs upwards at a page's end goes on in the next page of `lab`'s memory. What remembers
        regions may bring the run's last lines to level 1 before their turn, so where there is such a prefetcher the
        same run must be led amid the page, or nothing follows from its end."""
        last = lab.page_lines - 1
        answers = self._led_behind(lab, last)
        if answers is False and (self.found.dense or (self.inner and lab.known.forget)):
            return answers if self._led_behind(lab, last - S.amid) is True else None
        return answers

    def _led_behind(self, lab: Lab, last: int) -> Answer:
        """Whether an upward run that ends on line `last` is led beyond it."""
        window = (0, 2 * lab.page_lines)
        if self.found.dense:
            lines = [last - 1 - number for number in reversed(range(lab.params.dense_run))]
            visit = Visit(loads(lab, lines), window=window)
            control = replace(visit, steps=visit.steps[-1:])
            return lab.ask(Question(visit, (last + 1, last + 2, last + 3), (control,), inner=True))
        gaps = gap_lines(lab, self.trigger)
        lines = [*(line + last - 2 - gaps[-1] for line in gaps), last - 1, last]
        hit = Access(last * lab.line_size)
        hits = [hit] if self.inner else [replace(hit, how="demote"), hit]
        visit = Visit((*loads(lab, lines), *hits * 3), thrash=not self.inner, window=window)
        if self.inner:
            visit = replace(visit, demoted=tuple(sorted(lines)))
        targets = tuple(last + number for number in range(1, S.near_targets + 1))
        return lab.ask(Question(visit, targets, inner=self.fills_l1))

    # -- how far it leads ----------------------------------------------------------------------------------------

    def start(self) -> list[int]:
        """The run that starts the stream: with gaps, so that nothing else takes part."""
        return near_lines(self.lab, self.trigger, self.down, (1, 1)) if self.found.dense else self.low_run(self.trigger)

    def seen(self, hits: Sequence[int]) -> Seen:
        """Lines ahead after the run that starts the stream, and after hits on lines so far ahead of its last one. Level
        2 hears of a hit if it has to. A count of one may be another prefetcher's where there is one of next lines."""
        lab, lines = self.lab, self.start()
        run = [*lines, *(ahead(lines, off, off, self.down)[0] for off in hits)]
        counts: dict[int, int] = {}
        there: set[int] = set()
        for number in range(len(lines), len(run) + 1):
            if self.inner:
                visit = Visit(loads(lab, run[:number]), demoted=() if self.found.dense else tuple(sorted(lines)))
            else:
                visit = hit_visit(lab, lines, run[len(lines) : number])
            reached = self._ahead(visit, run[:number], there | set(visit.warm))
            there.update(ahead(run[:number], 1, reached or 0, self.down))
            if reached is not None and (reached > 1 or not self.beside):
                counts[number] = reached
            if reached is None or (
                len(set(hits)) == 1 and [counts.get(number - back) for back in (0, 1, 2)] == [reached] * 3
            ):
                break  # unclear, or hits bring no more
        return Seen(tuple(lab.page_lines - 1 - line for line in run) if self.down else tuple(run), counts)

    def _ahead(self, visit: Visit, run: Sequence[int], there: set[int]) -> int | None:
        """Lines ahead of the run's last that are there without a gap; what came once stays."""
        for number in range(1, self.lab.page_lines):
            line = ahead(run, number, number, self.down)[0]
            answers = 0 <= line < self.lab.page_lines and (line in there or line in run or self.comes(visit, line))
            if not answers:
                return None if answers is None else number - 1
        return None

    def fit(self) -> Fit:
        """The rules that explain hits on one line again and again, on line after line, and on line after line once hits
        on one bring no more, where the limit alone says when more comes. Where level 1 asks for the line behind each
        access only the first."""
        lab, params, lines = self.lab, self.lab.params, self.start()
        room = lab.page_lines - 1 - (lines[-1] if not self.down else lab.page_lines - 1 - lines[-1])
        runs = [self.seen([1] * params.repeats)]
        if not lab.known.next_in_l1:
            runs.append(self.seen(range(1, min(params.lead_accesses, room - 1))))
            held = max(runs[0].ahead, default=len(lines)) - len(lines)
            runs.append(self.seen([*[1] * held, *range(2, min(2 + params.held_accesses, room - 1))]))
        return fit_stream(runs, lab.page_lines, [self.trigger])

    # -- tables ----------------------------------------------------------------------------------------------------

    def at_start(self) -> int | None:
        """Lines ahead of a run's last that are there when the run has just started the stream."""
        return self.seen(()).ahead.get(self.trigger)

    def begun(self, lines: list[int], pages: Sequence[int]) -> list[Access]:
        """Runs of these lines in some pages, one after the other.

        Line by line where a region prefetcher has seen some whole runs: it brings the lines of further ones to level 1
        with their first access, and level 2 hears of the last alone, which it may take for another run. Instructions of
        their own, but those of a run, or each line would be made known to region prefetchers by all."""
        size_ = self.lab.line_size
        if not (self.traversed or self.lab.known.forget):
            return [Access(line * size_, page=page) for page in pages for line in lines]
        steps: list[Access] = []
        for number, line in enumerate(lines):
            ips = [instruction(run * len(lines) + number) for run in range(len(pages))]
            steps += [Access(line * size_, ip=ip, page=page) for ip, page in zip(ips, pages, strict=True)]
            if self.traversed and pages:
                steps.append(Access(0, "thrash"))
        return steps

    def first_hits(self, lines: list[int]) -> list[Access]:
        """Hits on the first line ahead of a run, in the visited page, by which it goes on. Where one is enough nothing
        is pushed out of level 1: next to so many pages, level 2 may not hold what does that."""
        if self.led_on or self.lab.known.next_in_l1:
            return self.taken_up(lines, self.down, S.hits_led_on if self.led_on else S.hits)
        return list(loads(self.lab, ahead(lines, 1, 1, self.down)))

    def taken_up(self, lines: list[int], down: bool, times: int) -> list[Access]:
        """Hits on the first line ahead of a run, which level 2 hears of if it has to."""
        at = ahead(lines, 1, 1, down)[0] * self.lab.line_size
        return ([Access(at)] if self.inner else [Access(at, "demote"), Access(at)]) * times

    def _visit_with(self, steps: list[Access], visited: list[int], hit: Sequence[int] = ()) -> Visit:
        """The visit that makes these steps, of which some hit the lines `hit` and others visit the lines `visited`. A
        next-line prefetcher of level 1 must not ask for the line behind one that is hit."""
        if self.inner:
            return Visit(tuple(steps), demoted=tuple(sorted(visited)))
        warm = next_lines(self.lab, list(hit)) if self.lab.known.next_after_hits else ()
        return Visit(tuple(steps), warm=tuple(line for line in warm if line not in visited))

    def goes_on(self, history: History) -> Answer:
        """Whether the asked run of a table, one page each, goes on with hits on the first line ahead."""
        if self.found.dense:
            lines = near_lines(self.lab, self.trigger + 1, self.down, (1, 1))
            steps = history.in_pages(lines[:-1], lines[-1:], self.lab.line_size)
            return self.lab.in_l1(Visit(steps), ahead(lines, 2, 2, self.down)[0])
        lines, before = self.low_run(self.trigger), self.at_start()
        if before is None:
            return None
        further = before + (S.hits if self.lab.known.next_in_l1 or self.led_on else 1)

        def begin(runs: Sequence[int]) -> list[Access]:
            return self.begun(lines, [history.page(run) for run in runs]) if runs else []

        def use(runs: Sequence[int]) -> list[Access]:
            # what pushes a line out of level 1 does so in all pages at once
            return [
                each
                for hit in self.first_hits(lines)
                for each in ([hit] if hit.how == "demote" else [replace(hit, page=history.page(run)) for run in runs])
            ]

        hit = ahead(lines, 1, 1, self.down) if self.lab.known.next_in_l1 else ()
        visit = self._visit_with(history.steps(begin, use), lines, hit)
        return self.comes(visit, ahead(lines, further, further, self.down)[0])

    def entries(self) -> int | None:
        """How many runs, each in a page of its own, are remembered at once. None where lines that push others out of
        level 1 were lost by level 2, for then their misses, not the runs, may have taken the entries."""
        if self.traversed and not self.lab.known.traversals_fit:
            return None
        entries = size(lambda runs: self.goes_on(History(runs)), self.lab.params.most_entries)
        lines = self.low_run(self.trigger)
        hits = self.first_hits(lines)
        if entries is None or self.inner or hits[0].how != "demote":
            return entries
        steps = [*self.begun(lines, range(entries + 1)), hits[0]]
        visit = self._visit_with(steps, lines, ahead(lines, 1, 1, self.down))
        return None if self.lab.lost(visit, hits[0].at // self.lab.line_size) > S.often else entries

    def per_page(self, ways: str) -> int | None:
        """How many of two runs in one page are remembered at once: one each way where both are followed, else both
        alike. A run that isn't taken up again says that the other one took its place only if it is taken up where it is
        alone: a stream that already is as far ahead as it goes answers no hit on its first line."""
        before, lab = self.at_start(), self.lab
        if before is None:
            return None
        first, second = self._page_runs(ways)
        turns = list(loads(lab, _in_turn(first[0], second[0])))
        following = [ahead(lines, 1, 1, down)[0] for lines, down in (first, second)]
        hits = S.hits_led_on if self.led_on else S.hits
        answers = []
        for run, steps in ((first, turns), (second, [*turns, *self.taken_up(*first, 1)])):
            target = ahead(run[0], before + S.hits, before + S.hits, run[1])[0]
            if not 0 <= target < lab.page_lines:
                return None
            for trained in (steps, list(loads(lab, run[0]))):
                visit = self._visit_with([*trained, *self.taken_up(*run, hits)], [*first[0], *second[0]], following)
                answers.append(self.comes(replace(visit, thrash=not self.inner), target))
        together, alone = answers[::2], answers[1::2]
        if None in together or alone != [True, True]:
            return None
        # lines that a traversal misses take entries, and with another run there are more traversals between accesses
        return 2 if all(together) else 1 if self.inner or lab.known.traversals_fit else None

    def _page_runs(self, ways: str) -> tuple[tuple[list[int], bool], tuple[list[int], bool]]:
        """Two runs in one page, of which the second lies behind the first, seen the way that the first goes."""
        half, last = self.lab.page_lines // 2, self.lab.page_lines - 1

        def upwards(first: int) -> list[int]:  # ends on an odd line, so that a line pair lies behind its end
            lines = [first + S.page_apart * number for number in range(self.trigger)]
            return [line + 1 - lines[-1] % 2 for line in lines]

        far = upwards(half + 2 if ways == "both" else half + S.apart)
        near = far if ways == "both" else upwards(2)
        mirrored = [last - line for line in near]
        if ways == "both":
            return (far, False), (mirrored, True)
        if ways == "up":
            return (far, False), (near, False)
        return ([last - line for line in far], True), (mirrored, True)

    # -- requests of level 1 -----------------------------------------------------------------------------------------

    def hears_requests(self) -> Answer:
        """Whether a run's last access may be a request of level 1's next-line prefetcher: the line before it is in
        level 2 and is accessed, so that nothing else misses there. None where that stays unclear: a next-line
        prefetcher of level 2 brings the nearest line, and a stream perhaps no other."""
        lab, lines = self.lab, self.low_run(self.trigger)
        asking = lines[-1] - 1
        steps = loads(lab, [*lines[:-1], asking])
        visit = Visit(steps, warm=next_lines(lab, lines[:-1]), demoted=(asking,), thrash=True)
        targets = [line for line in ahead(lines, 1, S.near_targets, self.down) if line != asking]
        control = replace(visit, steps=steps[-1:])
        if lab.brings(control, targets[0]) is not False:
            return None
        return lab.ask(Question(visit, tuple(targets), (control,)))

    def report_waking(self, report: Report) -> None:
        """Whether one request of level 1's next-line prefetcher starts a stream (Fang et al. 2014, Table VI); nothing
        where there is no such prefetcher, or its rules are not known. The line is even and the next one odd, so that no
        line pair reaches beyond them. The control has the next line in level 1 already, so that nothing is asked for.
        Where level 2 may have a next-line prefetcher the line behind the one that is asked for says nothing, nor does a
        further one that an access to that one brings."""
        lab, name, size = self.lab, "trigger_by_l1_prefetcher", self.lab.line_size
        if lab.known.next_repeats is None:
            return
        if lab.known.next_counts_misses and lab.known.next_repeats > 1:
            report.unresolved(name, "what would push the line out each time has its own lines watched")
            return
        line = even_line(lab)
        asking = Visit((Access(line * size),) * lab.known.next_repeats, demoted=(line,))
        targets: tuple[int, ...] = (line + 2, line + 3)
        controls: tuple[Visit, ...] = (replace(asking, warm=(line + 1,)),)
        if lab.known.outer_next:
            targets, controls = targets[1:], (*controls, Visit((Access((line + 1) * size),), warm=(line + 2,)))
        woken = lab.ask(Question(asking, targets, controls))
        why = NOT_ONE if woken is False else f"lines ahead come without the request, or {UNCLEAR}"
        report.value(name, 1 if woken else None, BY_NEXT_LINE, why)


def _in_turn(first: list[int], second: list[int]) -> list[int]:
    """Accesses of two runs in turn, the first one access ahead: it then has its direction before the other begins, and
    a prefetcher may take what lies further on for its own, but nothing behind it. The second one ends last, so what
    only follows the latest run has lost the first."""
    lines = first[:2]
    for number, line in enumerate(second):
        lines += [line, *first[number + 2 : number + 3]]
    return lines


# -- findings --------------------------------------------------------------------------------------------------------


def report_stream(lab: Lab, huge: Lab | None, found: Found, inner: bool, report: Report) -> None:
    """Ask and report everything of a stream prefetcher that is there."""
    report.value("trigger", found.trigger, DENSE if found.dense else RUN, UNCLEAR)
    needed = ("degree", "max_distance", "streams", "replacement")
    if found.trigger is None or found.question is None:
        for parameter in needed:
            report.unresolved(parameter, NO_TRIGGER)
        return
    rules, trigger = Rules(lab, found, inner), found.trigger
    heard = ASKED_ALONG if rules.asked_along else ""
    if not found.dense:
        report_trained_by(lab, found.question, lab.page_lines - 2, report, heard)
    rules.fills_l1 = report_fills(lab, found.question, report) == "l1"
    ways = _ways(rules)
    report.value("directions", ways, RUN, UNCLEAR)
    if not found.dense:
        _report_edges(rules, ways, report)
    report_reach(rules, report)
    if rules.asked_along:
        for parameter in ("streams", "replacement", "streams_per_page"):
            report.unresolved(parameter, ASKED_ALONG)
    else:
        _report_tables(rules, ways, report)
    if not inner:
        rules.report_waking(report)
    first = min(trigger, len(found.question.visit.steps)) - 1 if not found.dense else lab.params.dense_run - 1
    report_shared(lab, found.question, first, report)
    report_across_cores(lab, found.question, first, report)
    if found.down and ways == "down":
        report.unresolved("crosses_4k", DOWN_ONLY)
    else:
        report_crossing(rules.crosses, lab, huge, "a run to the end of a page", report)


def _ways(rules: Rules) -> str | None:
    """Both ways are asked with the accesses that one way took; a way that is unclear leaves it open."""
    lab, found = rules.lab, rules.found
    if found.dense:
        longest = lab.params.dense_run
        return directions(
            {down: lab.ask(dense_question(lab, near_lines(lab, longest, down), down)) for down in (False, True)}
        )
    answers = {}
    for down in (False, True):
        answers[down] = rules.starts(gap_lines(lab, rules.trigger, down, end_odd=not down), down)
        if answers[down] and down is not found.down and lab.known.others_learn and not rules.fills_l1:
            answers[down] = None  # only one way was held against runs that were never made before
    return directions(answers)


def _report_edges(rules: Rules, ways: str | None, report: Report) -> None:
    lab, last, trigger, name = rules.lab, rules.lab.page_lines - 1, rules.trigger, "trigger_at_page_edge"
    if ways is None:
        report.unresolved(name, "the directions are not known, see there")
        return
    followed = {"up": (False,), "down": (True,), "both": (False, True)}[ways]
    asked = ((0, False), (1, False), (last - 1, True), (last, True))
    edges = [rules.trigger_from(line, down) if down in followed else trigger for line, down in asked]
    if rules.inner and None not in edges:
        lab.known.inner_starts_at_ends = 1 in edges
    unlike = any(edge not in (None, trigger) for edge in edges)
    if 1 in edges and not rules.inner and lab.known.inner_streams and lab.known.inner_starts_at_ends:
        report.unresolved(name, AT_END)
    elif unlike and rules.led_on:
        report.unresolved(name, "level 2's streams may start at a page's ends; switch those off and run again")
    else:
        report.value(name, None if None in edges else list(edges), "runs from a page's ends", UNCLEAR)


def report_reach(rules: Rules, report: Report) -> None:
    """Degree, distance, what leads it and the lead itself, from the rules that explain what was seen."""
    names = ("degree", "max_distance", "leads_by", "lead")
    if rules.led_on or rules.asked_along:
        for name in names:
            report.unresolved(name, OF_LEVEL_TWO if rules.led_on else ASKED_ALONG, RULES)
        return
    fit = rules.found.fit or rules.fit()
    if not fit.fits:
        for name in names:
            report.unresolved(name, NO_RULE.format(seen=f"{fit.unexplained:.0%} of the counts differ"), RULES)
        return
    degrees, modes = fit.values("degree"), fit.values("leads_by")
    distances = [int(each) for each in fit.values("distance")]
    if len(degrees) == 1:
        report.value("degree", degrees[0], RULES, "")
    else:
        report.at_least("degree", int(degrees[0]), RULES, "the limit holds it back, and may cut larger batches")
    furthest = max(distances)
    if len(distances) == 1:
        report.value("max_distance", furthest, RULES, "", (furthest, furthest))
    else:
        why = f"rules with distances up to {furthest} explain the same"
        report.at_least("max_distance", distances[0], RULES, why)
    report.value("leads_by", modes[0] if len(modes) == 1 else None, RULES, f"{' or '.join(map(str, modes))}")
    params = rules.lab.params
    canonical = [params.lead_from + number for number in range(params.lead_accesses)]
    report.value("lead", fit.lead(canonical, rules.lab.page_lines), RULES, "the rules that fit differ in it")


def _report_tables(rules: Rules, ways: str | None, report: Report) -> None:
    """How many streams there are at once, in all and in one page, and which of them is given up."""
    lab = rules.lab
    entries = rules.entries()
    pushed_out = rules.traversed or (lab.known.next_in_l1 and not rules.inner)
    bound = LED_ON if rules.led_on else NOT_WHOLE if pushed_out and not lab.known.traversals_whole else ""
    if entries is not None and bound:
        report.at_least("streams", entries, TABLES, bound)
        report.unresolved("replacement", bound)
    else:
        report.value("streams", entries, TABLES, UNCLEAR)
        report_replacement(rules.goes_on, entries, report, LAYOUT.block_pages - 2)
    if ways is None or rules.found.dense:
        return
    runs, method = rules.per_page(ways), "two runs in turn in one page"
    if runs == 2:
        report.at_least("streams_per_page", runs, method, "more runs in one page were not asked")
    else:
        report.value("streams_per_page", runs, method, ONE_RUN)
