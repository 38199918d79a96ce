"""Variance components, on fleets whose truth is known; how often equal nodes stand out, and how often odd ones do."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.stats import nodes as estimates

Rng = np.random.Generator


def fleet(
    rng: Rng, nodes: int, runs: int, between: float = 1.0, within: float = 2.0, stated: float = 0.0
) -> estimates.Runs:
    node = np.repeat(np.arange(nodes), runs)
    value = 100 + rng.normal(0, between, nodes)[node] + rng.normal(0, within, len(node))
    return estimates.sum_up(node, value, np.full(len(node), stated), nodes)[1]


@pytest.mark.parametrize("runs", [2, 3, 6])
def test_components_are_found(runs: int) -> None:
    """Of 2,000 nodes: the standard errors of both are some 5 %."""
    found = estimates.components(fleet(np.random.default_rng(runs), 2000, runs))
    assert found.repeated and found.within == pytest.approx(4.0, rel=0.15)
    assert found.between == pytest.approx(1.0, rel=0.45 if runs == 2 else 0.3)


def test_without_repeated_runs_intervals_are_what_is_known_of_the_variance_within() -> None:
    found = estimates.components(fleet(np.random.default_rng(4), 2000, 1, between=1.0, within=2.0, stated=2.0))
    assert not found.repeated and found.within == 4.0 and found.between == pytest.approx(1.0, rel=0.4)


def p_values(runs: estimates.Runs) -> np.ndarray:
    found = estimates.components(runs)
    return estimates.tail((runs.mean - found.means.centre) / np.sqrt(found.variance), found.degrees)


@pytest.mark.parametrize("nodes", [4, 30])
@pytest.mark.parametrize("runs", [1, 2, 3])
@pytest.mark.parametrize("between", [0.0, 2.0])
def test_equal_nodes_stand_out_at_most_as_often_as_is_said(nodes: int, runs: int, between: float) -> None:
    """Whole fleets with any alarm at 5 %, over 100: at most 5 % and three binomial errors."""
    rng = np.random.default_rng(nodes * 10 + runs)
    alarms = sum(p_values(fleet(rng, nodes, runs, between)).min() * nodes <= 0.05 for _ in range(100))
    assert alarms <= 100 * 0.05 + 3 * (100 * 0.05 * 0.95) ** 0.5


def test_one_disturbed_run_of_several_makes_no_odd_node() -> None:
    rng = np.random.default_rng(6)
    for _ in range(50):
        node = np.repeat(np.arange(100), 3)
        value = rng.normal(100, 1, 300)
        value[rng.choice(300, 3, replace=False)] += 200
        _, runs = estimates.sum_up(node, value, np.zeros(300), 100)
        assert p_values(runs).min() * 100 > 0.05


def test_single_runs_that_scatter_more_than_they_say_raise_no_alarm() -> None:
    """One run in forty is disturbed: among single runs those look like odd nodes."""
    rng = np.random.default_rng(9)
    alarms = 0
    for _ in range(100):
        runs = fleet(rng, 100, 1, between=0.0, within=1.0, stated=0.1)
        runs.mean[rng.uniform(size=100) < 1 / 40] += 30
        alarms += p_values(runs).min() * 100 <= 0.05
    assert alarms <= 100 * 0.05 + 3 * (100 * 0.05 * 0.95) ** 0.5
    honest = fleet(rng, 100, 1, between=0.0, within=1.0, stated=1.0)
    honest.mean[3] += 30
    assert p_values(honest)[3] * 100 < 1e-6
