"""Strides of one instruction, a prefetcher of level 1: equal distances between its accesses, against the same accesses
from as many instructions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from setebench.experiments.visits import LAYOUT, PAGE_BYTES, Visit, instruction

from ..attributes import report_crossing
from ..found import Answer, Found, Question, first_shown
from ..lab import Lab
from ..report import LEVEL_UNCLEAR, UNCLEAR, Report
from ..tables import FAR_BITS_MATTER, History, bits_that_matter, edge, others_first, report_table
from .runs import ip_question, strided_lines
from .strides import LED, TO_END, Rules, S

METHOD = "equal distances of one instruction, against as many"
FENCES = (
    "it shows where addresses order the accesses, not where fences do: look at a pointer chase with equal distances"
)
SMALL = "runs of small stride"
NO_SMALL = "neighbouring lines come anyway, or small strides are followed irregularly; try --pattern"


def find_l1_stride(lab: Lab) -> Found:
    """Equal distances of one instruction against the same from as many instructions."""
    wide, narrow = lab.params.stride, lab.params.short_stride

    def tries() -> Iterator[tuple[Answer, Question, Found]]:
        asked = [(wide, False, True), (wide, False, False), (narrow, False, True), (wide, True, True)]
        if lab.page_lines < wide * lab.params.stride_run:  # a wide run is a short one there
            asked.append((narrow, True, True))
        for stride, down, warm in asked:
            furthest = lab.params.stride_run if stride == narrow else 1  # some fetch the line that far ahead alone
            question = ip_question(lab, _places(lab, strided_lines(lab, stride, down)), warm, range(1, furthest + 1))
            came = lab.ask(question)
            if came is None and lab.brings(question.controls[0], question.targets[0]):
                question = replace(question, inner=True)  # something else brings it as well, perhaps to another level
                came = lab.ask(question)
            yield came, question, Found(warm=warm, stride=stride, down=down)

    found = first_shown(tries())
    if found.present is False:
        fenced = ip_question(lab, _places(lab, strided_lines(lab, wide, False)), False, (1,))
        visits = tuple(replace(each, chained=True) for each in (fenced.visit, *fenced.controls))
        if lab.ask(replace(fenced, visit=visits[0], controls=visits[1:])):
            found.present, found.reason = None, FENCES
    return found


def _places(lab: Lab, lines: Iterable[int]) -> list[int]:
    return [line * lab.line_size for line in lines]


class InstructionRules(Rules):
    """A stride prefetcher of level 1. `inner`: its lines are surely in level 1. `nearest`: strides ahead of the access
    by which it starts that the nearest line lies which it fetches then."""

    inner = False
    nearest = 1

    def question(self, count: int, stride: int, down: bool | None = None, furthest: int | None = None) -> Question:
        lines = strided_lines(self.lab, stride, self.down(down), count)
        return self._asked(_places(self.lab, lines), range(self.nearest, (furthest or self.nearest) + 1))

    def _asked(self, places: Sequence[int], strides: Iterable[int]) -> Question:
        return replace(ip_question(self.lab, places, self.found.warm, strides), inner=self.inner)

    def find_trigger(self) -> int | None:
        """Accesses before the first prefetch. Some count hits of level 1 only now and then, so misses are asked as well
        (and alone from then on, where they need fewer)."""

        def holds(count: int) -> Answer:
            return self.lab.ask(self.question(count, self.found.stride, furthest=self.lab.params.stride_run))

        hits = self.shortest(holds)
        if self.found.warm:
            self.found.warm = False
            misses = self.shortest(holds)
            self.found.warm = misses is None or (hits is not None and hits <= misses)
            return hits if self.found.warm else misses
        return hits

    def find_nearest(self) -> Answer:
        """Which line comes first: some fetch the one so many strides ahead alone, and those between never."""
        for number in range(1, self.lab.params.stride_run + 1):
            self.nearest = number
            question = self.question(self.trigger, self.found.stride)
            came = self.lab.ask(question) if question.targets else None
            if came is not False:
                return came
        return None

    def ahead(self, count: int, stride: int) -> int | None:
        """How many strides ahead lines are there after `count` accesses. None where lines beside the edge come now and
        then: some CPUs bring lines to level 1, or only to level 2, as they find room."""
        lab, inside = self.lab, range(self.lab.page_lines)
        lines = strided_lines(lab, stride, self.found.down, count, start=1)
        visit, last, step = self._asked(_places(lab, lines), ()).visit, lines[-1], lines[-1] - lines[-2]
        for number in range(1, lab.params.stride_run + 1):
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
        params = self.lab.params  # what streams bring reaches as many lines, not as many strides, at each distance
        wide = self.found.stride >= params.far
        strides = (params.short_stride, params.far if wide else params.near)
        firsts = {self.ahead(self.trigger, stride) for stride in strides}
        first = firsts.pop() if len(firsts) == 1 else None
        if first is None:
            return None, None
        later = {self.ahead(self.trigger + more, self.lab.params.short_stride) for more in S.settled}
        return first, later.pop() if len(later) == 1 else None

    def followed(self, stride: int, down: bool = False) -> Answer:
        """Whether a stride of so many bytes is followed: the line of the next access, unlike with many instructions."""
        size, count, access = self.lab.line_size, self.trigger, self.lab.params.access_bytes
        last = self._last_place(stride)
        places = [last - stride * (count - 1 - number) for number in range(count)]
        if any(place % size > size - access for place in places):
            return None
        if down:  # the same seen from the page's end
            places = [PAGE_BYTES - access - place for place in places]
        return self.lab.ask(self._asked(places, (self.nearest,)))

    def _last_place(self, stride: int) -> int:
        """Byte of the last access of a run: amid the page where it fits, and so near to its line's end that the next
        access is in another line."""
        size, span, access = self.lab.line_size, stride * self.trigger, self.lab.params.access_bytes
        last = 0
        if span <= PAGE_BYTES - 2 * size:
            last = PAGE_BYTES // 2 + span // 2 // size * size - stride
        elif stride < PAGE_BYTES:
            last = access
        last = last // size * size
        return last + max(size - stride, 0)

    def smallest(self, down: bool) -> tuple[int, int] | None:
        """(least, largest) bytes that the smallest stride followed may have, asked upwards or downwards: what brings
        next lines disturbs upwards alone."""
        access = self.lab.params.access_bytes
        strides = [access << n for n in range((self.lab.line_size // access).bit_length())]
        known = {stride: self.followed(stride, down) for stride in strides}
        followed = [stride for stride, answers in known.items() if answers]
        if None in known.values() or not followed or not all(known[s] for s in strides if s > followed[0]):
            return None
        if followed == strides:
            return 1, followed[0]
        below = edge(lambda b: None if (t := self.followed(b, down)) is None else not t, followed[0] // 2, followed[0])
        return None if below is None else (below + 1, below + 1)

    def goes_beyond(self) -> Answer:
        """Whether a run goes on into the next page: the last access lies there, so that nothing has to be fetched
        across the boundary."""
        asked = self._over_the_end(self.lab, min(self.lab.eighth // 2, self.found.stride - 1), self.trigger)
        return self.lab.brings(asked.visit, asked.targets[0])

    def indexed_by(self, beyond: Answer) -> str | None:
        """What goes `beyond` a page knows none. What does not may compare physical addresses, so it is asked whether
        accesses of the same instruction to another page, each between two of the run, end it."""
        if beyond is not False:
            return "ip" if beyond else None
        question = self.question(self.trigger, self.found.stride)
        *before, last = question.visit.steps
        steps = [each for step in before for each in (step, replace(step, page=1))]
        led = self.lab.brings(replace(question.visit, steps=(*steps, last)), question.targets[0])
        return None if led is None else "ip+page" if led else "ip"

    def _over_the_end(self, lab: Lab, behind: int, count: int) -> Question:
        """A run that ends so many lines behind a page's end; downwards seen from the end of two pages."""
        lines = [lab.page_lines + behind - self.found.stride * number for number in reversed(range(count))]
        if self.found.down:
            lines = [2 * lab.page_lines - 1 - line for line in lines]
        return ip_question(lab, _places(lab, lines), self.found.warm, (self.nearest,), pages=2)

    def crosses(self, lab: Lab) -> Answer:
        """Whether a run's next line is fetched where it lies in the next page. What hits never bring, misses may: of
        this prefetcher, or of another level's, which is not known then."""
        question = self._over_the_end(lab, -min(3, self.found.stride), self.trigger + 1)
        visit, target = question.visit, question.targets[0]
        answers = lab.brings(visit, target)
        missing = replace(visit, warm=())
        return answers if answers is not False or not visit.warm or lab.brings(missing, target) is False else None

    def ip_bits(self) -> tuple[int, ...] | None:
        """Those that, changed for the last access, end the run."""
        question = self.question(self.trigger, self.found.stride)
        visit, target = question.visit, question.targets[0]

        def followed(ip: int) -> Answer:
            steps = (*visit.steps[:-1], replace(visit.steps[-1], ip=ip))
            return self.lab.brings(replace(visit, steps=steps), target)

        return bits_that_matter(self.lab.params.same_ip, followed)

    def goes_on(self, history: History) -> Answer:
        lines = strided_lines(self.lab, self.found.stride, self.found.down, self.trigger)
        steps = history.in_pages(lines[:-1], lines[-1:], self.lab.line_size, instruction)
        visit = Visit(steps, training=others_first(history.runs, lines[0] * self.lab.line_size))
        return self.lab.comes(visit, lines[-1] + self.nearest * (lines[-1] - lines[-2]), self.inner)


def report_l1_stride(lab: Lab, huge: Lab | None, found: Found, report: Report) -> None:
    """Ask and report everything of a stride prefetcher of level 1 that is there."""
    rules = InstructionRules(lab, found)
    rules.inner = found.question is not None and found.question.inner
    rules.trigger = rules.find_trigger() or 0
    report.value("trigger", rules.trigger or None, rules.method, UNCLEAR)
    if not rules.trigger or not rules.find_nearest():
        return
    question = rules.question(rules.trigger, found.stride)
    inner = lab.in_l1(question.visit, question.targets[0])
    rules.inner = inner is True
    rules.report_run(report)
    if inner is None and lab.known.level_two_listens:  # lines further ahead may be level 2's own doing
        report.open(("degree", "max_distance"), LEVEL_UNCLEAR)
    else:
        degree, settled = rules.reach()
        degree = degree or (1 if rules.nearest > 1 else None)  # the nearest line, which alone came
        rules.report_reach(degree, settled, rules.nearest == 1 and rules.followed(lab.line_size), report)
    runs = LAYOUT.instructions - 2  # whose addresses differ in their low bits, beside those of a visit's other accesses
    if rules.inner or not lab.known.may("l2.stride"):
        report_table(rules.goes_on, report, runs - 2, runs)
    else:  # whose table may hold runs that this one's has lost
        report.open(("streams", "replacement"), LED)
    beyond, bits = rules.goes_beyond(), rules.ip_bits()
    report.value(
        "indexed_by", rules.indexed_by(beyond), "a run that goes on in the next page, or in turns with one", UNCLEAR
    )
    why = f"{UNCLEAR}; or {FAR_BITS_MATTER}"
    report.value("ip_bits", None if bits is None else list(bits), "the last access from another address", why)
    # where runs are only followed within a page, larger strides can't be asked
    most = lab.page_lines - 1 if beyond else (lab.page_lines - 2) // rules.trigger
    rules.report_max_stride(lambda lines: rules.followed(lines * lab.line_size), most, report)
    smallest = rules.smallest(False) or rules.smallest(True)
    report.value("min_stride", smallest and smallest[0], SMALL, NO_SMALL, smallest or ())
    report_crossing(rules.crosses, lab, huge, TO_END, report)
