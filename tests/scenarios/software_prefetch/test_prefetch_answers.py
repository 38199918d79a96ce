"""From shares and ticks of known truth to what software prefetches do."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from setebench.scenarios.software_prefetch import answers, busy, places, stores
from setebench.scenarios.software_prefetch.answers import Answer, Between, between, numbered, without_silent
from setebench.scenarios.software_prefetch.params import Params
from setebench.scenarios.software_prefetch.places import Penalty

from setebench.infer.mixture import Shares, unmix
from setebench.results import Outcome

PARAMS = Params()
LEVELS = ("l1", "l2", "l3", "memory")


def shares(*rows: tuple[float, ...], room: float = 0.04) -> Shares:
    value = np.array(rows)
    count = np.full(len(rows), 500)
    return Shares(LEVELS, value, np.clip(value - room, 0, 1), np.clip(value + room, 0, 1), count)


IN_MEMORY = (0.0, 0.0, 0.0, 1.0)
HALF = (0.0, 0.5, 0.0, 0.5)


@pytest.mark.parametrize(
    ("lines", "level"),
    [
        ((0.97, 0.03, 0, 0), "l1"),
        ((0.05, 0.9, 0, 0.05), "l2"),
        ((0, 0.1, 0.9, 0), "l3"),
        (IN_MEMORY, "none"),
        (HALF, None),
    ],
)
def test_a_line_landed_where_most_of_the_loads_are_served(lines: tuple[float, ...], level: str | None) -> None:
    found = answers.landed(shares(lines, IN_MEMORY), 0, 1, PARAMS)
    assert found.value == level
    assert bool(found.reason) == (level is None)


def test_lines_that_come_without_a_prefetch_say_nothing_about_it() -> None:
    in_l2 = (0.0, 1.0, 0.0, 0.0)
    assert answers.landed(shares(in_l2, HALF), 0, 1, PARAMS).value is None
    assert answers.done(shares(in_l2, (0.0, 0.7, 0.0, 0.3)), PARAMS).value is None
    # nearer than anything that the baseline brings, so it was the prefetch
    assert answers.landed(shares((1.0, 0.0, 0.0, 0.0), HALF), 0, 1, PARAMS).value == "l1"


@pytest.mark.parametrize(
    ("lines", "baseline", "value"),
    [
        ((1.0, 0.0, 0.0, 0.0), IN_MEMORY, True),
        (IN_MEMORY, IN_MEMORY, False),
        ((0.5, 0.0, 0.0, 0.5), IN_MEMORY, None),
        ((1.0, 0.0, 0.0, 0.0), HALF, True),
        (HALF, HALF, False),
    ],
)
def test_done_or_not(lines: tuple[float, ...], baseline: tuple[float, ...], value: bool | None) -> None:
    assert answers.done(shares(lines, baseline), PARAMS).value is value


def loads(cycles: float, count: int, rng: np.random.Generator, step: float) -> NDArray[np.int64]:
    return (np.floor((60 + cycles + rng.normal(0, 0.5, count)) / step + rng.random(count)) * step).astype(np.int64)


@pytest.mark.parametrize("step", [1.0, 28.0])
@pytest.mark.parametrize(("cycles", "known"), [(5.0, True), (14.0, False)])
def test_lines_between_two_known_levels_are_reported_as_neither(step: float, cycles: float, known: bool) -> None:
    rng = np.random.default_rng(5)
    references = {"l1": loads(5.0, 2000, rng, step), "memory": loads(400.0, 2000, rng, step)}
    ticks, baseline = loads(cycles, 2000, rng, step), loads(400.0, 2000, rng, step)
    found = unmix(references, [ticks, baseline], rng)
    seen = between(references, ticks, found, 0, step)
    landed = answers.landed(found, 0, 1, PARAMS)
    assert answers.unless_between(landed, seen, 5.0, PARAMS).value == ("l1" if known else None)


@pytest.mark.parametrize(
    ("level", "apart", "cycles", "value", "behind"),
    [
        ("l1", 9.0, 0.0, None, "l1"),
        ("l1", -4.0, 0.0, "l1", ""),  # nothing is nearer: the core became faster
        ("l2", -4.0, 10.0, None, "l1"),
        ("l3", -2.6, 60.0, "l3", ""),
        ("l3", -12.0, 60.0, None, "l2"),
        ("l3", 3.0, 60.0, "l3", ""),
        ("none", 5.2, 300.0, "none", ""),
        ("none", -120.0, 300.0, None, "l2"),
    ],
)
def test_lines_lie_in_another_level_where_they_take_clearly_longer_or_shorter_than_their_own(
    level: str, apart: float, cycles: float, value: str | None, behind: str
) -> None:
    found = answers.unless_between(Answer(level), Between(apart, 0.1, cycles), 5.0, PARAMS)
    assert (found.value, found.unknown_after) == (value, behind)


def test_a_silent_hint_is_not_reported_beside_one_that_works() -> None:
    """A real CPU ignored t1 for seconds and then honoured it; `none` was reported in one run and `l2` in the next."""
    found = without_silent({"t0": Answer("l1"), "t1": Answer("none")}, 36)
    assert (found["t0"].value, found["t1"].value) == ("l1", None)
    assert without_silent({"t0": Answer("none"), "t1": Answer("none")}, 36)["t1"].value == "none"


def test_caches_behind_an_unknown_one_have_no_number() -> None:
    found = {"t0": Answer("l1"), "t1": Answer(reason="between", unknown_after="l1"), "t2": Answer("l2")}
    found = numbered(found, ("l1", "l2", "memory"))
    assert (found["t0"].value, found["t1"].value, found["t2"].value) == ("l1", None, None)
    assert numbered({"t0": Answer("l1"), "t2": Answer("l2")}, ("l1", "l2", "memory"))["t2"].value == "l2"


FIRST, SECOND, NONE = Penalty(8.0, 0.2), Penalty(35.0, 0.3), Penalty(0.3, 0.2)
YES, NO = Answer(True), Answer(False)


@pytest.mark.parametrize(
    ("walks", "across", "l1", "l2"),
    [
        ([(192, FIRST, YES), (8192, SECOND, YES)], True, True, True),
        ([(192, FIRST, YES), (8192, SECOND, NO)], True, True, False),
        ([(192, FIRST, NO), (8192, SECOND, NO)], True, False, False),
        ([(192, FIRST, NO), (8192, SECOND, NO)], False, False, False),
        ([(192, FIRST, NO), (8192, SECOND, NO)], None, None, None),
        ([(192, NONE, YES), (8192, NONE, YES)], True, None, None),
        ([(192, NONE, YES), (8192, SECOND, YES)], True, True, True),
        ([(192, NONE, YES), (8192, SECOND, NO)], True, None, False),
        ([(192, FIRST, YES), (8192, FIRST, YES)], True, True, None),
        ([(192, FIRST, YES), (8192, FIRST, YES), (40000, SECOND, NO)], True, True, False),
    ],
)
def test_tlb_misses_count_where_they_are_shown(
    walks: list[tuple[int, Penalty, Answer]], across: bool | None, l1: bool | None, l2: bool | None
) -> None:
    first, second = places.on_tlb_misses(walks, across, PARAMS)
    assert (first.value, second.value) == (l1, l2)


@pytest.mark.parametrize(
    ("touched", "cached", "value"),
    [
        (1590.0, NO, False),
        (60.0, YES, True),
        (60.0, NO, False),
        (60.0, Answer(reason="zeroed"), True),
        (1000.0, NO, None),
    ],
)
def test_a_done_prefetch_saves_the_page_fault(touched: float, cached: Answer, value: bool | None) -> None:
    assert places.mapped(touched / 1600.0, cached, PARAMS).value is value


@pytest.mark.parametrize(
    ("late", "held_ticks", "value"),
    [
        (IN_MEMORY, 0.0, "drops"),
        ((0.3, 0.0, 0.0, 0.7), 600.0, "drops"),
        ((1.0, 0.0, 0.0, 0.0), 2000.0, "stalls"),
        ((1.0, 0.0, 0.0, 0.0), 50.0, None),
        ((0.8, 0.0, 0.0, 0.2), 2000.0, None),
    ],
)
def test_full_queues(late: tuple[float, ...], held_ticks: float, value: str | None) -> None:
    assert busy.full(shares(late, IN_MEMORY), held_ticks / 300.0, PARAMS).value == value


@pytest.mark.parametrize(
    ("miss", "with_work", "value"),
    [
        (400.0, 500.0, "blocking"),
        (400.0, 401.0, "nonblocking"),
        (400.0, 450.0, None),
        (70.0, 165.0, "nonblocking"),  # nothing waits for the miss itself: a store, a prefetch
        (70.0, 500.0, None),
    ],
)
def test_work_behind_a_miss(miss: float, with_work: float, value: str | None) -> None:
    assert busy.blocks((65.0, miss, with_work), 100.0, 335.0, PARAMS).value == value


def test_a_vague_store_latency_is_not_reported() -> None:
    good = stores.store_latency("p", [[60.0, 59.9, 60.1, 60.0]] * 2, "m", PARAMS)
    assert (good.outcome, good.value) == (Outcome.MEASURED, 60.0)
    assert good.low is not None and good.low < 59.7  # a round's own spread does not show the calibration's drift
    assert stores.store_latency("p", [[60.0, 50.0, 70.0, 55.0]] * 2, "m", PARAMS).outcome is Outcome.UNRESOLVED


@pytest.mark.parametrize(
    ("with_pattern", "without", "value"),
    [
        (HALF, IN_MEMORY, True),
        (IN_MEMORY, IN_MEMORY, False),
        ((0.0, 0.06, 0.0, 0.94), IN_MEMORY, None),
        (HALF, HALF, None),
    ],
)
def test_training(with_pattern: tuple[float, ...], without: tuple[float, ...], value: bool | None) -> None:
    found = shares(with_pattern, without, room=0.01)
    assert answers.trains_hardware({"run": found}, PARAMS).value is value
    assert (
        answers.trains_hardware({"quiet": shares(IN_MEMORY, IN_MEMORY, room=0.01), "run": found}, PARAMS).value is value
    )


def test_a_store_that_takes_longer_at_another_time_is_not_reported() -> None:
    """As where a hypervisor moves a virtual CPU to another die in the middle of a run."""
    near, far = [97.0, 96.5, 97.5, 97.0], [470.0, 468.0, 472.0, 470.0]
    moved = stores.store_latency("p", [near, near, far], "m", PARAMS)
    assert moved.outcome is Outcome.UNRESOLVED and moved.reason is not None and "97, 97, 470" in moved.reason
    stayed = stores.store_latency("p", [near, [99.0, 98.5, 99.5, 99.0]], "m", PARAMS)
    assert stayed.low is not None and stayed.high is not None and stayed.low <= 97.0 and stayed.high >= 99.0


def test_rounds_that_differ_are_not_close_enough() -> None:
    assert stores.close_enough([8.0, 8.3, 7.9, 8.1, 8.0, 8.2, 7.8, 8.1], PARAMS)
    assert not stores.close_enough([8.0, 19.0, -4.0, 8.1, 30.0, 8.2, -9.0, 25.0], PARAMS)
    assert stores.close_enough([500.0, 520.0, 480.0, 505.0, 510.0, 495.0, 500.0, 500.0], PARAMS)
