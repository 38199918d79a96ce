"""Errors of statistics of a series, by leaving out blocks of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from setebench.stats.jackknife import jackknife


def ratio(parts: Sequence[tuple[float, float]]) -> float | None:
    below = sum(each[1] for each in parts)
    return sum(each[0] for each in parts) / below if below else None


def test_of_a_mean_it_is_the_usual_error() -> None:
    values = np.random.default_rng(1).normal(5, 1, 20).tolist()
    estimate = jackknife(values, lambda parts: sum(parts) / len(parts))
    assert estimate is not None
    assert estimate.error == pytest.approx(np.std(values, ddof=1) / math.sqrt(20))


def test_intervals_of_a_ratio_hold_it_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(400):
        below = rng.gamma(9, 1, 40)
        estimate = jackknife(list(zip((3 * below + rng.normal(0, 1, 40)).tolist(), below.tolist(), strict=True)), ratio)
        held += estimate is not None and estimate.low <= 3 <= estimate.high
    assert 0.92 <= held / 400 <= 0.98
