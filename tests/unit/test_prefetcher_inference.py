"""Footprints and the rule of streams, on made-up numbers; the notation of patterns; the plot."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.errors import SetebenchError, UsageError
from setebench.infer.footprint import Footprint
from setebench.infer.mixture import Shares, mostly
from setebench.infer.stream_rule import batches, distance_bounds, least_distance, steady_degree
from setebench.prefetcher_map.chart import led
from setebench.prefetcher_map.pattern import parse
from setebench.report.prefetcher_map_plot import map_figure


def shares(*cached: float) -> Shares:
    value = np.array([[each, 1.0 - each] for each in cached])
    return Shares(("l1", "memory"), value, value, value, np.full(len(cached), 12))


@pytest.mark.parametrize(
    ("trained", "untrained", "told"),
    [(1.0, 0.0, True), (0.1, 0.0, False), (0.5, 0.0, None), (1.0, 1.0, None), (float("nan"), 0.0, None)],
)
def test_a_line_is_brought_if_it_is_there_and_was_not_anyway(
    trained: float, untrained: float, told: bool | None
) -> None:
    assert Footprint((7,), shares(trained), shares(untrained)).brought(7) is told


def streamed(access: int, distance: int, degree: int, following: int) -> int:
    """Furthest line after many hits on `access`, by the paper's rule."""
    while following - access < distance:
        following += degree
    return following - 1


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
@pytest.mark.parametrize("distance", [8, 12, 16, 17, 20, 32])
def test_the_distance_follows_from_where_hits_on_neighbouring_lines_stop(distance: int, degree: int) -> None:
    final = {access: streamed(access, distance, degree, 1 + degree) for access in range(1, degree + 1)}
    assert distance_bounds(final, degree) == (distance, distance)


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
@pytest.mark.parametrize("distance", [8, 12, 17, 32])
def test_what_the_distance_is_at_least_exceeds_it_by_no_rule(distance: int, degree: int) -> None:
    hit = range(1, degree + 1)
    batch = least_distance({access: streamed(access, distance, degree, 1 + degree) for access in hit}, degree)
    sliding = least_distance({access: access + distance for access in hit}, degree)
    assert distance - degree <= batch <= distance
    assert distance - degree <= sliding <= distance


def test_no_distance_explains_what_no_stream_does() -> None:
    assert distance_bounds({1: 9, 2: 30}, 2) is None


@pytest.mark.parametrize(
    ("frontiers", "degree"),
    [([2, 5, 9, 13], 4), ([2, 3, 4], 1), ([2, 5, 9], None), ([4], None), ([2, 6, 8, 10], None)],
)
def test_the_degree_is_that_of_the_last_batches(frontiers: list[int], degree: int | None) -> None:
    assert steady_degree(frontiers) == degree
    assert sum(batches(frontiers)) == frontiers[-1] - frontiers[0]


def test_the_level_that_served_most_loads_is_likeliest() -> None:
    rng = np.random.default_rng(1)
    references = {name: rng.normal(middle, 3, 600).astype(np.int64) for name, middle in (("l1", 30), ("memory", 300))}
    likely = mostly(references, references["l1"][:50])
    assert likely["l1"] > likely["memory"] + 20


def test_a_pattern_is_read_word_by_word() -> None:
    steps = parse("4 store:5, t0:6 7@A 8@A", 64, 64).steps
    assert [(step.at // 64, step.how) for step in steps[:3]] == [(4, "load"), (5, "store"), (6, "t0")]
    assert steps[3].ip == steps[4].ip is not None


@pytest.mark.parametrize("text", ["", "64", "jump:4", "4-6"])
def test_a_word_that_is_no_access_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse(text, 64, 64)


def test_a_chart_says_what_each_access_fetched_and_how_far_ahead_it_reaches() -> None:
    rows = [[1] * 8, [0, 0, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1], [0] * 8]
    assert led(rows, [0, 1, 2], memory=1) == ([1, 2, 4], [1, 2, 5])


def test_the_plot_shows_charts_and_how_far_lines_run_ahead() -> None:
    rows = [[1] * 8, [0, 0, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1]]
    chart = {"levels": ["l1", "memory"], "touched": [0, 1], "nearest": rows, "fetched": [1, 2], "ahead": [1, 2]}
    ahead = map_figure({"prefetchers": {"run": chart}}).axes[-1].get_lines()
    assert [list(line.get_ydata()) for line in ahead] == [[1, 2], [1, 2]]


def test_how_far_lines_run_ahead_is_drawn_of_the_sequential_run_in_whatever_order_a_file_has_them() -> None:
    rows = [[1] * 8, [0, 0, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1]]
    run = {"levels": ["l1", "memory"], "touched": [0, 1], "nearest": rows, "fetched": [1, 2], "ahead": [1, 2]}
    strides = {**run, "touched": [0, 5], "fetched": [7, 7], "ahead": [7, 7]}
    for charts in ({"every 5th": strides, "run": run}, {"run": run, "strides": strides}):
        figure = map_figure({"prefetchers": charts})
        assert len(figure.axes) == 3 and list(figure.axes[-1].get_lines()[0].get_ydata()) == [1, 2]
    assert len(map_figure({"prefetchers": {"strides": strides}}).axes) == 1


def test_the_legend_of_a_chart_lies_over_no_line_of_it() -> None:
    rows = [[1] * 8, [0] * 8]
    chart = {"levels": ["l1", "l2", "memory"], "touched": [0], "nearest": rows, "fetched": [8], "ahead": [8]}
    figure = map_figure({"prefetchers": {"run": chart}})
    figure.draw_without_rendering()
    for axes in figure.axes[:-1]:
        legend = axes.get_legend()
        assert legend is not None and legend.get_window_extent().x0 >= axes.get_window_extent().x1


def test_without_a_chart_there_is_no_plot() -> None:
    with pytest.raises(SetebenchError):
        map_figure({})
