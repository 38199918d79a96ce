"""Levels on made-up numbers; the notation of patterns; the plot."""

from __future__ import annotations

import pytest
from setebench.scenarios.prefetcher_map.pattern import led, parse

from setebench.errors import UsageError
from setebench.report.plots.prefetcher_map_plot import map_figure


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
