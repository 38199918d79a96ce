"""Answers that are no numbers: which nodes stand out by them."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.stats import nodes as estimates


def test_a_node_whose_runs_agree_on_another_answer_stands_out() -> None:
    node = np.repeat(np.arange(50), 3)
    code = np.zeros(150, np.int64)
    code[node == 7] = 1
    code[0] = 1  # one stray run
    found = estimates.answers(node, code, 50)
    assert found.usual == 0 and found.answer[7] == 1 and found.answer[0] == 0
    assert found.stray == pytest.approx(2 / 102) and found.p[7] == pytest.approx((2 / 102) ** 3)
    assert (np.delete(found.p, 7) == 1).all()


def test_a_large_minority_is_no_noise() -> None:
    node = np.repeat(np.arange(60), 3)
    found = estimates.answers(node, (node < 25).astype(np.int64), 60)
    assert (found.p[:25] < 1e-5).all() and (found.p[25:] == 1).all()


@pytest.mark.parametrize(("stray", "runs"), [(0.02, 3), (0.1, 3), (0.3, 5)])
def test_strays_alone_make_no_odd_node(stray: float, runs: int) -> None:
    """Whole fleets of 40 with any alarm at 5 %, over 500, as a rate."""
    rng = np.random.default_rng(3)
    node = np.repeat(np.arange(40), runs)
    alarms = 0
    for _ in range(500):
        found = estimates.answers(node, (rng.uniform(size=len(node)) < stray).astype(np.int64), 40)
        alarms += found.p.min() * 40 <= 0.05
    assert alarms <= 500 * 0.05 + 3 * (500 * 0.05 * 0.95) ** 0.5
