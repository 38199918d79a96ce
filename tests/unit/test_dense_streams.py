"""Streams of neighbouring lines, asked of made-up prefetchers: what leads a run, and what only looks so."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import cast

from setebench.prefetcher_map.dense import find_dense_stream, tell_dense_stream
from setebench.prefetcher_map.known import Known
from setebench.prefetcher_map.laboratory import Laboratory
from setebench.prefetcher_map.tell import Told
from setebench.prefetcher_map.visit import Access, Visit
from setebench.results import Outcome

LINES, SIZE = 64, 64
Model = Callable[[list[int]], set[int]]


class MadeUp:
    """Answers of a laboratory about a prefetcher of level 1 that brings `model(lines accessed in a page)`."""

    page_lines, line_size, known = LINES, SIZE, Known(next_in_l1=False)
    context = SimpleNamespace(cpu=None, machine=SimpleNamespace(facts=SimpleNamespace(cpus=(0,), siblings=())))

    def __init__(self, model: Model, pages: int = 100) -> None:
        self.model, self.pages = model, pages

    def in_l1(self, visit: Visit, target: int) -> bool:
        visited = [step for step in visit.steps if step.page == 0]
        forgotten = len({step.page for step in visit.steps}) > self.pages
        seen: list[Access] = visited[-1:] if forgotten else visited
        lines = [step.at // SIZE for step in seen]
        return target in self.model(lines) | set(lines)

    def plainly(self, visit: Visit, target: int, inner: bool) -> bool:
        return self.in_l1(visit, target)

    def lab(self) -> Laboratory:
        return cast(Laboratory, self)


def neighbours_led(lines: list[int]) -> set[int]:
    """Three accesses one way, none further than two lines from the one before, bring four lines ahead."""
    run = 1
    for before, after in pairwise(lines):
        run = run + 1 if 0 < after - before <= 2 else 1
    return set(range(lines[-1] + 1, lines[-1] + 5)) if run >= 3 else set()


def whole_block(lines: list[int]) -> set[int]:
    """Three accesses to a block of 16 lines, in any order, bring all of it."""
    return {16 * (lines[-1] // 16) + n for n in range(16)} if len(lines) >= 3 else set()


def next_line(lines: list[int]) -> set[int]:
    return {line + 1 for line in lines}


def test_a_stream_of_neighbours_is_found_with_its_rules() -> None:
    lab = MadeUp(neighbours_led, pages=12).lab()
    found = find_dense_stream(lab)
    assert (found.present, found.down, found.trigger) == (True, False, 3)
    told = Told("l1.stream")
    tell_dense_stream(lab, None, found, told)
    values = {finding.parameter.rsplit(".", 1)[1]: finding for finding in told}
    assert values["directions"].value == "up"
    assert values["streams"].value == 12
    assert values["crosses_4k"].value is True
    assert values["max_distance"].outcome is Outcome.UNRESOLVED
    assert "4 and 4 and 4 lines ahead" in str(values["max_distance"].reason)


def test_what_comes_in_any_order_is_no_stream() -> None:
    assert find_dense_stream(MadeUp(whole_block).lab()).present is not True


def test_next_lines_and_nothing_are_no_stream() -> None:
    assert find_dense_stream(MadeUp(next_line).lab()).present is False
    assert find_dense_stream(MadeUp(lambda lines: set()).lab()).present is False
