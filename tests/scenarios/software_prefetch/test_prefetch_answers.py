"""From shares and ticks of known truth to what software prefetches do, and to the figure of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from setebench.scenarios.software_prefetch import answers, places
from setebench.scenarios.software_prefetch.answers import Answer, between
from setebench.scenarios.software_prefetch.fills import chosen
from setebench.scenarios.software_prefetch.params import Params
from setebench.scenarios.software_prefetch.places import Penalty
from setebench.scenarios.software_prefetch.plot import draw
from setebench.scenarios.software_prefetch.run import Run

from setebench.errors import SetebenchError
from setebench.experiments.lines.serving import PARAMS as SERVING
from setebench.experiments.lines.serving import References
from setebench.machine import Ticks
from setebench.report.plots.plot import alt_text
from setebench.stats.ticks.mixture import Shares, unmix

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


# -- a core in a guest ignored t1 and t2 for seconds on end ----------------------------------------------------------


L1, MEMORY = 40, 400
TURN = 30


def ticks(cycles: int, count: int = 600) -> Any:
    return np.random.default_rng(cycles).normal(cycles, 4, count).astype(np.int64)


class Looked(Run):
    """A run without a machine, whose hint does nothing in so many turns of a sample in the plainest place."""

    def __init__(self, ignored_turns: int) -> None:
        self._ignored_turns = ignored_turns
        self.params, self.samples, self.hint = Params(), 800, "t1"
        self.references = References({"l1": ticks(L1), "memory": ticks(MEMORY)})

    def side_by_side(self, *_: Any) -> dict[str, Ticks]:
        turns = [ticks(MEMORY if number < self._ignored_turns else L1, TURN) for number in range(SERVING.layouts)]
        return {"t1": np.concatenate(turns), "": ticks(MEMORY)}


@pytest.mark.parametrize("value", [False, "drops"])
def test_what_an_honoured_hint_did_not_do_is_reported(value: bool | str) -> None:
    assert Looked(0).unless_ignored(Answer(value)).value == value


def test_a_hint_that_no_turn_ignored_is_chosen() -> None:
    fills = {"t0": Answer(reason="disturbed"), "t1": Answer("l2"), "t2": Answer("l2"), "nta": Answer("l1")}
    assert chosen(fills) == "nta"
    assert chosen(fills, {"nta", "t1"}) == "t2"
    assert chosen(fills, {"nta", "t1", "t2"}) == "nta"
    assert chosen({"t0": Answer("none")}) == ""


# -- the figure of `setebench software-prefetch`, from evidence alone ------------------------------------------------


LANDED = {
    "levels": ["l1", "l2", "memory"],
    "shares": {
        "memory": {"t0": [0.9, 0.1, 0.0], "": [0.0, 0.0, 1.0]},
        "l2": {"t0": [1.0, 0.0, 0.0], "": [0.0, 1.0, 0.0]},
    },
}
STORES = {
    "cycles_by_holders": {"1": {"own": 5.0, "none": 300.0, "t0": 60.0}, "2": {"own": 5.0, "none": 300.0, "t0": 61.0}}
}


def test_bars_add_up_and_carry_hint_and_source() -> None:
    axes = draw({"landed": LANDED}).axes
    assert len(axes) == 1
    assert [label.get_text() for label in axes[0].get_yticklabels()] == [
        "t0 · memory",
        "not prefetched · memory",
        "t0 · L2",
        "not prefetched · L2",
    ]
    assert sum(bar.get_width() for bar in axes[0].patches) == pytest.approx(4)


def test_stores_have_a_panel_of_their_own() -> None:
    figure = draw({"landed": LANDED, "store_after": STORES})
    assert len(figure.axes) == 2
    assert list(figure.axes[1].lines[1].get_ydata()) == [300, 300]
    assert "cycles until the store is written" in alt_text(figure)


def test_nothing_to_draw() -> None:
    with pytest.raises(SetebenchError, match="nothing to plot"):
        draw({})
