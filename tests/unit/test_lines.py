"""Which lines answer fastest, on made-up readings of a coarse clock."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from setebench.infer.lines import fastest_lines

STEP, PAGES = 26, 20


def readings(cycles: NDArray[np.float64], turns: int, seed: int) -> tuple[NDArray[np.int64], ...]:
    """Ticks of lines that take `cycles` each, read `turns` times with a random start; their lines; and turns."""
    rng = np.random.default_rng(seed)
    line = np.tile(np.arange(len(cycles)), turns)
    turn = np.repeat(np.arange(turns), len(cycles))
    begin = rng.uniform(0, STEP, len(line))
    ticks = (np.floor((begin + cycles[line]) / STEP) - np.floor(begin / STEP)).astype(np.int64) * STEP
    return ticks, line, turn


@pytest.mark.parametrize("seed", range(5))
def test_lines_that_were_pushed_out_are_left_out(seed: int) -> None:
    """Half of the lines answer from 40 cycles further out, where one reading is 0, 26 or 52 or 78."""
    cycles = np.where(np.arange(200) % 2 == 0, 14.0, 54.0)
    ticks, line, turn = readings(cycles, 16, seed)
    chosen = fastest_lines(ticks, line, turn, PAGES)
    assert ticks[chosen].mean() == pytest.approx(14.0, abs=1.5)
    assert (line[chosen] % 2 == 0).mean() > 0.98


@pytest.mark.parametrize("seed", range(5))
def test_a_stalled_reading_changes_no_choice(seed: int) -> None:
    """It is longer than all that lines differ by, and a variance of its own would be all that is seen."""
    cycles = np.where(np.random.default_rng(seed).random(200) < 0.4, 14.0, 44.0)
    ticks, line, turn = readings(cycles, 16, seed)
    stalled = ticks.copy()
    stalled[[7, 1203]] += 8000
    chosen = fastest_lines(stalled, line, turn, PAGES, STEP)
    assert (chosen == fastest_lines(ticks, line, turn, PAGES, STEP)).mean() > 0.95
    assert (cycles[line[chosen]] == 14.0).mean() > 0.97


@pytest.mark.parametrize("seed", range(5))
def test_what_lines_of_a_page_read_counts_for_each_of_them(seed: int) -> None:
    """A walk over whole pages takes a page's lines together: three of four here, and of lines that were read but three
    times on a clock whose step is twice the difference a line's own readings show little."""
    page = np.arange(200) % PAGES
    ticks, line, turn = readings(np.where(page % 4 == 0, 22.0, 35.0), 3, seed)
    chosen = fastest_lines(ticks, line, turn, PAGES)
    assert (line[chosen] % PAGES % 4 == 0).mean() > 0.8
    alone = fastest_lines(ticks, line, turn, 200)  # every line in a page of its own
    assert (line[alone] % PAGES % 4 == 0).mean() < 0.7
