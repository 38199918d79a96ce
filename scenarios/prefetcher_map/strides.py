"""Stride prefetchers: equal distances between accesses of one instruction (level 1) or of one page (level 2).

By instruction: the same accesses from as many instructions are the control. By page: streams and next-line prefetchers
bring lines ahead of such a run too, so every line of the page but the run's own and those in question is in level 1
already, accesses come from as many instructions, and the control has uneven distances and the same last access.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from setebench.experiments.visits import PAGE_BYTES, Access, Visit, instruction

from .attributes import Found, directions, report_across_cores, report_fills, report_shared, report_trained_by
from .lab import Answer, Lab, Question
from .models import stride_lead
from .neighbours import report_crossing
from .report import LEVEL_UNCLEAR, UNCLEAR, Report
from .tables import (
    FAR_BITS_MATTER,
    History,
    bits_that_matter,
    edge,
    first_that,
    others_first,
    report_replacement,
    report_table,
    size,
)
from .tables import METHOD as TABLE

SAME = 0x152B
"""An instruction address that accesses share, unlike those of other accesses of a visit in its low six bits."""

FENCES = (
    "it shows where addresses order the accesses, not where fences do: look at a pointer chase with equal distances"
)
LED = "streams or next-line prefetchers bring the lines in question as well; switch those off and run again"
NOT_APART = "what distinguishes runs of several pages did not show, as not even two were followed at once for sure"
HEARD = (
    "level 1's next-line prefetcher asks for lines of its own with a run's accesses, as level 1 can't hold all other "
    "lines of the page; switch it off and run again"
)
SHORT_LED = (
    "distances of three lines are led, of seven not: a stride prefetcher that follows short ones alone, or streams; "
    "switch those off and run again"
)
REACH = "strides ahead after the first triggering access, and after many"
GROWING = "runs of growing stride"
DOWN_ONLY = "it runs downwards only, which is not asked at the page's end"


@dataclass(frozen=True, kw_only=True)
class Strides:
    """access_bytes: of one load. reach, short_reach: lines apart; what streams bring reaches as many lines, not as many
    strides, at each. page_reach: in this order: what lies further apart than a batch is led by strides alone.
    settled: accesses behind the first that prefetches, after which a distance has settled.
    beside: lines before a run's first, for those of its control, where there is space. few: accesses of a run that
    begins there. instructions: runs of instruction addresses that differ in their low six bits.
    anchor: lines from the page's middle to that loaded before software prefetches. small: strides in bytes."""

    access_bytes: int = 8
    reach: tuple[int, ...] = (3, 5)
    short_reach: tuple[int, ...] = (2, 3)
    page_reach: tuple[int, ...] = (7, 5, 3)
    settled: tuple[int, ...] = (5, 6, 7)
    beside: int = 12
    few: int = 5
    instructions: int = 62
    most_entries: int = 60
    anchor: int = 13


S = Strides()


def kept_warm(lab: Lab, *apart: Iterable[int]) -> tuple[int, ...]:
    """All lines of the page but these: in level 1 already, they silence whatever asks for them."""
    left_out = {line for lines in apart for line in lines}
    return tuple(line for line in range(lab.page_lines) if line not in left_out)


def run_lines(lab: Lab, stride: int, down: bool, count: int = 0, start: int | None = None) -> list[int]:
    """Lines of a run, upwards or downwards."""
    first = lab.params.start if start is None else start
    lines = [first + stride * number for number in range(count or lab.params.stride_run)]
    return [lab.page_lines - 1 - line for line in lines] if down else lines


class Rules(ABC):
    """What is asked alike of both kinds. A run has `count` accesses `stride` lines apart."""

    method = "equal distances"

    def __init__(self, lab: Lab, found: Found) -> None:
        self.lab, self.found, self.trigger = lab, found, found.trigger or 0
        self.inner = False

    @abstractmethod
    def question(self, count: int, stride: int, down: bool | None = None) -> Question:
        """Whether the line behind a run comes, and not with the control."""

    @abstractmethod
    def ahead(self, count: int, stride: int) -> int | None:
        """How many strides ahead lines are there after `count` accesses."""

    @abstractmethod
    def goes_on(self, history: History) -> Answer:
        """Whether the asked run of a table goes on."""

    def report_run(self, report: Report) -> None:
        """Directions, kinds of access, the level filled, and whether threads, or cores, share it."""
        found, lab = self.found, self.lab
        ways = {down: lab.ask(self.question(self.trigger, found.stride, down)) for down in (False, True)}
        report.value("directions", directions(ways), self.method, UNCLEAR)
        question = self.question(self.trigger, found.stride)
        report_trained_by(lab, question, lab.page_lines // 2 + S.anchor, report)
        report_fills(lab, question, report)
        report_shared(lab, question, len(question.visit.steps) - 1, report)
        report_across_cores(lab, question, len(question.visit.steps) - 1, report)

    def report_reach(self, degree: int | None, settled: int | None, report: Report) -> None:
        """Degree and distance: a prefetcher that fetches one stride at a time never gets ahead, so no limit shows."""
        report.value("degree", degree or None, REACH, LED)
        if degree == settled == 1:
            report.at_least("max_distance", 1, REACH, "it never runs further ahead, so no limit shows")
        else:
            why = f"it does not settle at one distance within the page, or {LED}; look at the chart"
            report.value("max_distance", settled or None, REACH, why)

    def report_lead(self, degree: int | None, settled: int | None, next_led: Answer, report: Report) -> None:
        """Lines ahead of a run of neighbouring lines, where those are followed (`next_led`)."""
        params, known = self.lab.params, degree and settled and next_led
        accesses = min(params.lead_accesses, self.lab.page_lines - params.lead_from)
        lead = stride_lead(self.trigger, degree, settled, accesses) if known and degree and settled else None
        report.value("lead", lead, REACH, "its degree, its distance or whether it follows next lines is not known")

    def report_max_stride(self, largest: tuple[int, bool] | None, report: Report) -> None:
        """`largest`: bytes of the largest stride followed, and whether a larger one was seen not to be."""
        if largest is None:
            report.unresolved("max_stride", LED, GROWING)
        elif largest[1]:
            within = (largest[0], largest[0] + self.lab.line_size - 1)
            report.value("max_stride", largest[0], GROWING, "", within)
        else:
            report.at_least("max_stride", largest[0], GROWING, "no larger stride was asked")


# -- by instruction --------------------------------------------------------------------------------------------------


def find_l1_stride(lab: Lab) -> Found:
    """Equal distances of one instruction against the same from as many instructions."""
    found, params = Found(), lab.params
    answers: list[Answer] = []
    wide, narrow = params.stride, params.short_stride
    for stride, down, warm in ((wide, False, True), (wide, False, False), (narrow, False, True), (wide, True, True)):
        question = _by_instruction(lab, run_lines(lab, stride, down), warm)
        answers.append(lab.ask(question))
        if answers[-1] is None and lab.brings(question.controls[0], question.targets[0]):
            question = replace(question, inner=True)  # something else brings it as well, perhaps to another level
            answers[-1] = lab.ask(question)
        if answers[-1]:
            return Found(True, question=question, warm=warm, stride=stride, down=down)
    found.present = None if None in answers else False
    if found.present is False:
        chained = _by_instruction(lab, run_lines(lab, wide, False), False)
        visits = tuple(replace(each, chained=True) for each in (chained.visit, *chained.controls))
        if lab.ask(replace(chained, visit=visits[0], controls=visits[1:])):
            found.present, found.reason = None, FENCES
    return found


def _by_instruction(lab: Lab, lines: list[int], warm: bool) -> Question:
    steps = tuple(Access(line * lab.line_size, ip=SAME) for line in lines)
    visit = Visit(steps, warm=tuple(sorted(lines)) if warm else ())
    return Question(visit, (2 * lines[-1] - lines[-2],), (_own_instructions(visit),))


def _own_instructions(visit: Visit) -> Visit:
    return replace(visit, steps=tuple(replace(access, ip=None) for access in visit.steps))


class InstructionRules(Rules):
    """A stride prefetcher of level 1."""

    def at(self, places: Sequence[int], ips: Sequence[int] | None = None) -> Visit:
        """Accesses to these bytes of the page, by one instruction or by those given."""
        chosen = [SAME] * len(places) if ips is None else ips
        steps = tuple(Access(place, ip=ip) for place, ip in zip(places, chosen, strict=True))
        inside = {place // self.lab.line_size for place in places if 0 <= place < PAGE_BYTES}
        return Visit(steps, warm=tuple(sorted(inside)) if self.found.warm else ())

    def run(self, count: int, stride: int, down: bool | None, start: int | None = None) -> tuple[Visit, int, int]:
        """The visit, its last line, and the step."""
        lines = run_lines(self.lab, stride, self.found.down if down is None else down, count, start)
        return self.at([line * self.lab.line_size for line in lines]), lines[-1], lines[-1] - lines[-2]

    def question(self, count: int, stride: int, down: bool | None = None) -> Question:
        visit, last, step = self.run(count, stride, down)
        return Question(visit, (last + step,), (_own_instructions(visit),), self.inner)

    def find_trigger(self) -> int | None:
        """Accesses before the first prefetch. Some count hits of level 1 only now and then, so misses are asked as well
        (and alone from then on, where they need fewer)."""

        def shortest() -> int | None:
            counts = range(2, self.lab.params.most_trigger + 1)
            return first_that(lambda count: self.lab.ask(self.question(count, self.found.stride)), counts)

        hits = shortest()
        if self.found.warm:
            self.found.warm = False
            misses = shortest()
            self.found.warm = misses is None or (hits is not None and hits <= misses)
            return hits if self.found.warm else misses
        return hits

    def ahead(self, count: int, stride: int) -> int | None:
        """None where lines beside the edge come now and then: some CPUs bring lines to level 1, or only to level 2, as
        they find room."""
        lab, inside = self.lab, range(self.lab.page_lines)
        visit, last, step = self.run(count, stride, None, start=1)
        for number in range(1, lab.params.most_ahead + 1):
            target = last + number * step
            answers = lab.comes(visit, target, self.inner) if target in inside else None
            if answers is None:
                return None
            if not answers:
                asked = [(target - step, True)] if number > 1 else []
                asked += [(line, False) for line in (target, target + step) if line in inside]
                plain = all(lab.plainly(visit, line, self.inner) is there for line, there in asked)
                return number - 1 if plain else None
        return None

    def reach(self) -> tuple[int | None, int | None]:
        """(strides that the first triggering access brings, at two distances alike; strides ahead after many accesses,
        where the former are known)."""
        strides = S.reach if self.found.stride >= max(S.reach) else S.short_reach
        firsts = {self.ahead(self.trigger, stride) for stride in strides}
        first = firsts.pop() if len(firsts) == 1 else None
        if first is None:
            return None, None
        later = {self.ahead(self.trigger + more, self.lab.params.short_stride) for more in S.settled}
        return first, later.pop() if len(later) == 1 else None

    def followed(self, stride: int, down: bool = False) -> Answer:
        """Whether a stride of so many bytes is followed: the line of the next access, unlike with many instructions."""
        size, count = self.lab.line_size, self.trigger
        last = self._last_place(stride)
        places = [last - stride * (count - 1 - number) for number in range(count)]
        if any(place % size > size - S.access_bytes for place in places):
            return None
        following = last + stride
        if down:  # the same seen from the page's end
            places = [PAGE_BYTES - S.access_bytes - place for place in places]
            following = PAGE_BYTES - S.access_bytes - following
        others = self.at(places, [instruction(number) for number in range(count)])
        if self.lab.brings(others, following // size) is not False:
            return None
        return self.lab.comes(self.at(places), following // size, self.inner)

    def _last_place(self, stride: int) -> int:
        """Byte of the last access of a run: amid the page where it fits, and so near to its line's end that the next
        access is in another line."""
        size, span, access = self.lab.line_size, stride * self.trigger, S.access_bytes
        last = 0
        if span <= PAGE_BYTES - 2 * size:
            last = PAGE_BYTES // 2 + span // 2 // size * size - stride
        elif stride < PAGE_BYTES:
            last = access
        last = last // size * size
        if stride < size:
            return last + (size - access if stride % access == 0 else size - stride)
        if size < stride < size + access:  # so far that no access before it crosses into another line
            return last + (stride - size) * self.trigger
        return last

    def largest(self, in_page: bool) -> tuple[int, bool] | None:
        """In steps of a line. `in_page`: runs are only followed within a page, so larger strides can't be asked."""
        size = self.lab.line_size
        low, high = self.found.stride, PAGE_BYTES // size - 1
        if in_page:
            high = (PAGE_BYTES - 2 * size) // self.trigger // size
        if self.followed(low * size) is not True:
            return None
        if self.followed(high * size):
            return high * size, False
        found = edge(lambda lines: self.followed(lines * size), low, high)
        return None if found is None else (found * size, True)

    def smallest(self, down: bool) -> tuple[int, int] | None:
        """(least, largest) bytes that the smallest stride followed may have, asked upwards or downwards: what brings
        next lines disturbs upwards alone."""
        size, access = self.lab.line_size, S.access_bytes
        few = (access, 2 * access, 3 * access)
        strides = (*few, size // 2, size // 2 + access, size - access, size, size + access)
        known = {stride: self.followed(stride, down) for stride in strides}
        followed = [stride for stride, answers in known.items() if answers]
        if None in known.values() or not followed or not all(known[s] for s in strides if s > followed[0]):
            return None
        if not (missed := [stride for stride, answers in known.items() if not answers]):
            return 1, followed[0]
        below = edge(lambda b: None if (t := self.followed(b, down)) is None else not t, missed[-1], followed[0])
        return None if below is None else (below + 1, below + 1)

    def indexed_by(self) -> str | None:
        """Whether a run goes on into the next page: the last access lies there, so that nothing has to be fetched
        across the boundary."""
        stride = self.found.stride
        last = self.lab.page_lines + min(4, stride - 1)
        visit, target = self._over_the_end(self.lab, last, self.trigger)
        answers = self.lab.brings(visit, target)
        return None if answers is None else ("ip" if answers else "ip+page")

    def _over_the_end(self, lab: Lab, last: int, count: int) -> tuple[Visit, int]:
        """A run that ends on `last`, in two pages, and the line behind it; downwards seen from the second one's end."""
        lines = [last - self.found.stride * (count - 1 - number) for number in range(count + 1)]
        if self.found.down:
            lines = [2 * lab.page_lines - 1 - line for line in lines]
        target = lines.pop()
        steps = tuple(Access(line * lab.line_size, ip=SAME) for line in lines)
        warm = tuple(sorted(lines)) if self.found.warm else ()
        return Visit(steps, warm=warm, window=(0, 2 * lab.page_lines)), target

    def crosses(self, lab: Lab) -> Answer:
        """Whether a run's next line is fetched where it lies in the next page. What hits never bring, misses may: of
        this prefetcher, or of another level's, which is not known then."""
        visit, target = self._over_the_end(lab, lab.page_lines - min(3, self.found.stride), self.trigger + 1)
        answers = lab.brings(visit, target)
        missing = replace(visit, warm=())
        return answers if answers is not False or not visit.warm or lab.brings(missing, target) is False else None

    def ip_bits(self) -> tuple[int, ...] | None:
        """Those that, changed for the last access, end the run."""
        visit, last, step = self.run(self.trigger, self.found.stride, None)

        def followed(ip: int) -> Answer:
            steps = (*visit.steps[:-1], replace(visit.steps[-1], ip=ip))
            return self.lab.brings(replace(visit, steps=steps), last + step)

        return bits_that_matter(SAME, followed)

    def goes_on(self, history: History) -> Answer:
        lines = run_lines(self.lab, self.found.stride, self.found.down, self.trigger)
        size = self.lab.line_size

        def accesses(of: list[int]) -> Callable[[Sequence[int]], list[Access]]:
            return lambda runs: [Access(n * size, ip=instruction(r), page=history.page(r)) for r in runs for n in of]

        steps = tuple(history.steps(accesses(lines[:-1]), accesses(lines[-1:])))
        visit = Visit(steps, training=others_first(history.runs, lines[0] * size))
        return self.lab.comes(visit, 2 * lines[-1] - lines[-2], self.inner)


def report_l1_stride(lab: Lab, huge: Lab | None, found: Found, report: Report) -> None:
    """Ask and report everything of a stride prefetcher of level 1 that is there."""
    rules = InstructionRules(lab, found)
    rules.inner = found.question is not None and found.question.inner
    rules.trigger = rules.find_trigger() or 0
    report.value("trigger", rules.trigger or None, rules.method, UNCLEAR)
    if not rules.trigger:
        return
    question = replace(rules.question(rules.trigger, found.stride), inner=False)
    inner = lab.in_l1(question.visit, question.targets[0])
    rules.inner = inner is True
    rules.report_run(report)
    if inner is None and lab.known.level_two_listens:  # lines further ahead may be level 2's own doing
        for parameter in ("degree", "max_distance"):
            report.unresolved(parameter, LEVEL_UNCLEAR)
    else:
        degree, settled = rules.reach()
        rules.report_reach(degree, settled, report)
        rules.report_lead(degree, settled, rules.followed(lab.line_size), report)
    entries = size(lambda runs: rules.goes_on(History(runs)), S.most_entries)
    report.value("streams", entries, TABLE, UNCLEAR)
    report_replacement(rules.goes_on, entries, report, S.instructions)
    indexed, bits = rules.indexed_by(), rules.ip_bits()
    report.value("indexed_by", indexed, "a run that goes on in the next page", UNCLEAR)
    why = f"{UNCLEAR}; or {FAR_BITS_MATTER}"
    report.value("ip_bits", None if bits is None else list(bits), "the last access from another address", why)
    rules.report_max_stride(rules.largest(indexed != "ip"), report)
    smallest = rules.smallest(False) or rules.smallest(True)
    why = "neighbouring lines come anyway, or small strides are followed irregularly; try --pattern"
    report.value("min_stride", smallest and smallest[0], "runs of small stride", why, smallest or ())
    report_crossing(rules.crosses, lab, huge, "a run to the end of a page", report)


# -- by page -------------------------------------------------------------------------------------------------------


def uneven(lines: list[int], nearer: bool = False) -> list[int]:
    """As many lines with the same last one, the distances before it never equal twice in a row nor the last one that of
    the run; `nearer`: all shorter than that (which takes a run of three lines apart)."""
    step = lines[-1] - lines[-2]
    sign = 1 if step > 0 else -1
    wide, narrow = (-2, -1) if nearer else (1, -1) if abs(step) > 2 else (2, 1)
    moved = [lines[-1]]
    for number in range(len(lines) - 1):
        moved.insert(0, moved[0] - step - sign * (narrow if number % 2 == 0 else wide))
    return moved


def _page_question(lab: Lab, lines: list[int], window: int, number: int = 1, nearer: bool = False) -> Question:
    """Whether the line so many strides ahead comes, and not after uneven distances; no control where the page has no
    room for one."""
    step, most = lines[-1] - lines[-2], lab.params.most_ahead
    ahead = [line for n in range(1, most + 1) if 0 <= (line := lines[-1] + n * step) < window]

    def visit(of: list[int]) -> Visit:
        steps = tuple(Access(line * lab.line_size) for line in of)
        return Visit(steps, warm=kept_warm(lab, of, ahead), window=(0, window))

    moved = uneven(lines, nearer)
    fits = min(moved) >= 0 and max(moved) < window
    return Question(visit(lines), tuple(ahead[number - 1 : number]), (visit(moved),) if fits else ())


def find_l2_stride(lab: Lab) -> Found:
    """Equal distances in a page, whatever instructions they come from, against uneven ones.

    Where none are led, shorter ones are looked at as well, but only leave it open: a stream whose batches end where the
    run goes on leads them too."""
    params = lab.params
    answers: list[Answer] = []
    for down in (False, True):
        question = _page_question(lab, run_lines(lab, params.stride, down), lab.page_lines)
        even = lab.ask(question)
        if even:
            inner = lab.in_l1(question.visit, question.targets[0])
            even = None if inner is None else not inner
        answers.append(even)
        if even:
            return Found(True, question=question, stride=params.stride, down=down)
    found = Found(None if None in answers else False)
    if found.present is False:
        for down in (False, True):
            lines = run_lines(lab, params.short_stride, down)
            asked = [_page_question(lab, lines, lab.page_lines, nearer=nearer) for nearer in (False, True)]
            if all(lab.ask(each) is not False and each.controls for each in asked):
                visits = (each.controls[0] for each in asked)
                if not any(lab.brings(control, asked[0].targets[0]) for control in visits):
                    found.present, found.reason = None, SHORT_LED
    return found


class PageRules(Rules):
    """A stride prefetcher of level 2."""

    method = "equal distances, against uneven ones"

    def lines(self, count: int, stride: int, down: bool | None = None) -> list[int]:
        """From near the page's end on the side that they come from."""
        first = 1 if count * stride + 2 * stride > self.lab.page_lines - S.beside else S.beside
        return run_lines(self.lab, stride, self.found.down if down is None else down, count, first)

    def question(self, count: int, stride: int, down: bool | None = None) -> Question:
        return _page_question(self.lab, self.lines(count, stride, down), self.lab.page_lines)

    def leads(self, count: int, stride: int, number: int = 1, down: bool | None = None) -> Answer:
        """Whether the line so many strides ahead comes; None where it can't be controlled."""
        question = _page_question(self.lab, self.lines(count, stride, down), self.lab.page_lines, number)
        if not question.targets:
            return None
        answers = self.lab.ask(question)
        return None if answers and not question.controls else answers

    def find_trigger(self) -> int | None:
        """Accesses before the first prefetch."""
        counts = range(2, self.lab.params.most_trigger + 1)
        return first_that(lambda count: self.leads(count, self.found.stride), counts)

    def ahead(self, count: int, stride: int) -> int | None:
        """Streams may bring the nearer ones as well, so the control is only asked for the furthest."""
        lines = self.lines(count, stride)
        visit, step = self.question(count, stride).visit, lines[-1] - lines[-2]
        targets = [lines[-1] + n * step for n in range(1, self.lab.params.most_ahead + 1)]
        answers = [self.lab.brings(visit, target) for target in targets if 0 <= target < self.lab.page_lines]
        if None in answers or False not in answers:
            return None
        furthest = answers.index(False)
        if True in answers[furthest:]:
            return None
        return furthest if not furthest or self.leads(count, stride, furthest) else None

    def reach(self) -> tuple[int | None, int | None]:
        """(strides ahead after the first access that prefetches, strides ahead after many: after two more where every
        access fetches one, which stays one ahead)."""
        degree = self._first_known(lambda stride: self.ahead(self.trigger, stride))
        more = (1, 2) if degree == 1 else S.settled

        def settled(stride: int) -> int | None:
            if 1 + stride * (self.trigger + more[-1] + 1) >= self.lab.page_lines:
                return None
            later = {self.ahead(self.trigger + each, stride) for each in more}
            return later.pop() if len(later) == 1 else None

        return degree, self._first_known(settled) if degree else None

    @staticmethod
    def _first_known(ask: Callable[[int], int | None]) -> int | None:
        return next((answers for stride in S.page_reach if (answers := ask(stride)) is not None), None)

    def goes_on(self, history: History) -> Answer:
        lines = self.lines(self.trigger, self.found.stride)
        question = self.question(self.trigger, self.found.stride)
        steps = history.in_pages(lines[:-1], lines[-1:], self.lab.line_size)
        return self.lab.brings(replace(question.visit, steps=steps), question.targets[0])

    def largest(self) -> tuple[int, bool] | None:
        """As far as a page has room."""
        size, low = self.lab.line_size, self.found.stride
        high = (self.lab.page_lines - 2) // self.trigger
        if high <= low:
            return low * size, False
        if self.leads(self.trigger, high):
            return high * size, False
        found = edge(lambda stride: self.leads(self.trigger, stride), low, high)
        return None if found is None else (found * size, self.leads(self.trigger, found + 1) is False)

    def neighbours_led(self, degree: int) -> Answer:
        """Whether strides of one line are followed, either way and as far as one access fetches: what else brings next
        lines mostly goes upwards, or not so far."""
        down = self.found.down
        asked = product((down, not down), range(1, degree + 1))
        answers = [self.leads(self.trigger, 1, number, way) for way, number in asked]
        return True if True in answers else (None if None in answers else False)

    def crosses(self, lab: Lab) -> Answer:
        """Whether a run upwards to a page's end goes on in the next page. That it does not says something only if the
        same run is led where the next line still lies in its page."""
        count, stride = self.trigger + 1, self.found.stride
        lines = [lab.page_lines - 3 - stride * (count - 1 - number) for number in range(count)]
        answers = lab.ask(_page_question(lab, lines, 2 * lab.page_lines))
        if answers is False:
            within = [line - stride for line in lines if line >= stride]
            return False if lab.ask(_page_question(lab, within, 2 * lab.page_lines)) else None
        return answers

    def silenced(self, count: int, down: bool) -> bool:
        """Whether the lines behind a run's are in level 1 when it is made, so that a next-line prefetcher there asks
        for none. Where level 1 has few ways, what makes tables forget the page pushes some of them out."""
        visit = self.question(count, self.found.stride, down).visit
        lines = enumerate(self.lines(count, self.found.stride, down))
        behind = [(line + 1, number) for number, line in lines if line + 1 in visit.warm]
        return all(self.lab.rests_in_l1(visit, line, number) for line, number in behind)


def report_l2_stride(lab: Lab, huge: Lab | None, found: Found, report: Report) -> None:
    """Ask and report everything of a stride prefetcher of level 2 that is there."""
    rules = PageRules(lab, found)
    asked = product((S.few, lab.params.stride_run), (False, True))
    heard = lab.known.next_in_l1 and not all(rules.silenced(count, down) for count, down in asked)
    rules.trigger = (None if heard else rules.find_trigger()) or 0
    report.value("trigger", rules.trigger or None, rules.method, HEARD if heard else UNCLEAR)
    if not rules.trigger:
        return
    rules.report_run(report)
    degree, settled = rules.reach()
    rules.report_reach(degree, settled, report)
    entries = report_table(rules.goes_on, report, S.most_entries, UNCLEAR)
    apart = "page" if entries is not None and entries > 1 else None
    report.value("indexed_by", apart, "runs in many pages, by many instructions", NOT_APART)
    nearest, line = rules.neighbours_led(degree or 1), lab.line_size
    why = LED if nearest is None else "strides of one line are not followed, and larger ones were not asked"
    method = "strides of one line, the least that level 2 sees"
    rules.report_lead(degree, settled, nearest, report)
    report.value("min_stride", line if nearest else None, method, why, (1, line))
    rules.report_max_stride(rules.largest(), report)
    if rules.leads(rules.trigger, found.stride, down=False) is True:
        report_crossing(rules.crosses, lab, huge, "a run to the end of a page", report)
    else:
        report.unresolved("crosses_4k", DOWN_ONLY)
