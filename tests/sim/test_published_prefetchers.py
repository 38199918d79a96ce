"""Prefetchers as published, each against its source: which lines come by which access."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from setebench.sim import spec
from setebench.sim.truth.described import Watched


def alone(prefetcher: spec.AnyPrefetcher) -> Watched:
    """A machine with this prefetcher."""
    return Watched((prefetcher,), 64)


def came(watched: Watched, lines: Sequence[int], ip: int = 0x40) -> list[list[int]]:
    """For each access to a line of a fresh page, which lines came, as numbers of lines in that page."""
    first = watched.fresh_page()
    return [[each - first for each in watched.access(first + line, ip)] for line in lines]


def streamer(**changes: Any) -> Watched:
    return alone(spec.Streamer(level=2, trigger=3, **changes))


def reference_prediction(**changes: Any) -> Watched:
    return alone(spec.ReferencePrediction(level=1, fills="l1", **changes))


def test_a_stream_that_leads_by_new_lines() -> None:
    by_line = streamer(degree=2, max_distance=9, leads_by="new_line")
    fetched = came(by_line, [*range(10, 24)])
    assert fetched[:5] == [[], [], [13, 14], [15, 16], [17, 18]]
    assert fetched[-1] == [32]  # nine lines ahead of the last access, one more for each
    assert came(by_line, [10, 11, 12, 12, 12, 13]) == [[], [], [13, 14], [], [], [15, 16]]


def test_a_stream_that_counts_lines_in_any_order() -> None:
    any_order = spec.Streamer(level=2, trigger=4, counts="distinct", degree=2, max_distance=5)
    assert came(alone(any_order), [20, 24, 21, 22]) == [[], [], [], [25, 26]]  # beyond the furthest
    assert came(alone(any_order), [20, 21, 20, 22, 23, 24]) == [[], [], [], [], [24, 25], [26, 27]]
    assert came(alone(any_order), [24, 23, 22, 21]) == [[], [], [], [19, 20]]


def test_a_stream_buffer_is_kept_full_from_its_head() -> None:
    watched = alone(spec.StreamBuffer(level=2, buffers=4, depth=4))
    assert came(watched, [20, 21, 22]) == [[21, 22, 23, 24], [25], [26]]
    assert came(watched, [20, 23, 21, 25]) == [[21, 22, 23, 24], [], [25], []]


def test_best_offset_learns_the_distance_of_accesses() -> None:
    watched = alone(spec.BestOffset(level=2, max_offset=16, round_max=50))
    assert came(watched, [20]) == [[21]]  # the next line before anything was learned
    for _ in range(40):
        came(watched, range(0, 64, 3))
    assert came(watched, [20, 23]) == [[23], [26]]


FOOTPRINT = (5, 2, 9, 14)


def test_spatial_patterns_are_recalled_by_instruction_and_place() -> None:
    watched = alone(spec.Region(level=1, fills="l1", active_regions=4, region_size_bytes=1024))
    for _ in range(6):
        page = watched.fresh_page()
        for place, line in enumerate(FOOTPRINT):
            watched.access(page + line, 0x20 if place else 0x10)
    assert came(watched, [5], 0x10) == [[2, 9, 14]]
    assert came(watched, [5], 0x30) == [[]]  # another instruction
    assert came(watched, [6], 0x10) == [[]]  # another place in the region
    assert came(watched, [16 + 5], 0x10) == [[16 + 2, 16 + 9, 16 + 14]]


def test_reference_prediction_goes_through_its_states() -> None:
    steady = reference_prediction(starts="steady")
    assert came(steady, [0, 5, 10, 15]) == [[], [], [15], [20]]
    assert came(steady, [0, 5, 10, 12, 17, 22], 0x44) == [[], [], [15], [], [22], [27]]  # steady keeps its stride
    assert came(steady, [0, 5, 7, 10, 13, 16, 19], 0x48) == [[], [], [], [], [], [19], [22]]  # from no prediction
    early = reference_prediction(lookahead=2)
    assert came(early, [0, 5, 10]) == [[], [15], [20]]


def test_feedback_raises_and_lowers_what_a_stream_fetches() -> None:
    watched = alone(spec.Streamer(level=2, leads_by="access", feedback_interval=32))
    at_first = came(watched, range(8))
    assert [len(each) for each in at_first] == [0, 0, 2, 2, 2, 2, 2, 2]
    for _ in range(4):
        came(watched, range(64))
    assert max(len(each) for each in came(watched, range(8))) == 4
    for _ in range(60):  # streams that end where they begin
        came(watched, [3, 4, 5])
    assert max(len(each) for each in came(watched, range(8))) == 1


def test_complex_instructions_follow_their_distances() -> None:
    watched = alone(spec.InstructionClasses(level=1, fills="l1", complex_degree=2))
    lines = [line for line in range(64) if line % 9 in (0, 2)]
    for _ in range(5):
        came(watched, lines, 0x40)
    assert came(watched, [0, 2, 9, 11], 0x40)[-1][-1] in (18, 20)


def test_a_run_has_the_lines_ahead_that_its_lists_say() -> None:
    watched = alone(spec.Lead(level=2, leads=(1, 0, 3), leads_by_twos=(0, 0, 1)))
    assert came(watched, [20, 21, 22, 24, 27]) == [[21], [], [23, 24, 25], [], []]
    assert came(watched, [30, 29, 28, 26]) == [[31], [], [25, 26, 27], []]
    assert came(watched, [10, 11, 9, 8, 6]) == [[11], [], [], [5, 6, 7], []]  # a run begins anew where it turns
    distant = alone(spec.Lead(level=2, leads=(0, 3), nearest=3))
    assert came(distant, [20, 21, 22]) == [[], [24], [25]]
