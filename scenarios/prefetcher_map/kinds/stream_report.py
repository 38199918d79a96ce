"""All that is reported of a stream prefetcher that is there, and how many runs it follows at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from setebench.experiments.visits import LAYOUT, Access, Visit, instruction

from ..attributes import (
    directions,
    report_across_cores,
    report_crossing,
    report_fills,
    report_shared,
    report_trained_by,
)
from ..found import Answer, Found, Question
from ..lab import Lab
from ..models import Fit
from ..report import UNCLEAR, Report
from ..requests import report_streams
from ..tables import METHOD as TABLES
from ..tables import History, report_replacement, size
from .neighbours import even_line
from .runs import WAYS, ahead, dense_question, gap_lines, loads, mirrored, near_lines, next_lines
from .streams import Rules, drawn_singly
from .strides import DOWN_ONLY, TO_END

RUN = "runs with gaps, seven accesses long at most"
DENSE = "a run of neighbouring lines, each by its own instruction"
RULES = "rules that explain how far ahead a run was after each access, and after hits on one line"
BY_NEXT_LINE = "accesses to one line that level 2 holds, so that level 1's next-line prefetcher alone misses there"
NO_TRIGGER = "the number of accesses that start it is not known; run again at a quieter time"
ASKED_ALONG = (
    "level 1's next-line prefetcher asks for a line of its own with every access of a run; switch it off and run again"
)
LED_ON = "level 2's streams lead these on, and their table may be the smaller one; switch those off and run again"
OF_LEVEL_TWO = "prefetchers of level 2 may go on where this one stops; switch those off and run again"
OUTER_AT_END = "level 2's streams may start at a page's ends; switch those off and run again"
AT_END = "one access is enough at an end, for level 1's streams perhaps as well; switch those off and run again"
NOT_WHOLE = "level 2 loses some of the lines that push others out of level 1, and their misses take entries too"
ONE_RUN = "two runs in one page could not be taken up again one by one; run again at a quieter time"
NO_RULE = "no rule explains how far ahead it was after each access ({seen}); look at the chart"
BY_USE = "after many runs it leads them otherwise than at first: how far it goes depends on what was of use before"
WATCHED = "what would push the line out each time has its own lines watched"
NOT_ONE = (
    "one request of level 1's next-line prefetcher does not start it, and more can't be made one by one; or it brings "
    "one line, as would a next-line prefetcher of level 2"
)


@dataclass(frozen=True, kw_only=True)
class Taken:
    """hits, hits_led_on: hits on the first line ahead by which a run is taken up again: a prefetcher of neighbouring
    lines may have brought what the first would; and where level 2 is a batch of its own ahead of level 1's streams.
    practice, warm_up: pages gone through before a run in every repetition, and repetitions made before any counts.
    often: fraction of repetitions in which a lost line counts. apart, page_apart: lines between two runs in one page,
    and between accesses of each."""

    hits: int = 2
    hits_led_on: int = 6
    practice: int = 2
    warm_up: int = 40
    often: float = 0.25
    apart: int = 6
    page_apart: int = 3


T = Taken()


class Tables(Rules):
    """Questions about what one stream prefetcher remembers at once."""

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
            return self.taken_up(lines, self.down, T.hits_led_on if self.led_on else T.hits)
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
        further = before + (T.hits if self.lab.known.next_in_l1 or self.led_on else 1)

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
        return None if self.lab.lost(visit, hits[0].at // self.lab.line_size) > T.often else entries

    def per_page(self, ways: str) -> int | None:
        """How many of two runs in one page are remembered at once: one each way where both are followed, else both
        alike. A run that isn't taken up again says that the other one took its place only if it is taken up where it is
        alone: a stream that already is as far ahead as it goes answers no hit on its first line."""
        before, lab = self.at_start(), self.lab
        if before is None or (self.led_on and lab.known.finds.get("l2.other", Found()).present):
            return None
        first, second = self._page_runs(ways)
        turns = list(loads(lab, _in_turn(first[0], second[0])))
        following = [ahead(lines, 1, 1, down)[0] for lines, down in (first, second)]
        hits = T.hits_led_on if self.led_on else T.hits
        answers = []
        for run, steps in ((first, turns), (second, [*turns, *self.taken_up(*first, 1)])):
            target = ahead(run[0], before + T.hits, before + T.hits, run[1])[0]
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
        half = self.lab.page_lines // 2

        def upwards(first: int) -> list[int]:  # ends on an odd line, so that a line pair lies behind its end
            lines = [first + T.page_apart * number for number in range(self.trigger)]
            return [line + 1 - lines[-1] % 2 for line in lines]

        far = upwards(half + 2 if ways == "both" else half + T.apart)
        near = far if ways == "both" else upwards(2)
        first, second = ways == "down", ways != "up"
        return (mirrored(self.lab, far, first), first), (mirrored(self.lab, near, second), second)


def _in_turn(first: list[int], second: list[int]) -> list[int]:
    """Accesses of two runs in turn, the first one access ahead: it then has its direction before the other begins, and
    a prefetcher may take what lies further on for its own, but nothing behind it. The second one ends last, so what
    only follows the latest run has lost the first."""
    lines = first[:2]
    for number, line in enumerate(second):
        lines += [line, *first[number + 2 : number + 3]]
    return lines


def report_stream(lab: Lab, huge: Lab | None, found: Found, report: Report) -> None:
    """Ask and report everything of a stream prefetcher that is there."""
    report.value("trigger", found.trigger, DENSE if found.dense else RUN, UNCLEAR)
    if found.trigger is None or found.question is None:
        report.open(("degree", "max_distance", "streams", "replacement"), NO_TRIGGER)
        return
    rules = Tables(lab, found, inner=report.identity.startswith("l1"))
    if not found.dense:
        report_trained_by(lab, found.question, report, ASKED_ALONG if rules.asked_along else "")
    rules.fills_l1 = report_fills(lab, found.question, report) == "l1"
    ways = _ways(rules)
    report.value("directions", ways, RUN, UNCLEAR)
    if not found.dense:
        _report_edges(rules, ways, report)
    report_reach(rules, report)
    _report_tables(rules, ways, report)
    if not rules.inner:
        report_streams(lab, _report_waking(lab, report), report)
    first = min(found.trigger, len(found.question.visit.steps)) - 1 if not found.dense else lab.params.dense_run - 1
    report_shared(lab, found.question, first, report)
    report_across_cores(lab, found.question, first, report)
    if found.down and ways == "down":
        report.unresolved("crosses_4k", DOWN_ONLY)
    else:
        report_crossing(rules.crosses, lab, huge, TO_END, report)


def _ways(rules: Rules) -> str | None:
    """Both ways are asked with the accesses that one way took; a way that is unclear leaves it open."""
    lab, found = rules.lab, rules.found
    if found.dense:
        return directions({down: lab.ask(dense_question(lab, lab.params.dense_run, down)) for down in WAYS})
    answers = {}
    for down in WAYS:
        answers[down] = rules.starts(gap_lines(lab, rules.trigger, down, end_odd=not down), down)
        if answers[down] and down is not found.down and lab.known.others_learn and not rules.fills_l1:
            answers[down] = None  # only one way was held against runs that were never made before
        if answers[down] is False and not rules.inner and drawn_singly(lab, rules.trigger, down):
            answers[down] = None
    return directions(answers)


def _report_edges(rules: Rules, ways: str | None, report: Report) -> None:
    known, last, trigger, name = rules.lab.known, rules.lab.page_lines - 1, rules.trigger, "trigger_at_page_edge"
    if ways is None:
        report.unresolved(name, "the directions are not known, see there")
        return
    followed = {"up": (False,), "down": (True,), "both": WAYS}[ways]
    asked = ((0, False), (1, False), (last - 1, True), (last, True))
    edges = [rules.trigger_from(line, down) if down in followed else trigger for line, down in asked]
    if rules.inner and None not in edges:
        known.inner_starts_at_ends = 1 in edges
    unlike = any(edge not in (None, trigger) for edge in edges)
    if 1 in edges and not rules.inner and known.inner_streams and known.inner_starts_at_ends:
        report.unresolved(name, AT_END)
    elif unlike and rules.led_on:
        report.unresolved(name, OUTER_AT_END)
    else:
        report.value(name, None if None in edges else list(edges), "runs from a page's ends", UNCLEAR)


def leads_as_fitted(rules: Rules, fit: Fit) -> Answer:
    """Whether a run of neighbouring lines is led, after many such runs in other pages, as the rules say that explain
    the first one; what comes to lead further, or less far, goes by what was of use."""
    lab, down = rules.lab, rules.down
    if rules.beside:
        return None
    count = rules.trigger + lab.params.near
    lines = near_lines(lab, count, down, (1, 1))
    practice = [near_lines(lab, lab.page_lines - 1 - lab.params.lead_from, down, (1, 1))] * T.practice
    steps = [replace(each, page=page) for page, run in enumerate(practice, 1) for each in loads(lab, run)]
    visit = Visit((*steps, *loads(lab, lines)), thrash=rules.traversed)
    expected = fit.lead([lab.params.lead_from + number for number in range(count)], lab.page_lines)
    if not expected or not expected[-1]:
        return None
    lab.samples(visit, [lines[0]], T.warm_up)
    edge = ahead(lines, expected[-1], expected[-1] + 1, down)
    answers = [rules.comes(visit, line) for line in edge]
    return None if None in answers else answers == [True, False]


def report_reach(rules: Rules, report: Report) -> None:
    """Degree, distance, what leads it and the lead itself, from the rules that explain what was seen."""
    why = OF_LEVEL_TWO if rules.led_on else ASKED_ALONG if rules.asked_along else ""
    fit = None if why else rules.fit()
    if fit is not None and fit.fits and leads_as_fitted(rules, fit) is False:
        fit, why = None, BY_USE
    if fit is None or not fit.fits:
        differ = f"{fit.unexplained:.0%} of the counts differ" if fit and fit.rules else "nothing could be counted"
        report.open(("degree", "max_distance", "leads_by", "lead"), why or NO_RULE.format(seen=differ), RULES)
        return
    degrees, modes = fit.values("degree"), fit.values("leads_by")
    distances = [int(each) for each in fit.values("distance")]
    if len(degrees) == 1:
        report.value("degree", degrees[0], RULES, "")
    else:
        report.at_least("degree", int(degrees[0]), RULES, "the limit holds it back, and may cut larger batches")
    if len(distances) == 1:
        report.value("max_distance", distances[0], RULES, "", (distances[0], distances[0]))
    else:
        why = f"rules with distances up to {distances[-1]} explain the same"
        report.at_least("max_distance", distances[0], RULES, why)
    report.value("leads_by", modes[0] if len(modes) == 1 else None, RULES, f"{' or '.join(map(str, modes))}")
    params = rules.lab.params
    canonical = [params.lead_from + number for number in range(params.lead_accesses)]
    report.value("lead", fit.lead(canonical, rules.lab.page_lines), RULES, "the rules that fit differ in it")


def _report_tables(rules: Tables, ways: str | None, report: Report) -> None:
    """How many streams there are at once, in all and in one page, and which of them is given up."""
    if rules.asked_along:
        report.open(("streams", "replacement", "streams_per_page"), ASKED_ALONG)
        return
    known, entries = rules.lab.known, rules.entries()
    pushed_out = rules.traversed or (known.next_in_l1 and not rules.inner)
    bound = LED_ON if rules.led_on else NOT_WHOLE if pushed_out and not known.traversals_whole else ""
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


def _report_waking(lab: Lab, report: Report) -> Answer:
    """Whether one request of level 1's next-line prefetcher starts a stream (Fang et al. 2014, Table VI); None where
    there is no such prefetcher, or its rules are not known. The line is even and the next one odd, so that no line pair
    reaches beyond them. The control has the next line in level 1 already, so that nothing is asked for. Where level 2
    may have a next-line prefetcher the line behind the one that is asked for says nothing, nor does a further one that
    an access to that one brings."""
    inner, name, line = lab.known.inner_next, "trigger_by_l1_prefetcher", even_line(lab)
    if inner.trigger is None:
        return None
    if inner.flushed and inner.trigger > 1:
        report.unresolved(name, WATCHED)
        return None
    asking = Visit((Access(line * lab.line_size),) * inner.trigger, demoted=(line,))
    targets: tuple[int, ...] = (line + 2, line + 3)
    controls: tuple[Visit, ...] = (replace(asking, warm=(line + 1,)),)
    if lab.known.outer_next:
        targets, controls = targets[1:], (*controls, Visit((Access((line + 1) * lab.line_size),), warm=(line + 2,)))
    woken = lab.ask(Question(asking, targets, controls))
    why = NOT_ONE if woken is False else f"lines ahead come without the request, or {UNCLEAR}"
    report.value(name, 1 if woken else None, BY_NEXT_LINE, why)
    return woken
