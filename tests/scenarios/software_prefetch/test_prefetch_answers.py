"""From shares of known truth to what software prefetches do, and to the figure of it."""

from __future__ import annotations

import pytest
from setebench.scenarios.software_prefetch import busy, fills, places
from setebench.scenarios.software_prefetch.params import Params
from setebench.scenarios.software_prefetch.places import Behind
from setebench.scenarios.software_prefetch.plot import draw
from setebench.scenarios.software_prefetch.trials import Answer, Share

from setebench.report.plots.plot import alt_text

PARAMS = Params()
YES, NO = Answer(True), Answer(False)


def share(part: float, of: int = 240) -> Share:
    return Share.of(round(part * of), of)


@pytest.mark.parametrize(
    ("samples", "level"),
    [
        (["l1", "l1", "l1"], "l1"),
        (["l2", "none", "l2"], "l2"),  # ignored for a while
        (["l1", "unsteady"], "l1"),
        (["l1", "l2"], None),
        (["none", "none"], "none"),
        (["none", "unsteady"], None),
    ],
)
def test_a_hint_fills_what_samples_agree_on(samples: list[str], level: str | None) -> None:
    found = fills.landed(samples)
    assert found.value == level and bool(found.reason) == (level is None)


FIRST, SECOND, NONE = ((8.0, 0.2), (35.0, 0.3), (0.3, 0.2))


@pytest.mark.parametrize(
    ("walks", "across", "l1", "l2"),
    [
        ([(FIRST, YES), (SECOND, YES)], True, True, True),
        ([(FIRST, YES), (SECOND, NO)], True, True, False),
        ([(FIRST, NO), (SECOND, NO)], True, False, False),
        ([(FIRST, NO), (SECOND, NO)], False, False, False),
        ([(NONE, YES), (NONE, YES)], True, None, None),
        ([(NONE, YES), (SECOND, YES)], True, True, True),
        ([(NONE, YES), (SECOND, NO)], True, None, False),
        ([(FIRST, YES), (FIRST, YES)], True, True, None),
    ],
)
def test_tlb_misses_count_where_they_are_shown(
    walks: list[tuple[tuple[float, float], Answer]], across: bool, l1: bool | None, l2: bool | None
) -> None:
    seen = [Behind(cycles, error, found) for (cycles, error), found in walks]
    first, second = places.on_tlb_misses(seen, across, PARAMS)
    assert (first.value, second.value) == (l1, l2)


@pytest.mark.parametrize(("touched", "value"), [(1590.0, False), (60.0, True), (1000.0, None)])
def test_a_done_prefetch_saves_the_page_fault(touched: float, value: bool | None) -> None:
    assert places.mapped(touched / 1600.0, PARAMS).value is value


@pytest.mark.parametrize(
    ("late", "idle", "longer", "value"),
    [
        (0.0, 1.0, 9.0, "stalls"),
        (0.9, 1.0, 0.1, "drops"),
        (0.9, 1.0, 3.0, "drops"),  # what is not lost still has to get through
        (0.2, 1.0, 3.0, None),
        (0.0, 1.0, 0.1, None),  # the queue was never full
        (0.0, 0.5, 9.0, None),
    ],
)
def test_a_full_queue(late: float, idle: float, longer: float, value: str | None) -> None:
    assert busy.full(share(late), share(idle), longer, PARAMS).value == value


@pytest.mark.parametrize(
    ("means", "value"),
    [
        ((4.0, 300.0, 310.0), "nonblocking"),
        ((4.0, 300.0, 398.0), "blocking"),
        ((4.0, 300.0, 350.0), None),
        ((4.0, 6.0, 100.0), "nonblocking"),  # a prefetch: nothing waits for it
        ((4.0, 6.0, 300.0), None),
    ],
)
def test_work_behind_a_miss(means: tuple[float, float, float], value: str | None) -> None:
    assert busy.blocks(means, 100.0, 296.0, PARAMS).value == value


# -- the figure of `setebench software-prefetch`, from evidence alone ------------------------------------------------


LINES = {"loaded": 65.0, "evicted": 77.0, "flushed": 390.0, "t0": 65.5, "t1": 77.5}
STORES = {"cycles_by_time": {"own": [5.0, 5.0], "none": [310.0, 290.0], "t0": [60.0, 61.0]}}


def test_hints_stand_among_their_controls_fastest_first() -> None:
    axes = draw({"prefetched": LINES}).axes
    assert len(axes) == 1 and "cycles" in axes[0].get_xlabel()
    labels = [label.get_text() for label in axes[0].get_yticklabels()]
    assert labels == ["just loaded", "prefetched by t0", "pushed out of L1", "prefetched by t1", "flushed"]
    assert [bar.get_width() for bar in axes[0].patches] == sorted(LINES.values())


def test_stores_have_a_panel_of_their_own() -> None:
    figure = draw({"prefetched": LINES, "store_after": STORES})
    assert len(figure.axes) == 2
    assert [bar.get_width() for bar in figure.axes[1].patches] == [5.0, 60.5, 300.0]
    assert "cycles until the store is written" in alt_text(figure)
