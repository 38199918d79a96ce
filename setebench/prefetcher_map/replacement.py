"""Which entry a full table of runs gives up for a new one: the one unused longest, or the one that is there longest.

As many runs are begun as the table holds, in order. The oldest are then used once more, new ones are begun, and one
that was not used again is taken up: it goes on, or was forgotten. After `k` were used again, the least recently used is
run `k`, and the oldest is still the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.stream_rules import Rules as StreamRules
from setebench.prefetcher_map.stream_tables import begun, first_hits, further, hit_lines, visit_with
from setebench.prefetcher_map.streams import ahead
from setebench.prefetcher_map.strides import STRIDE
from setebench.prefetcher_map.table_size import others_first
from setebench.prefetcher_map.tell import Told
from setebench.prefetcher_map.visit import BLOCK_PAGES, Access, Visit, fresh

if TYPE_CHECKING:  # these modules tell replacement, so they import this one
    from setebench.prefetcher_map.page_strides import PageRules
    from setebench.prefetcher_map.stride_rules import Rules as StrideRules

METHOD = "a full table whose oldest runs were used again before new ones came: which runs still go on"
NO_SIZE = "how many runs the table holds is not known, see streams"
ONE = "a table of one run gives up that one, whatever its rule"
NEITHER = "neither the run unused longest nor the oldest is given up each time, or lines came in some repetitions only"
MOST_INSTRUCTIONS = 62
"""Runs of instruction addresses that differ in their low six bits."""

MOST_PAGES = BLOCK_PAGES - 2


@dataclass(frozen=True)
class History:
    """What a table of `entries` runs went through: all begun in order, the `again` oldest used once more, `new` ones
    begun. Then run number `asked` is taken up, unless it was used again: then its last use is what is asked for."""

    entries: int
    again: int
    new: int
    asked: int

    @property
    def takes_up(self) -> bool:
        """Whether the asked run is only now taken up."""
        return self.asked >= self.again

    def page(self, run: int) -> int:
        """The page of a run: the visited one for the run that is asked for, another one for every other."""
        return 0 if run == self.asked else run + 1


GoesOn = Callable[[History], bool | None]
"""Whether the asked run goes on after this history; None where that stays unclear."""


def policy(goes_on: GoesOn, entries: int, most: int) -> str | None:
    """`lru` or `fifo` where all that is asked fits that rule, else None. `most` runs can be told apart in all."""
    numbers = sorted({1, min(entries // 2, most - entries - 1)})
    if numbers[0] < 1:
        return None
    first = goes_on(History(entries, 1, 1, 1))
    if first is None:
        return None
    rule = _fifo if first else _lru
    for again in numbers:
        # a use that the table doesn't notice would make any rule look like the oldest-first one
        expected = [(History(entries, again, 0, again - 1), True), (History(entries, again, 0, again), True)]
        if any(goes_on(history) is not told for history, told in (*expected, *rule(entries, again))):
            return None
    return "fifo" if first else "lru"


def _lru(entries: int, again: int) -> list[tuple[History, bool]]:
    """The run unused longest is the first that was not used again; the next one stays."""
    asked = [(History(entries, again, 1, again), False)]
    if again + 1 < entries:
        asked.append((History(entries, again, 1, again + 1), True))
    return asked


def _fifo(entries: int, again: int) -> list[tuple[History, bool]]:
    """Those used again go first all the same, one for each new run."""
    return [
        (History(entries, again, 1, again), True),
        (History(entries, again, again, again), True),
        (History(entries, again, again + 1, again), False),
    ]


def tell_replacement(goes_on: GoesOn, entries: int | None, told: Told, most: int = MOST_PAGES) -> None:
    """Tell which entry a table gives up, where its size is known."""
    if entries is None or entries < 2:
        told.unresolved("replacement", NO_SIZE if entries is None else ONE, METHOD)
        return
    told.value("replacement", policy(goes_on, entries, most), METHOD, NEITHER)


Accesses = Callable[[Sequence[int]], list[Access]]


def _steps(history: History, begin: Accesses, use: Accesses) -> list[Access]:
    """The accesses of a history, from those that begin runs and those that use them."""
    last = history.entries + history.new
    steps = begin(range(history.entries)) + use(range(history.again)) + begin(range(history.entries, last))
    return steps + (use([history.asked]) if history.takes_up else [])


# -- tables of the kinds of prefetchers ----------------------------------------------------------------------------


def of_strides(rules: StrideRules) -> GoesOn:
    """Runs of one instruction each."""
    lab, stride = rules.lab, rules.found.stride * (-1 if rules.found.down else 1)
    first = 3 if stride > 0 else lab.page_lines - 4
    lines = [first + stride * number for number in range(rules.trigger)]

    def goes_on(history: History) -> bool | None:
        def accesses(runs: Sequence[int], of: list[int]) -> list[Access]:
            return [Access(line * lab.line_size, ip=fresh(run), page=history.page(run)) for run in runs for line in of]

        steps = _steps(history, lambda runs: accesses(runs, lines[:-1]), lambda runs: accesses(runs, lines[-1:]))
        return rules.brings(
            Visit(tuple(steps), lessons=others_first(history.entries + history.new, lines[0] * lab.line_size)),
            lines[-1] + stride,
        )

    return goes_on


def of_page_strides(rules: PageRules) -> GoesOn:
    """Runs in one page each, which level 2 hears of."""
    run = rules.run(rules.trigger, STRIDE)

    def goes_on(history: History) -> bool | None:
        steps = _in_pages(history, run.lines[:-1], run.lines[-1], rules.lab.line_size)
        return rules.lab.brings(replace(run.visit(run.lines), steps=tuple(steps)), run.ahead[0])

    return goes_on


def of_dense_streams(lab: Laboratory, begun_lines: list[int], used: int, down: bool) -> GoesOn:
    """Runs of neighbouring lines in one page each, which one more access continues."""
    target = ahead([used], 2, 2, down)[0]

    def goes_on(history: History) -> bool | None:
        return lab.in_l1(Visit(tuple(_in_pages(history, begun_lines, used, lab.line_size))), target)

    return goes_on


def _in_pages(history: History, begun: list[int], used: int, size: int) -> list[Access]:
    """The accesses of a history whose runs are told apart by their pages alone."""

    def accesses(runs: Sequence[int], of: list[int]) -> list[Access]:
        return [Access(line * size, page=history.page(run)) for run in runs for line in of]

    return _steps(history, lambda runs: accesses(runs, begun), lambda runs: accesses(runs, [used]))


def of_streams(rules: StreamRules) -> GoesOn:
    """Runs of a stream prefetcher in one page each, used by hits on the first line ahead."""
    lines = rules.low_run(rules.found.trigger or 0)

    def goes_on(history: History) -> bool | None:
        def begin(runs: Sequence[int]) -> list[Access]:
            return begun(rules, lines, [history.page(run) for run in runs]) if runs else []

        def use(runs: Sequence[int]) -> list[Access]:
            return [each for hit in first_hits(rules, lines) for each in _everywhere(hit, history, runs)]

        target = further(rules, lines)
        if target is None:
            return None
        steps = _steps(history, begin, use)
        return rules.brings(visit_with(rules, steps, hit_lines(rules, lines), lines), target)

    return goes_on


def _everywhere(hit: Access, history: History, runs: Sequence[int]) -> list[Access]:
    """A hit in the pages of these runs; what pushes its line out of level 1 does so in all of them at once."""
    return [hit] if hit.how == "demote" else [replace(hit, page=history.page(run)) for run in runs]
