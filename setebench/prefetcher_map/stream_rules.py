"""By what rules a stream prefetcher runs: how many lines, how far, how many streams, what wakes it, where it stops."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from setebench.infer.stream_rule import batches, steady_degree
from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.streams import (
    HAMMERED,
    Stream,
    ahead,
    drawn_by_runs,
    gap_lines,
    hammering,
    l1_visit,
    l2_visit,
)
from setebench.prefetcher_map.visit import Access, Visit

GROWING, MOST_HITS = 6, 48
MOST_STEPS, ALIKE = 14, 2
"""Lines that hits go on by to see batches, and how many batches must be alike."""

AMID = 8
"""Lines before a page's end at which the next lines of a run, as many as are asked for, are still in the page."""


class Rules:
    """Questions about one stream prefetcher that has been found. `inner`: it is level 1's. `slides`: each further line
    that is hit brought one more, and no hit in between did, so that batches have one line or the limit cut them."""

    def __init__(self, lab: Laboratory, found: Stream, inner: bool) -> None:
        self.lab, self.found, self.inner = lab, found, inner
        self.down = found.down
        self.fills_l1 = False
        self.asked_along = False
        self.slides = False

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
        """Lines per batch: what each further hit on the same line brings, or, where the distance ends that before two
        batches were alike, what comes at once when hits go on one line further."""
        grown: list[int] = []
        for times in range(1, GROWING + 1):
            reached = self.frontier(1, times)
            if reached is None:
                return None
            grown.append(reached)
        rising = [line for number, line in enumerate(grown) if number == 0 or line > grown[number - 1]]
        steady = steady_degree(rising)
        return self._degree_of_steps() if steady is None else steady

    def _degree_of_steps(self) -> int | None:
        final: list[int] = []
        for hammered in range(1, MOST_STEPS + 1):
            reached = self.frontier(hammered, MOST_HITS)
            if reached is None:
                return None
            final.append(reached)
            if len([step for step in batches(final) if step]) == ALIKE:
                found = steady_degree(sorted(set(final)))
                self.slides = found == 1
                return found
        return None

    def final(self, degree: int) -> dict[int, int] | None:
        """The furthest lines when hits bring no more, by the line that is hit: as many neighbouring ones as a batch
        has, all counted from the run's last line."""
        final: dict[int, int] = {}
        for hammered in range(1, degree + 1):
            reached = self.frontier(hammered, MOST_HITS)
            if reached is None:
                return None
            final[hammered] = reached
        return final

    def limited(self, final: dict[int, int]) -> bool:
        """Whether something held the stream back: hits on a line brought more, then no more, or accesses to a further
        line brought nothing. A stream that only new lines lead on brings as much with each, and nothing between them,
        which looks like a limit after the first."""
        if self.frontier(1, 1) != final[1]:
            return True
        beyond = self.frontier(len(final) + 1, MOST_HITS)
        reached = [final[line] for line in sorted(final)] + ([] if beyond is None else [beyond])
        return any(before == after for before, after in pairwise(reached))

    def frontier_at_start(self) -> int | None:
        """Lines ahead of a run's last that are there when the run has just started the stream."""
        return self.frontier(1, 0)

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
            # amid the page, where one access starts no stream: at its ends it may
            amid = gap_lines(lab, 1, down)
            apart = [abs(target - amid[-1]) for target in drawn_by_runs(lab, amid, down)]
            targets = [line for number in apart for line in ahead(lines, number, number, down)]
            return lab.any_of(l1_visit(lab, lines, HAMMERED, down), targets) if targets else None
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
        """Whether a stream that runs upwards at a page's end goes on in the next page of `lab`'s memory. What remembers
        regions may bring the run's last lines to level 1 before their turn, so where there is such a prefetcher the
        same run must be led amid the page, or nothing follows from its end."""
        told = self._led_behind(lab, lab.page_lines - 1)
        if (
            told is False
            and self.inner
            and lab.known.forget
            and self._led_behind(lab, lab.page_lines - 1 - AMID) is not True
        ):
            return None
        return told

    def _led_behind(self, lab: Laboratory, last: int) -> bool | None:
        """Whether an upward run that ends on line `last` is led beyond it."""
        size, count = lab.line_size, self.found.trigger or 0
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
            return l1_visit(self.lab, lines, HAMMERED, self.down), drawn_by_runs(self.lab, lines, self.down)
        visit = l2_visit(self.lab, lines)
        single = self.lab.scan(l2_visit(self.lab, lines[-1:]), ahead(lines, 1, 4, self.down))
        targets = [target for target, value in single.items() if value is False]
        if self.lab.any_of(visit, targets):
            return visit, targets
        following = ahead(lines, 1, 1, self.down)[0]
        return hammering(self.lab, lines, [following] * 6), ahead(lines, 3, 5, self.down)
