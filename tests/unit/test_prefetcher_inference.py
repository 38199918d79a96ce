"""Levels on made-up numbers; the notation of patterns; the plot."""

from __future__ import annotations

import numpy as np
import pytest
from setebench.scenarios.prefetcher_map.pattern import led, parse

from setebench.errors import SetebenchError, UsageError
from setebench.infer.mixture import mostly
from setebench.report.prefetcher_map_plot import map_figure


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
