"""Rounds that somebody else disturbed are left out, unbiased, and none where nobody did."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from setebench.infer.bursts import LEAST_ROUNDS, calm_rounds

ROUNDS, CYCLES = 96, 14.0


def rounds(disturbed: float, noise: float, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two ways of measuring `CYCLES` in each round, both raised in a share of the rounds that were disturbed."""
    rng = np.random.default_rng(seed)
    raised = np.where(rng.random(ROUNDS) < disturbed, rng.uniform(1.0, 6.0, ROUNDS), 0.0)
    told, beside = (CYCLES + raised + noise * rng.standard_normal(ROUNDS) for _ in range(2))
    return told, beside


@pytest.mark.parametrize("disturbed", [0.3, 0.6])
def test_disturbed_rounds_are_left_out(disturbed: float) -> None:
    errors, naive = [], []
    for seed in range(40):
        told, beside = rounds(disturbed, 0.5, seed)
        errors.append(told[calm_rounds(told, beside)].mean() - CYCLES)
        naive.append(told.mean() - CYCLES)
    assert np.mean(naive) > 0.9
    assert abs(np.mean(errors)) < 0.35


def test_no_value_is_chosen_for_being_low() -> None:
    """The rounds are judged by what else was measured in them, so what is left is not lower than the truth."""
    errors = [
        told[calm_rounds(told, beside)].mean() - CYCLES for told, beside in (rounds(0.0, 1.0, n) for n in range(200))
    ]
    assert abs(np.mean(errors)) < 0.05


def test_all_rounds_count_where_nobody_disturbed_any() -> None:
    kept = [len(calm_rounds(*rounds(0.0, 1.0, seed))) for seed in range(100)]
    assert np.mean(np.array(kept) == ROUNDS) > 0.85


@pytest.mark.parametrize("count", [1, 2, LEAST_ROUNDS, LEAST_ROUNDS + 1])
def test_few_rounds_are_all_there_is(count: int) -> None:
    told, beside = rounds(0.5, 0.5, 1)
    kept = calm_rounds(told[:count], beside[:count])
    assert len(kept) >= min(count, LEAST_ROUNDS) and set(kept) <= set(range(count))
