"""Inclusion from loads of lines in use, on synthetic loads of known truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from setebench.infer.inclusion import SPARED, UNKEPT, Uses, given_up, losses_per_pass, told

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
    assert told(uses(1.0 / PER_PASS, step=step)) == (True, "")
    assert told(uses(0.0, step=step)) == (None, SPARED)
    assert losses_per_pass(uses(1.0 / PER_PASS, step=step))[0] == pytest.approx(1.0, abs=0.35)


def test_lines_that_the_inner_cache_gives_up_by_itself_tell_nothing() -> None:
    answer, reason = told(uses(1.0 / PER_PASS, anyway=0.2))
    assert answer is None
    assert "random replacement" in reason


def test_losses_behind_an_inner_cache_that_may_give_lines_up_tell_nothing() -> None:
    assert told(replace(uses(1.0 / PER_PASS), keeps=False)) == (None, UNKEPT)
    assert told(replace(uses(0.0), keeps=False)) == (None, SPARED)


def test_lines_given_up_are_counted_where_the_clock_parts_the_levels() -> None:
    assert given_up(loads(0.1, 1.0, 1), BEYOND - FIRST, 1.0) == pytest.approx(0.1, abs=0.01)
    assert given_up(loads(0.0, 1.0, 1), BEYOND - FIRST, 1.0) == pytest.approx(0.0, abs=0.001)
    assert given_up(loads(0.6, 1.0, 1), BEYOND - FIRST, 1.0) == pytest.approx(0.6, abs=0.02)
    assert given_up(loads(0.1, 30.0, 1), BEYOND - FIRST, 30.0) is None


def test_far_more_losses_than_one_per_pass_tell_nothing() -> None:
    answer, reason = told(uses(5.0 / PER_PASS))
    assert answer is None
    assert "lost" in reason


def test_a_clock_too_coarse_for_the_difference_tells_nothing() -> None:
    assert told(uses(0.4 / PER_PASS, step=200.0))[0] is None
