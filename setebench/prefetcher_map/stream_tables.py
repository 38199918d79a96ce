"""How many streams a stream prefetcher follows at once, in all and in one page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from setebench.prefetcher_map.stream_rules import Rules
from setebench.prefetcher_map.streams import ahead, next_lines
from setebench.prefetcher_map.table_size import bisect
from setebench.prefetcher_map.visit import Access, Visit, own_instruction

MOST_STREAMS = 100
CROWDED_LOOKS, OFTEN = 120, 0.25
"""Repetitions that tell whether level 2 loses a line, and the share that counts: what is left of it beside a coarse
clock's error, where about half of the lines of a page offset are lost once there are more than level 2 holds."""

ASKED_PER_PAGE = 2
"""Runs that are made in one page at most."""

HITS = 2
"""Hits on the first line ahead of a run by which it is taken up again: a prefetcher of neighbouring lines may have
brought what the first of them would."""

HITS_LED_ON = 6
"""The same where level 2 leads on what level 1's streams ask for: it is a batch of its own ahead of them, so the next
line comes only when they have gone so far."""

Run = tuple[list[int], bool]
"""The lines of a run, and whether it goes downwards."""


def led_on(rules: Rules) -> bool:
    """Whether level 2 may go on where the stream, one of level 1, stops."""
    return rules.inner and not rules.fills_l1 and rules.lab.known.level_two_listens


def walked_between(rules: Rules) -> bool:
    """Whether lines are pushed out of level 1 between the accesses of runs (see `begun`)."""
    return rules.lab.known.inner_streams and not rules.inner


def may_be_pushed_out(rules: Rules) -> bool:
    """Whether lines that a walk doesn't find in level 2 may take entries that the runs had: there is one between their
    accesses, or before the line that is hit."""
    return walked_between(rules) or (rules.lab.known.next_in_l1 and not rules.inner)


def streams(rules: Rules) -> int | None:
    """How many runs, each in a page of its own, are remembered at once: the first is taken up again after all."""
    if walked_between(rules) and not rules.lab.known.walks_fit:
        return None  # what those walks miss takes entries too
    entries = bisect(lambda pages: _followed(rules, pages), MOST_STREAMS)
    return None if entries is None or _crowded(rules, entries + 1) else entries


def _crowded(rules: Rules, pages: int) -> bool:
    """Whether level 2 often lost the line that is hit, after runs in so many pages: then it lost lines that push it out
    of level 1 as well, and their misses, not the runs, may have taken the table's entries."""
    lines = rules.low_run(rules.found.trigger or 0)
    hits = first_hits(rules, lines)
    if rules.inner or hits[0].how != "demote":
        return False
    visit = visit_with(rules, [*begun(rules, lines, range(pages)), hits[0]], hit_lines(rules, lines), lines)
    found = rules.lab.sample(visit, [hits[0].at // rules.lab.line_size], CROWDED_LOOKS)
    return float(found.trained.of("l3", "memory")[0]) > OFTEN


def _followed(rules: Rules, pages: int) -> bool | None:
    """Whether the first of so many runs goes on when its next line is hit."""
    lines = rules.low_run(rules.found.trigger or 0)
    target = further(rules, lines)
    if target is None:
        return None
    steps = [*begun(rules, lines, range(pages)), *first_hits(rules, lines)]
    return rules.brings(visit_with(rules, steps, hit_lines(rules, lines), lines), target)


def begun(rules: Rules, lines: list[int], pages: Iterable[int]) -> list[Access]:
    """Runs of these lines in some pages, one after the other."""
    size = rules.lab.line_size
    if not (walked_between(rules) or rules.lab.known.forget):
        return [Access(line * size, page=page) for page in pages for line in lines]
    # line by line: once a region prefetcher has seen some whole runs, it brings the lines of further ones to level 1
    # with their first access, and level 2 hears of the last alone, which it may take for another run
    chosen, steps = list(pages), []
    for number, line in enumerate(lines):
        # instructions of their own, but those of a run, or each line would be made known to region prefetchers by all
        ips = [own_instruction(run * len(lines) + number) for run in range(len(chosen))]
        steps += [Access(line * size, ip=ip, page=page) for ip, page in zip(ips, chosen, strict=True)]
        if walked_between(rules):  # or level 1's own streams would go on in the pages
            steps.append(Access(0, "thrash"))
    return steps


def first_hits(rules: Rules, lines: list[int]) -> list[Access]:
    """Hits on the first line ahead of a run, in the visited page, by which it goes on."""
    if led_on(rules):
        return _taken_up(rules, (lines, rules.down), HITS_LED_ON)
    if rules.lab.known.next_in_l1:  # it has brought that line to level 1, and one more on its own
        return _taken_up(rules, (lines, rules.down), HITS)
    # nothing is pushed out of level 1: next to so many pages, level 2 may not hold what does that
    return [Access(line * rules.lab.line_size) for line in ahead(lines, 1, 1, rules.down)]


def further(rules: Rules, lines: list[int]) -> int | None:
    """The line that `first_hits` bring, one or two beyond those of the run alone; None where these are unclear."""
    before = rules.frontier_at_start()
    if before is None:
        return None
    return ahead(lines, 1, before + (HITS if rules.lab.known.next_in_l1 or led_on(rules) else 1), rules.down)[-1]


def hit_lines(rules: Rules, lines: list[int]) -> list[int]:
    """The lines that `first_hits` hit and whose neighbours must not be asked for. A next-line prefetcher that wants
    several accesses stays asleep, so the line behind a single hit, which a stream of one line a time brings, may be."""
    return ahead(lines, 1, 1, rules.down) if rules.lab.known.next_in_l1 else []


def visit_with(rules: Rules, steps: list[Access], hit: list[int], visited: list[int]) -> Visit:
    """The visit that makes these steps, of which some hit the lines `hit` and others visit the lines `visited`."""
    if rules.inner:
        return Visit(tuple(steps), demoted=tuple(sorted(visited)))
    # a next-line prefetcher of level 1 must not ask for the line behind the one that is hit
    warm = next_lines(rules.lab, hit) if rules.lab.known.next_after_hits else ()
    return Visit(tuple(steps), warm=tuple(line for line in warm if line not in visited))


def _taken_up(rules: Rules, run: Run, times: int) -> list[Access]:
    """Hits on the first line ahead of a run, which level 2 hears of if it has to."""
    lines, down = run
    at = ahead(lines, 1, 1, down)[0] * rules.lab.line_size
    hit = [Access(at)] if rules.inner else [Access(at, "demote"), Access(at)]
    return hit * times


def per_page(rules: Rules, directions: str) -> int | None:
    """How many of two runs in one page are remembered at once: one each way where both are followed, else both alike.

    A run that isn't taken up again says that the other one took its place only if it is taken up where it is alone:
    a stream that already is as far ahead as it goes answers no hit on its first line."""
    before = rules.frontier_at_start()
    if before is None:
        return None
    first, second = page_runs(rules, directions)
    size = rules.lab.line_size
    turns = [Access(line * size) for line in in_turn(first[0], second[0])]
    following = [ahead(lines, 1, 1, down)[0] for lines, down in (first, second)]
    hits = HITS_LED_ON if led_on(rules) else HITS
    told = []
    for run, steps in ((first, turns), (second, [*turns, *_taken_up(rules, first, 1)])):
        target = ahead(run[0], before + HITS, before + HITS, run[1])[0]
        if not 0 <= target < rules.lab.page_lines:
            return None
        for trained in (steps, [Access(line * size) for line in run[0]]):
            visit = visit_with(rules, [*trained, *_taken_up(rules, run, hits)], following, [*first[0], *second[0]])
            told.append(rules.brings(replace(visit, thrash=not rules.inner), target))
    together, alone = told[::2], told[1::2]
    if None in together or alone != [True, True]:
        return None
    if all(together):
        return ASKED_PER_PAGE
    # lines that the walks miss take entries, and between a run's accesses there are more walks if there is another run
    return 1 if rules.inner or rules.lab.known.walks_fit else None


def page_runs(rules: Rules, directions: str) -> tuple[Run, Run]:
    """Two runs in one page, of which the second lies behind the first, seen the way that the first goes."""
    half, last = rules.lab.page_lines // 2, rules.lab.page_lines - 1
    far = _upwards(rules, half + 2 if directions == "both" else half + 6)
    near = far if directions == "both" else _upwards(rules, 2)
    mirrored = [last - line for line in near]
    if directions == "both":
        return (far, False), (mirrored, True)
    if directions == "up":
        return (far, False), (near, False)
    return ([last - line for line in far], True), (mirrored, True)


def _upwards(rules: Rules, first: int) -> list[int]:
    """A run from about this line on that ends on an odd line, so that a line pair lies behind its end."""
    lines = [first + 3 * number for number in range(rules.found.trigger or 0)]
    return [line + 1 - lines[-1] % 2 for line in lines]


def in_turn(first: list[int], second: list[int]) -> list[int]:
    """Accesses of two runs in turn, the first one access ahead: it then has its direction before the other begins, and
    a prefetcher may take what lies further on for its own, but nothing behind it. The second one ends last, so what
    only follows the latest run has lost the first."""
    lines = first[:2]
    for number, line in enumerate(second):
        lines += [line, *first[number + 2 : number + 3]]
    return lines
