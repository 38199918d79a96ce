"""Stride prefetchers of level 2: equal distances between the misses of a page, whatever instructions they come from.

Streams and next-line prefetchers bring lines ahead of such a run too. So every line of the page but the run's own and
those in question is in level 1 already, and a line only counts if a run of as many accesses, with the same last one but
uneven distances before it, does not bring it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.led_runs import UNCLEAR, LedRun, tell_led_run
from setebench.prefetcher_map.replacement import of_page_strides, tell_replacement
from setebench.prefetcher_map.strides import COUNT, STRIDE, Stride, page_kept_warm, run_lines
from setebench.prefetcher_map.table_size import bisect
from setebench.prefetcher_map.tell import Told
from setebench.prefetcher_map.visit import Access, Visit

LED = "streams or next-line prefetchers bring the lines in question as well; switch those off and run again"
NOT_APART = "what tells runs of several pages apart did not show, as not even two were followed at once for sure"
HEARD = (
    "level 1's next-line prefetcher asks for lines of its own with a run's accesses, as level 1 can't hold all other "
    "lines of the page; switch it off and run again"
)
FEW = 5
"""Accesses of a run that still begins amid the page (`PageRules.run`); longer ones begin near its end."""
MOST_ACCESSES, MOST_AHEAD, MOST_ENTRIES = 8, 8, 60
ROOM = 12
"""Lines before a run's first, for those of its control, where there is space."""
SHORT_STRIDE = 3
SHORT_LED = (
    "distances of three lines are led, of seven not: a stride prefetcher that follows short ones alone, or streams; "
    "switch those off and run again"
)
REACH_STRIDES = (STRIDE, 5, SHORT_STRIDE)
"""Lines apart, in this order: what lies further apart than a stream's batch is led by strides alone, what lies nearer
leaves more room to run ahead."""
SETTLED = (5, 6, 7)
"""Accesses behind the first that prefetches, after which a distance has settled."""


def uneven(lines: list[int], nearer: bool = False) -> list[int]:
    """As many lines with the same last one, the distances before it never equal twice in a row nor the last one that of
    the run; `nearer`: all shorter than that (which takes a run of three lines apart)."""
    step = lines[-1] - lines[-2]
    sign = 1 if step > 0 else -1
    wide, narrow = (-2, -1) if nearer else (1, -1) if abs(step) >= 3 else (2, 1)
    moved = [lines[-1]]
    for number in range(len(lines) - 1):
        moved.insert(0, moved[0] - step - sign * (narrow if number % 2 == 0 else wide))
    return moved


class Run:
    """A run of equally distant lines, the lines ahead that are asked for, and its control."""

    def __init__(self, lab: Laboratory, lines: list[int], window: int) -> None:
        step = lines[-1] - lines[-2]
        self.lab, self.lines = lab, lines
        self.ahead = [line for n in range(1, MOST_AHEAD + 1) if 0 <= (line := lines[-1] + n * step) < window]
        self.window = window

    def visit(self, lines: list[int]) -> Visit:
        """Accesses of many instructions that miss every level, in a page whose other lines are in level 1."""
        steps = tuple(Access(line * self.lab.line_size) for line in lines)
        return Visit(steps, warm=page_kept_warm(self.lab, lines, self.ahead), window=(0, self.window))

    def leads(self, number: int) -> bool | None:
        """Whether the line so many strides ahead comes, and not after uneven distances."""
        if number > len(self.ahead):
            return None
        return self.by(self.visit(self.lines), self.ahead[number - 1])

    def by(self, visit: Visit, target: int) -> bool | None:
        """The same for a visit that makes the run in its own way, by stores or software prefetches, say."""
        told = self.lab.brings(visit, target)
        if not told:
            return told
        return True if self._anyway(visit, target, uneven(self.lines)) is False else None

    def may_be_led(self) -> bool:
        """Whether the next line comes, or may, unlike after uneven distances, longer or shorter ones: where those bring
        it as well it says nothing."""
        visit, target = self.visit(self.lines), self.ahead[0]
        if self.lab.brings(visit, target) is False:
            return False
        controls = (uneven(self.lines), uneven(self.lines, nearer=True))
        return not any(self._anyway(visit, target, moved) for moved in controls)

    def _anyway(self, visit: Visit, target: int, moved: list[int]) -> bool | None:
        """Whether the target comes after accesses to other lines; None also where the page has no room for them."""
        if min(moved) < 0 or max(moved) >= self.window:
            return None
        steps = (replace(access, at=at * self.lab.line_size) for access, at in zip(visit.steps, moved, strict=True))
        control = replace(visit, steps=tuple(steps), warm=page_kept_warm(self.lab, moved, self.ahead))
        return self.lab.brings(control, target)


def find_l2_stride(lab: Laboratory) -> Stride:
    """Equal distances in a page, whatever instructions they come from, against uneven ones.

    Where none are led, shorter ones are looked at as well, but only leave it open: a stream whose batches end where the
    run goes on leads them too."""
    found = Stride()
    told: list[bool | None] = []
    for down in (False, True):
        run = Run(lab, run_lines(lab, STRIDE, down), lab.page_lines)
        even = run.leads(1)
        if even:
            inner = lab.in_l1(run.visit(run.lines), run.ahead[0])
            even = None if inner is None else not inner
        told.append(even)
        if even:
            found.present, found.down = True, down
            return found
    found.present = None if None in told else False
    short = (Run(lab, run_lines(lab, SHORT_STRIDE, down), lab.page_lines) for down in (False, True))
    if found.present is False and any(run.may_be_led() for run in short):
        found.present, found.reason = None, SHORT_LED
    return found


class PageRules:
    """Questions about one stride prefetcher of level 2 that has been found."""

    def __init__(self, lab: Laboratory, found: Stride) -> None:
        self.lab, self.down = lab, found.down
        self.trigger = 0

    def run(self, count: int, stride: int, down: bool | None = None) -> Run:
        """`count` lines `stride` apart, from near the page's end on the side that they come from."""
        first = 1 if count * stride + 2 * stride > self.lab.page_lines - ROOM else ROOM
        lines = [first + stride * number for number in range(count)]
        if self.down if down is None else down:
            lines = [self.lab.page_lines - 1 - line for line in lines]
        return Run(self.lab, lines, self.lab.page_lines)

    def find_trigger(self) -> int | None:
        """Accesses before the first prefetch."""
        for count in range(2, MOST_ACCESSES + 1):
            told = self.run(count, STRIDE).leads(1) if count <= COUNT else None
            if told is None or told:
                return count if told else None
        return None

    def ahead(self, count: int, stride: int) -> int | None:
        """How many strides ahead lines are there after `count` accesses. Streams may bring the nearer ones as well, so
        the control is only asked for the furthest."""
        run = self.run(count, stride)
        visit = run.visit(run.lines)
        told = [self.lab.brings(visit, target) for target in run.ahead]
        if None in told or False not in told:
            return None
        furthest = told.index(False)
        if True in told[furthest:]:
            return None
        return furthest if not furthest or run.leads(furthest) else None

    def degree(self) -> int | None:
        """Strides ahead after the first access that prefetches."""
        return self._first_known(lambda stride: self.ahead(self.trigger, stride))

    def settled(self, degree: int) -> int | None:
        """Strides ahead after many accesses; after two more where every access fetches one, which stays one ahead."""
        more = (1, 2) if degree == 1 else SETTLED

        def asked(stride: int) -> int | None:
            if 1 + stride * (self.trigger + more[-1] + 1) >= self.lab.page_lines:
                return None
            later = {self.ahead(self.trigger + each, stride) for each in more}
            return later.pop() if len(later) == 1 else None

        return self._first_known(asked)

    @staticmethod
    def _first_known(ask: Callable[[int], int | None]) -> int | None:
        for stride in REACH_STRIDES:
            told = ask(stride)
            if told is not None:
                return told
        return None

    def entries(self) -> int | None:
        """Pages whose runs are remembered at once: the first is taken up again after the others."""
        run = self.run(self.trigger, STRIDE)
        size = self.lab.line_size
        visit = run.visit(run.lines)

        def holds(pages: int) -> bool | None:
            steps = [Access(line * size, page=page) for page in range(pages) for line in run.lines[:-1]]
            steps.append(Access(run.lines[-1] * size))
            return self.lab.brings(replace(visit, steps=tuple(steps)), run.ahead[0])

        return bisect(holds, MOST_ENTRIES)

    def largest(self) -> tuple[int, bool] | None:
        """(largest stride followed, whether a larger one was seen not to be), in lines, as far as a page has room."""
        low, high = STRIDE, (self.lab.page_lines - 2) // self.trigger
        if high <= low:
            return low, False
        if self.run(self.trigger, high).leads(1):
            return high, False
        while high - low > 1:
            middle = (low + high) // 2
            told = self.run(self.trigger, middle).leads(1)
            if told is None:
                return None
            low, high = (middle, high) if told else (low, middle)
        return low, self.run(self.trigger, high).leads(1) is False

    def crosses(self, lab: Laboratory) -> bool | None:
        """Whether a run upwards to a page's end goes on in the next page. That it does not says something only if the
        same run is led where the next line still lies in its page."""
        count = self.trigger + 1
        lines = [lab.page_lines - 3 - STRIDE * (count - 1 - number) for number in range(count)]
        told = Run(lab, lines, 2 * lab.page_lines).leads(1)
        if told is False:
            within = [line - STRIDE for line in lines if line >= STRIDE]
            return False if Run(lab, within, 2 * lab.page_lines).leads(1) else None
        return told


def tell_page_stride(lab: Laboratory, huge: Laboratory | None, found: Stride, told: Told) -> None:
    """Ask and tell everything of a stride prefetcher of level 2 that is there."""
    rules = PageRules(lab, found)
    method = "equal distances, against uneven ones"
    heard = lab.known.next_in_l1 and not all(_silenced(rules, *each) for each in product((FEW, COUNT), (False, True)))
    trigger = None if heard else rules.find_trigger()
    told.value("trigger", trigger, method, HEARD if heard else UNCLEAR)
    if trigger is None:
        return
    rules.trigger = trigger
    run = rules.run(trigger, STRIDE)
    visit, target = run.visit(run.lines), run.ahead[0]
    ways = {down: rules.run(trigger, STRIDE, down).leads(1) for down in (False, True)}
    tell_led_run(lab, LedRun(visit, target, ways, lambda each: run.by(each, target)), method, told)
    degree = _tell_reach(rules, told)
    entries = rules.entries()
    told.value("streams", entries, "runs in many pages, the first continued", UNCLEAR)
    tell_replacement(of_page_strides(rules), entries, told)
    apart = "page" if entries is not None and entries > 1 else None
    told.value("indexed_by", apart, "runs in many pages, by many instructions", NOT_APART)
    _tell_limits(rules, degree or 1, told)
    if ways[False] is not True:
        told.unresolved("crosses_4k", "it runs downwards only, which is not asked at the page's end")
        return
    for parameter, memory in (("crosses_4k", lab), ("crosses_4k_in_2m", huge)):
        if memory is not None:
            told.value(parameter, rules.crosses(memory), "a run to the end of a page", LED)


def _silenced(rules: PageRules, count: int, down: bool) -> bool:
    """Whether the lines behind a run's are in level 1 when it is made, so that a next-line prefetcher there asks for
    none. Where level 1 has few ways, what makes tables forget the page pushes some of them out."""
    run = rules.run(count, STRIDE, down)
    visit = run.visit(run.lines)
    behind = [(line + 1, number) for number, line in enumerate(run.lines) if line + 1 in visit.warm]
    return all(rules.lab.rests_in_l1(visit, line, number) for line, number in behind)


def _tell_reach(rules: PageRules, told: Told) -> int | None:
    """Tell degree and distance; returns the degree."""
    method = "strides ahead after the first triggering access, and after many"
    degree = rules.degree()
    told.value("degree", degree or None, method, LED)
    settled = rules.settled(degree) if degree else None
    if degree == settled == 1:
        told.at_least("max_distance", 1, method, "it never runs further ahead, so no limit shows")
    else:
        told.value(
            "max_distance", settled or None, method, f"it does not settle at one distance within a page, or {LED}"
        )
    return degree


def _neighbours_led(rules: PageRules, degree: int) -> bool | None:
    """Whether strides of one line are followed, either way and as far as one access fetches: what else brings next
    lines mostly goes upwards, or not so far."""
    asked = [(down, number) for down in (rules.down, not rules.down) for number in range(1, degree + 1)]
    told = []
    for down, number in asked:
        told.append(rules.run(rules.trigger, 1, down).leads(number))
        if told[-1]:
            return True
    return None if None in told else False


def _tell_limits(rules: PageRules, degree: int, told: Told) -> None:
    size = rules.lab.line_size
    nearest = _neighbours_led(rules, degree)
    reason = LED if nearest is None else "strides of one line are not followed, and larger ones were not asked"
    method = "strides of one line, the least that level 2 sees"
    told.value("min_stride", size if nearest else None, method, reason, 1, size)
    method = "runs of growing stride"
    largest = rules.largest()
    if largest is None:
        told.unresolved("max_stride", LED)
    elif largest[1]:
        most = largest[0] * size
        told.value("max_stride", most, method, "", most, most + size - 1)
    else:
        told.at_least("max_stride", largest[0] * size, method, "a page has no room for longer strides")
