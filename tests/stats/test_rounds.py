"""Quantiles of rounds, how often their intervals hold them, and the commonest count."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from setebench.stats.rounds import LATENCY, MIDDLE, RATE, commonest, quantile_of_rounds

Draw = Callable[[np.random.Generator, int], np.ndarray]

ROUNDS: dict[str, Draw] = {
    "normal": lambda rng, count: rng.normal(0.0, 1.0, count),
    "uniform": lambda rng, count: rng.uniform(-1.7, 1.7, count),
    "heavy": lambda rng, count: rng.standard_t(3, count),
    "disturbed": lambda rng, count: rng.normal(size=count) + (rng.random(count) < 0.5) * rng.exponential(20, count),
}


@pytest.mark.parametrize("kind", ROUNDS)
@pytest.mark.parametrize("quantile", [LATENCY, MIDDLE, RATE])
def test_six_rounds_hold_their_quantile_in_seven_of_eight_draws(kind: str, quantile: float) -> None:
    """The bootstrap alone held it in five of eight. What disturbs takes from a rate."""
    rng, sign, times = np.random.default_rng(1), -1.0 if quantile == RATE else 1.0, 300
    truth = float(np.quantile(sign * ROUNDS[kind](rng, 200_000), quantile))
    found = [quantile_of_rounds(sign * ROUNDS[kind](rng, 6), quantile) for _ in range(times)]
    assert np.mean([each.low <= truth <= each.high for each in found]) > 0.83
    if kind == "disturbed":  # and what undisturbed rounds show
        assert np.mean([each.low <= 0.0 <= each.high for each in found]) > 0.88 - 0.1 * (quantile == MIDDLE)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=9),
    st.sampled_from((LATENCY, MIDDLE, RATE)),
    st.tuples(st.floats(0.0, 10.0), st.floats(0.0, 10.0)),
)
def test_the_interval_holds_the_quantile_and_the_bias(
    values: list[float], quantile: float, bias: tuple[float, float]
) -> None:
    plain, wide = quantile_of_rounds(values, quantile), quantile_of_rounds(values, quantile, bias)
    assert plain.low <= plain.value <= plain.high
    assert plain.value == pytest.approx(np.quantile(values, quantile))
    assert (wide.low, wide.high) == pytest.approx((plain.low - bias[0], plain.high + bias[1]))
    with_unknown = quantile_of_rounds([*values, float("nan")], quantile)
    assert with_unknown == plain
    mirrored = quantile_of_rounds([-value for value in values], 1 - quantile)
    assert mirrored.value == pytest.approx(-plain.value)


def test_one_round_says_nothing_of_others_and_none_nothing_at_all() -> None:
    assert quantile_of_rounds([5.0], LATENCY) == (5.0, float("-inf"), float("inf"))
    assert np.isnan(quantile_of_rounds([float("nan")], RATE)).all()


def test_of_counts_the_commonest_and_of_ties_the_largest() -> None:
    assert commonest([12, 11, 12, 10]) == 12
    assert commonest([11, 12]) == 12
    assert commonest([8]) == 8
