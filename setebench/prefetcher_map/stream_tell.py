"""Telling by what rules a stream prefetcher runs."""

from __future__ import annotations

from setebench.infer.stream_rule import distance_bounds, least_distance
from setebench.prefetcher_map.across_cores import tell_across_cores
from setebench.prefetcher_map.kinds import ALL_KINDS, trained_by
from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.led_runs import UNCLEAR, directions
from setebench.prefetcher_map.replacement import of_streams, tell_replacement
from setebench.prefetcher_map.shared import tell_shared
from setebench.prefetcher_map.stream_rules import Rules
from setebench.prefetcher_map.stream_tables import ASKED_PER_PAGE, led_on, may_be_pushed_out, per_page, streams
from setebench.prefetcher_map.streams import Stream, gap_lines
from setebench.prefetcher_map.tell import Told
from setebench.prefetcher_map.visit import Visit
from setebench.prefetcher_map.wakers import hears_requests, tell_waking

ONE_RUN = "two runs in one page could not be taken up again one by one; run again at a quieter time"
ASKED_ALONG = (
    "level 1's next-line prefetcher asks for a line of its own with every access of a run; switch it off and run again"
)
TABLES = "runs in many pages, the first continued"
LED_ON = "level 2's streams lead these on, and their table may be the smaller one; switch those off and run again"
OF_LEVEL_TWO = "prefetchers of level 2 may go on where this one stops; switch those off and run again"
NOT_WHOLE = "level 2 loses some of the lines that push others out of level 1, and their misses take entries too"
NOT_ONE_DISTANCE = "where hits bring no more, no one distance explains; look at the chart"
NEEDS_TRIGGER = (
    *("trigger_at_page_edge", "degree", "max_distance"),
    *("streams", "replacement", "streams_per_page", "trained_by"),
)


def tell_stream(lab: Laboratory, huge: Laboratory | None, found: Stream, inner: bool, told: Told) -> None:
    """Ask and tell everything of a stream prefetcher that is there."""
    rules = Rules(lab, found, inner)
    run = "runs with gaps, seven accesses long at most"
    told.value("trigger", found.trigger, run, UNCLEAR)
    if found.trigger is None:
        for parameter in NEEDS_TRIGGER:
            told.unresolved(parameter, "the number of accesses that start it is not known; run again at a quieter time")
        return
    visit, targets = rules.training_visit()
    rules.asked_along = not inner and lab.known.next_in_l1 and hears_requests(rules) is not False
    kinds, reason = trained_by(lab, visit, lambda each: rules.streams_in(each, targets), lab.page_lines - 2)
    if rules.asked_along and kinds is not None and len(kinds) < len(ALL_KINDS):
        # loads have a request of level 1's own with each, so a run of another kind may just be too short
        kinds, reason = None, ASKED_ALONG
    told.value("trained_by", kinds, "the same run by other kinds of access", reason)
    present = [target for target in targets if lab.brings(visit, target)]
    level = lab.level(visit, present[0]) if present else None
    rules.fills_l1 = level == "l1"
    told.value(
        "fills",
        level,
        "level of the lines ahead",
        "their level stays unclear; run again without --fast, at a quieter time",
    )
    ways = _directions(rules)
    told.value("directions", ways, run, UNCLEAR)
    _tell_edges(rules, ways, told)
    degree = tell_reach(rules, told)
    if not inner:
        tell_waking(lab, degree, told)
    _tell_tables(rules, ways, told)
    tell_shared(lab, visit, trigger_steps(visit, found.trigger), targets, told)
    tell_across_cores(lab, visit, trigger_steps(visit, found.trigger), targets, told)
    _tell_crossing(rules, lab, huge, told)


def _tell_tables(rules: Rules, ways: str | None, told: Told) -> None:
    """Tell how many streams there are at once, and which of them is given up."""
    if rules.asked_along:
        for parameter in ("streams", "replacement", "streams_per_page"):
            told.unresolved(parameter, ASKED_ALONG)
        return
    entries = streams(rules)
    if entries is not None and led_on(rules):
        told.at_least("streams", entries, TABLES, LED_ON)
        told.unresolved("replacement", LED_ON)
    elif entries is not None and may_be_pushed_out(rules) and not rules.lab.known.walks_whole:
        told.at_least("streams", entries, TABLES, NOT_WHOLE)
        told.unresolved("replacement", NOT_WHOLE)
    else:
        told.value("streams", entries, TABLES, UNCLEAR)
        tell_replacement(of_streams(rules), entries, told)
    if ways is not None:
        _tell_per_page(per_page(rules, ways), told)


def _tell_per_page(streams: int | None, told: Told) -> None:
    """Two runs that both go on say that there are two at least: more are not asked."""
    method = "two runs in turn in one page"
    if streams == ASKED_PER_PAGE:
        told.at_least("streams_per_page", streams, method, "more runs in one page were not asked")
    else:
        told.value("streams_per_page", streams, method, ONE_RUN)


def trigger_steps(visit: Visit, trigger: int) -> int:
    """How many of the visit's accesses one thread makes: all but the last that the stream needs."""
    return min(trigger, len(visit.steps)) - 1


def _directions(rules: Rules) -> str | None:
    """Both ways are asked with the accesses that one way took; a way that is unclear leaves it open."""
    found = {}
    for down in (False, True):
        lines = gap_lines(rules.lab, rules.found.trigger or 0, down, end_odd=not down)
        found[down] = rules.starts(lines, down)
    return directions(found)


def _tell_edges(rules: Rules, ways: str | None, told: Told) -> None:
    last, trigger = rules.lab.page_lines - 1, rules.found.trigger or 0
    asked = [(0, False), (1, False), (last - 1, True), (last, True)]
    if ways is None:
        told.unresolved("trigger_at_page_edge", "the directions are not known, see there")
        return
    way = {"up": (False,), "down": (True,), "both": (False, True)}[ways]
    edges = [rules.trigger_from(line, down, trigger) if down in way else trigger for line, down in asked]
    if rules.inner and None not in edges:
        rules.lab.known.inner_starts_at_ends = 1 in edges
    if 1 in edges and not rules.inner and rules.lab.known.inner_streams and rules.lab.known.inner_starts_at_ends:
        told.unresolved(
            "trigger_at_page_edge",
            "one access is enough at an end, for level 1's streams perhaps as well; switch those off and run again",
        )
        return
    unlike = any(edge not in (None, trigger) for edge in edges)
    if unlike and led_on(rules):
        told.unresolved(
            "trigger_at_page_edge", "level 2's streams may start at a page's ends; switch those off and run again"
        )
        return
    told.value("trigger_at_page_edge", None if None in edges else list(edges), "runs from a page's ends", UNCLEAR)


def tell_reach(rules: Rules, told: Told) -> int | None:
    """Tell degree and distance; returns the degree."""
    method = "hits on one line that the stream has fetched"
    if led_on(rules):
        for parameter in ("degree", "max_distance"):
            told.unresolved(parameter, OF_LEVEL_TWO)
        return None
    degree = rules.degree()
    if rules.asked_along:  # a hit and the request that follows it may draw a batch each, the second from a line later
        for parameter in ("degree", "max_distance"):
            told.unresolved(parameter, ASKED_ALONG)
        return degree
    if degree is not None and rules.slides:
        told.at_least(
            "degree", degree, method, "where the limit holds a stream back, larger batches may be cut to a line"
        )
    else:
        unequal = "hits on one line, and on the next ones, did not bring equal batches; look at the chart"
        told.value("degree", degree, method, unequal)
    if degree is None:
        told.unresolved("max_distance", "the degree is not known, see there")
        return None
    _tell_distance(rules, degree, told)
    return degree


def _tell_distance(rules: Rules, degree: int, told: Told) -> None:
    """Tell the distance where a limit was seen, and otherwise how far the stream went at least."""
    method = "hits on one line that the stream has fetched"
    final = rules.final(degree)
    if final is None:
        told.unresolved("max_distance", NOT_ONE_DISTANCE, method)
        return
    least = least_distance(final, degree)
    room = rules.lab.page_lines - 1 - (rules.found.trigger or 0) * 7 - 2
    if least + degree - 1 >= room - 1:
        why = "the page ends before the stream does"
    elif degree == 1:
        why = "of single lines one can't see whether the last was started or ended by the limit"
    elif rules.limited(final):
        bounds = distance_bounds(final, degree)
        if bounds is None:
            told.unresolved("max_distance", NOT_ONE_DISTANCE, method)
        elif bounds[0] == bounds[1]:
            told.value("max_distance", bounds[0], method, "", *bounds)
        else:
            told.unresolved("max_distance", f"between {bounds[0]} and {bounds[1]}", method)
        return
    else:
        why = "every access to a further line brought more, so no limit shows"
    told.at_least("max_distance", least, method, why)


def _tell_crossing(rules: Rules, lab: Laboratory, huge: Laboratory | None, told: Told) -> None:
    method = "a run to the end of a page"
    if rules.down and rules.found.down:
        told.unresolved("crosses_4k", "it runs downwards only, which is not asked at the page's end")
        return
    for parameter, memory in (("crosses_4k", lab), ("crosses_4k_in_2m", huge)):
        if memory is None:
            continue
        told.value(parameter, rules.crosses(memory), method, UNCLEAR)
