"""Inclusion from loads of lines in use, on synthetic loads of known truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from setebench.infer.inclusion import SPARED, UNKEPT, Told, Uses, agreed, given_up, losses_per_pass, lost_cycles, told

FIRST, BEYOND, PER_PASS = 4.0, 50.0, 128.0


def loads(lost: float, step: float, seed: int) -> NDArray[np.float64]:
    """Loads of sixteen lines in use, a share of which was lost, on a clock of such steps, with interrupts."""
    rng = np.random.default_rng(seed)
    cycles = np.where(rng.random((3072, 16)) < lost, BEYOND, FIRST)
    cycles = np.floor(cycles / step + rng.random(cycles.shape)) * step
    cycles[rng.random(cycles.shape) < 1e-4] = 20000.0
    return cycles


def uses(lost: float, anyway: float = 0.0, step: float = 30.0) -> Uses:
    idle, held, stream = (loads(share, step, n) for n, share in enumerate((0.0, anyway, anyway + lost)))
    return Uses(stream, held, idle, PER_PASS, BEYOND - FIRST)


@pytest.mark.parametrize("step", [1.0, 30.0])
def test_one_loss_per_pass_is_inclusion_and_none_may_be_another_kind(step: float) -> None:
    assert told(uses(1.0 / PER_PASS, step=step))[:2] == (True, "")
    assert told(uses(0.0, step=step))[:2] == (None, SPARED)
    assert losses_per_pass(uses(1.0 / PER_PASS, step=step))[0] == pytest.approx(1.0, abs=0.35)


def test_lines_that_the_inner_cache_gives_up_by_itself_tell_nothing() -> None:
    answer, reason, _losses = told(uses(1.0 / PER_PASS, anyway=0.2))
    assert answer is None
    assert "random replacement" in reason


def test_losses_behind_an_inner_cache_that_may_give_lines_up_tell_nothing() -> None:
    assert told(replace(uses(1.0 / PER_PASS), keeps=False))[:2] == (None, UNKEPT)
    assert told(replace(uses(0.0), keeps=False))[:2] == (None, SPARED)


def test_lines_given_up_are_counted_where_the_clock_parts_the_levels() -> None:
    assert given_up(loads(0.1, 1.0, 1), BEYOND - FIRST, 1.0) == pytest.approx(0.1, abs=0.01)
    assert given_up(loads(0.0, 1.0, 1), BEYOND - FIRST, 1.0) == pytest.approx(0.0, abs=0.001)
    assert given_up(loads(0.6, 1.0, 1), BEYOND - FIRST, 1.0) == pytest.approx(0.6, abs=0.02)
    assert given_up(loads(0.1, 30.0, 1), BEYOND - FIRST, 30.0) is None


def test_far_more_losses_than_one_per_pass_tell_nothing() -> None:
    answer, reason, _losses = told(uses(5.0 / PER_PASS))
    assert answer is None
    assert "lost" in reason


def test_clearly_fewer_losses_than_one_per_pass_come_from_elsewhere() -> None:
    """Seen behind an inner cache of random replacement whose losses to the outer one a prefetcher hid: 0.63."""
    assert told(uses(0.6 / PER_PASS, step=1.0))[0] is None


def test_a_clock_too_coarse_for_the_difference_tells_nothing() -> None:
    assert told(uses(0.4 / PER_PASS, step=200.0))[0] is None


FAR, FAR_STEP, FAR_PER_PASS, NEIGHBOUR_CYCLES = 530.0, 36.0, 41.0, 12.0
"""Memory, a clock's step, and uses of a line per pass of a third cache, as one guest has them; what all loads take
longer there while a neighbour on the core uses its TLBs."""


def far_loads(lost: float, longer: float, seed: int, stops: int = 102) -> NDArray[np.float64]:
    """Loads of lines that the second cache keeps, a share of which was lost to memory, all so many cycles longer."""
    rng = np.random.default_rng(seed)
    cycles = np.where(rng.random((stops, 32)) < lost, FAR, 14.0) + longer
    return np.floor(cycles / FAR_STEP + rng.random(cycles.shape)) * FAR_STEP


def test_a_neighbour_that_comes_while_the_stream_passes_is_no_inclusion() -> None:
    """All loads are longer by 12 cycles in 500: over a pass that is one loss, by the mean."""
    stream, held = far_loads(0.0, NEIGHBOUR_CYCLES, 1, 800), far_loads(0.0, 0.0, 2, 800)
    by_mean = Uses(stream, held, None, FAR_PER_PASS, FAR - 14.0)
    assert told(by_mean).answer, "the mean alone can't tell it"
    counted = replace(by_mean, lost=lost_cycles(48.0, FAR, FAR_STEP))
    assert told(counted)[:2] == (None, SPARED)
    taken = replace(counted, stream=far_loads(1.0 / FAR_PER_PASS, NEIGHBOUR_CYCLES, 3))
    assert told(taken).answer
    assert told(taken).losses == pytest.approx(1.0, abs=0.3)


def test_an_inclusive_cache_takes_lines_as_often_per_pass_however_often_they_are_used() -> None:
    one, other = (told(uses(1.0 / PER_PASS, step=step)) for step in (1.0, 2.0))
    assert agreed(one, other)[:2] == (True, "")
    longer, twice = Told(True, "", 0.7), Told(True, "", 1.4)
    assert agreed(longer, twice).answer is None, "all loads are longer by as much: twice the losses of twice the uses"
    assert agreed(one, told(uses(0.0))).answer is None
    assert agreed(told(uses(0.0)), one)[:2] == (None, SPARED)


def test_levels_too_near_for_the_clock_are_not_told_load_by_load() -> None:
    assert lost_cycles(14.0, 48.0, FAR_STEP) is None
    low, high = lost_cycles(48.0, FAR, FAR_STEP) or (0.0, 0.0)
    assert 48.0 + FAR_STEP < low < FAR - FAR_STEP < FAR + FAR_STEP < high
