"""By what rules a stream prefetcher runs: how many lines, how far, how many streams, what wakes it, where it stops."""

from __future__ import annotations

from dataclasses import replace

from setebench.infer.stream_rule import distance_bounds, steady_degree
from setebench.mapping.kinds import trained_by
from setebench.mapping.laboratory import Laboratory
from setebench.mapping.shared import tell_shared
from setebench.mapping.streams import HAMMERED, Stream, ahead, gap_lines, hammering, l1_visit, l2_visit
from setebench.mapping.table_size import bisect
from setebench.mapping.tell import Told
from setebench.mapping.visit import Access, Visit

UNCLEAR = "some lines were there in some repetitions only; run again at a quieter time"
HIDDEN = "level 1's next-line prefetcher asks for lines in between, which may count as accesses"
ONE_RUN = "of two runs in one page one was not seen to be followed, which other prefetchers or nearness may hide"
NEEDS_TRIGGER = ("trigger_at_page_edge", "degree", "max_distance", "streams", "streams_per_page", "trained_by")
MOST_STREAMS, GROWING, MOST_HITS = 100, 6, 48


class Rules:
    """Questions about one stream prefetcher that has been found. `inner`: it is level 1's."""

    def __init__(self, lab: Laboratory, found: Stream, inner: bool) -> None:
        self.lab, self.found, self.inner = lab, found, inner
        self.down = found.down
        self.fills_l1 = False
        self.furthest: int | None = None
        """Upper bound of the distance, where it is known."""

    # -- visits -------------------------------------------------------------------------------------------------------

    def low_run(self, count: int) -> list[int]:
        """A run of `count` accesses that ends as near to where it came from as it can, to leave room ahead."""
        lines = gap_lines(self.lab, count)
        shift = (lines[0] - 2) // 2 * 2
        lines = [line - shift for line in lines]
        return [self.lab.page_lines - 1 - line for line in lines] if self.down else lines

    def drawn(self, hammered: int, times: int) -> Visit:
        """A run that starts the stream, then hits on the line `hammered` lines ahead of the run's last."""
        lines = self.low_run(self.found.trigger or 0)
        line = ahead(lines, hammered, hammered, self.down)[0]
        # lines further ahead are the stream's own only once hits on the first have drawn some batches
        before = [ahead(lines, 1, 1, self.down)[0]] * (3 if hammered > 1 else 0)
        if not self.inner:
            return hammering(self.lab, lines, [*before, *[line] * times])
        steps = [Access(each * self.lab.line_size) for each in (*lines, *before, *[line] * times)]
        return Visit(tuple(steps), demoted=tuple(sorted(lines)))

    def frontier(self, hammered: int, times: int) -> int | None:
        """Lines ahead of the run's last that are there without a gap; None where a line is unclear."""
        lines = self.low_run(self.found.trigger or 0)
        room = self.lab.page_lines - 1 - (self.lab.page_lines - 1 - lines[-1] if self.down else lines[-1])
        targets = ahead(lines, 1, room, self.down)
        visit = self.drawn(hammered, times)
        if self.fills_l1:
            return self._inner_frontier(visit, targets)
        told = self.lab.scan(visit, [target for target in targets if target not in visit.warm])
        for number, target in enumerate(targets):
            if target in visit.warm:
                continue
            if told[target] is None and target != ahead(lines, hammered, hammered, self.down)[0]:
                return None
            if told[target] is False:
                return number
        return len(targets)

    def _inner_frontier(self, visit: Visit, targets: list[int]) -> int | None:
        """The frontier in level 1: level 2 may go further on what level 1 asks for."""
        for number, target in enumerate(targets):
            inner = self.lab.in_l1(visit, target)
            if not inner:
                return None if inner is None else number
        return len(targets)

    def brings(self, visit: Visit, target: int) -> bool | None:
        """Whether the visit brings the target to the level that this prefetcher fills."""
        return self.lab.in_l1(visit, target) if self.fills_l1 else self.lab.brings(visit, target)

    # -- questions ----------------------------------------------------------------------------------------------------

    def degree(self) -> int | None:
        """Lines per batch: what each further hit on the same line brings."""
        grown: list[int] = []
        for times in range(1, GROWING + 1):
            reached = self.frontier(1, times)
            if reached is None:
                return None
            grown.append(reached)
        rising = [line for number, line in enumerate(grown) if number == 0 or line > grown[number - 1]]
        return steady_degree(rising)

    def distance(self, degree: int) -> tuple[int, int] | None:
        """Bounds of the distance, from where hits on some neighbouring lines bring no more."""
        final: dict[int, int] = {}
        for hammered in range(1, degree + 1):
            reached = self.frontier(hammered, MOST_HITS)
            if reached is None:
                return None
            final[hammered] = reached
        return distance_bounds(final, degree)

    def streams(self) -> int | None:
        """How many runs, each in a page of its own, are remembered at once: the first is taken up again after all."""
        return bisect(self.followed, MOST_STREAMS)

    def followed(self, pages: int) -> bool | None:
        """Whether the first of so many runs goes on when its next line is hit."""
        lab, size = self.lab, self.lab.line_size
        lines = self.low_run(self.found.trigger or 0)
        before = self.frontier_at_start(lines)
        if before is None:
            return None
        steps = [Access(line * size) for line in lines]
        others = [Access(line * size, page=page) for page in range(1, pages) for line in lines]
        line = ahead(lines, 1, 1, self.down)[0]
        # where a next-line prefetcher brings one line more on its own, a second hit tells
        hits = 2 if lab.next_in_l1 else 1
        demoted = [Access(line * size, "demote")] if lab.next_in_l1 and not self.inner else []
        again = [*demoted, Access(line * size)] * hits
        visit = Visit((*steps, *others, *again), demoted=tuple(sorted(lines)) if self.inner else ())
        return self.brings(visit, ahead(lines, before + hits, before + hits, self.down)[0])

    def frontier_at_start(self, lines: list[int]) -> int | None:
        """Lines ahead of a run's last that are there when the run has just started the stream."""
        return self.frontier(1, 0)

    def per_page(self, directions: str) -> int | None:
        """Whether two runs in one page are followed at once: one each way where both are followed, else both alike."""
        runs = self.page_runs(directions)
        told = [self.followed_in_turn(runs, run, down) for run, down in runs]
        if None in told:
            return None
        apart = abs(runs[0][0][0] - runs[1][0][0])
        if not all(told) and directions != "both" and (self.furthest is None or self.furthest >= apart):
            return None  # a stream may take the other run, which goes the same way within its reach, for its own
        return 2 if all(told) else 1

    def page_runs(self, directions: str) -> list[tuple[list[int], bool]]:
        """Two runs in one page, as far apart as it allows, and whether each goes downwards."""
        count, last = self.found.trigger or 0, self.lab.page_lines - 1
        low = [2 + 3 * number for number in range(count)]
        low = [line + (1 - low[-1] % 2) for line in low]
        if directions == "both":
            return [(low, False), ([last - line for line in low], True)]
        high = [last - 4 - 3 * (count - 1 - number) for number in range(count)]
        if directions == "up":
            return [(low, False), (high, False)]
        return [([last - line for line in run], True) for run in (low, high)]

    def followed_in_turn(self, runs: list[tuple[list[int], bool]], run: list[int], down: bool) -> bool | None:
        """Whether one of two runs, accessed in turn, is led."""
        size = self.lab.line_size
        steps = [Access(line * size) for pair in zip(*(each for each, _ in runs), strict=True) for line in pair]
        demoted = tuple(sorted({line for each, _ in runs for line in each})) if self.inner else ()
        visit = Visit(tuple(steps), thrash=not self.inner, demoted=demoted)
        alone = self.lab.scan(replace(visit, steps=(Access(run[-1] * size),)), ahead(run, 1, 3, down))
        free = [target for target, value in alone.items() if value is False]
        told = self.lab.any_of(visit, free) if free else False
        # a line that one access brings says nothing, and a stream may be no more than that line ahead
        return None if told is False and alone[ahead(run, 1, 1, down)[0]] is not False else told

    def trigger_from(self, start: int, down: bool, most: int) -> int | None:
        """Accesses that a run needs which starts at this line; None where that stays unclear."""
        for count in range(1, most + 1):
            lines = [start]
            for number in range(count - 1):
                lines.append(lines[-1] + (-1 if down else 1) * (6 + number % 2))
            told = self.starts(lines, down)
            if told is None:
                return None
            if told:
                return count
        return None

    def starts(self, lines: list[int], down: bool) -> bool | None:
        """Whether a run of these lines starts a stream."""
        lab = self.lab
        if self.inner:
            return lab.any_of(l1_visit(lab, lines, HAMMERED, down), ahead(lines, 3, 6, down))
        targets = ahead(lines, 1, 4, down)
        amid = gap_lines(lab, 1, end_odd=lines[-1] % 2 == 1)
        single = lab.scan(l2_visit(lab, amid), ahead(amid, 1, 4, down))
        free = [t for t, value in zip(targets, single.values(), strict=True) if value is False]
        told = lab.any_of(l2_visit(lab, lines), free)
        if told is False and len(free) < len(targets):
            following = ahead(lines, 1, 1, down)[0]
            return lab.any_of(hammering(lab, lines, [following] * 6), ahead(lines, 3, 5, down))
        return told

    def crosses(self, lab: Laboratory) -> bool | None:
        """Whether a stream that runs upwards at a page's end goes on in the next page of `lab`'s memory."""
        size, last = lab.line_size, lab.page_lines - 1
        count = self.found.trigger or 0
        lines = [line + last - 2 - gap_lines(lab, count)[-1] for line in gap_lines(lab, count)]
        steps = [Access(line * size) for line in (*lines, last - 1, last)]
        targets = [last + number for number in range(1, 5)]
        hammered = [Access(last * size, "demote"), Access(last * size)] if not self.inner else [Access(last * size)]
        visit = Visit((*steps, *hammered * 3), thrash=not self.inner, window=(0, 2 * lab.page_lines))
        if self.inner:
            visit = replace(visit, demoted=tuple(sorted({*lines, last - 1, last})))
            if self.fills_l1:  # level 2 may go further on what level 1 asks for
                told = [lab.in_l1(visit, target) for target in targets]
                return True if True in told else (None if None in told else False)
        return lab.any_of(visit, targets)

    def streams_in(self, visit: Visit, targets: list[int]) -> bool | None:
        """Whether a visit brings its targets, and not without its first accesses."""
        told = self.lab.any_of(visit, targets)
        if not told:
            return told
        short = replace(visit, steps=visit.steps[(self.found.trigger or 1) - 1 :])
        return True if self.lab.any_of(short, targets) is False else None

    def training_visit(self) -> tuple[Visit, list[int]]:
        """The visit that found the stream, and the lines that it brings."""
        lines = gap_lines(self.lab, self.found.trigger or 0, self.down, end_odd=not self.down)
        if self.inner:
            return l1_visit(self.lab, lines, HAMMERED, self.down), ahead(lines, 3, 6, self.down)
        visit = l2_visit(self.lab, lines)
        single = self.lab.scan(l2_visit(self.lab, lines[-1:]), ahead(lines, 1, 4, self.down))
        targets = [target for target, value in single.items() if value is False]
        if self.lab.any_of(visit, targets):
            return visit, targets
        following = ahead(lines, 1, 1, self.down)[0]
        return hammering(self.lab, lines, [following] * 6), ahead(lines, 3, 5, self.down)


def tell_stream(lab: Laboratory, huge: Laboratory | None, found: Stream, inner: bool, told: Told) -> None:
    """Ask and tell everything of a stream prefetcher that is there."""
    rules = Rules(lab, found, inner)
    run = "runs with gaps, seven accesses long at most"
    hidden = not inner and lab.next_in_l1
    told.value("trigger", None if hidden else found.trigger, run, HIDDEN if hidden else UNCLEAR)
    if found.trigger is None:
        for parameter in NEEDS_TRIGGER:
            told.unresolved(parameter, "the number of accesses that start it is not known")
        return
    visit, targets = rules.training_visit()
    kinds, reason = trained_by(lab, visit, lambda each: rules.streams_in(each, targets), lab.page_lines - 2)
    told.value("trained_by", kinds, "the same run by other kinds of access", reason)
    present = [target for target in targets if lab.brings(visit, target)]
    level = lab.level(visit, present[0]) if present else None
    rules.fills_l1 = level == "l1"
    told.value("fills", level, "level of the lines ahead", "the level of the lines stays unclear")
    directions = _directions(rules, inner)
    told.value("directions", directions, run, UNCLEAR)
    if hidden or (lab.inner_streams and not inner):
        told.unresolved("trigger_at_page_edge", HIDDEN if hidden else "streams of level 1 start at page ends as well")
    else:
        _tell_edges(rules, directions, told)
    _tell_reach(rules, hidden, told)
    if not inner and lab.inner_streams:
        told.unresolved("streams", "streams of level 1 go on in the same pages")
    else:
        told.value("streams", rules.streams(), "runs in many pages, the first continued", UNCLEAR)
    if directions is not None:
        told.value("streams_per_page", rules.per_page(directions), "two runs in turn in one page", ONE_RUN)
    tell_shared(lab, visit, trigger_steps(visit, found.trigger), targets, told)
    _tell_crossing(rules, lab, huge, told)


def trigger_steps(visit: Visit, trigger: int) -> int:
    """How many of the visit's accesses one thread makes: all but the last that the stream needs."""
    return min(trigger, len(visit.steps)) - 1


def _directions(rules: Rules, inner: bool) -> str | None:
    """Both ways are asked with the accesses that one way took; a way that is unclear leaves it open."""
    found = {}
    for down in (False, True):
        lines = gap_lines(rules.lab, rules.found.trigger or 0, down, end_odd=not down)
        found[down] = rules.starts(lines, down)
    if None in found.values():
        return None
    return "both" if all(found.values()) else ("up" if found[False] else "down")


def _tell_edges(rules: Rules, directions: str | None, told: Told) -> None:
    last, trigger = rules.lab.page_lines - 1, rules.found.trigger or 0
    asked = [(0, False), (1, False), (last - 1, True), (last, True)]
    if directions is None:
        told.unresolved("trigger_at_page_edge", "the directions are not known")
        return
    way = {"up": (False,), "down": (True,), "both": (False, True)}[directions]
    edges = [rules.trigger_from(line, down, trigger) if down in way else trigger for line, down in asked]
    told.value("trigger_at_page_edge", None if None in edges else list(edges), "runs from a page's ends", UNCLEAR)


def _tell_reach(rules: Rules, hidden: bool, told: Told) -> None:
    method = "hits on one line that the stream has fetched"
    if rules.inner and not rules.fills_l1 and rules.lab.level_two_listens:
        for parameter in ("degree", "max_distance"):
            told.unresolved(parameter, "prefetchers of level 2 may go on where this one stops, and fill the same level")
        return
    degree = rules.degree()
    told.value("degree", degree, method, "hits on one line did not bring equal batches")
    if hidden or degree is None:
        told.unresolved("max_distance", HIDDEN if hidden else "the degree is not known")
        return
    if rules.lab.outer_neighbours:
        told.unresolved("max_distance", "a prefetcher of level 2 may bring one line more on its own")
        return
    bounds = rules.distance(degree)
    if bounds is None:
        told.unresolved("max_distance", "where hits bring no more, no one distance explains", method)
        return
    low, high = bounds
    rules.furthest = high
    reached = low + degree - 1
    room = rules.lab.page_lines - 1 - (rules.found.trigger or 0) * 7 - 2
    if reached >= room - 1:
        rules.furthest = None
        told.at_least("max_distance", low, method, "the page ends before the stream does")
    elif low == high:
        told.value("max_distance", low, method, "", low, high)
    else:
        told.unresolved("max_distance", f"between {low} and {high}", method)


def _tell_crossing(rules: Rules, lab: Laboratory, huge: Laboratory | None, told: Told) -> None:
    method = "a run to the end of a page"
    if rules.down and rules.found.down:
        told.unresolved("crosses_4k", "it runs downwards only, which is not asked at the page's end")
        return
    for parameter, memory in (("crosses_4k", lab), ("crosses_4k_in_2m", huge)):
        if memory is None:
            continue
        crosses = rules.crosses(memory)
        if crosses is False and rules.inner and lab.forget:
            told.unresolved(parameter, "the region prefetcher may have brought the run's last lines to level 1 before")
        else:
            told.value(parameter, crosses, method, UNCLEAR)
