"""Shares of levels from mixed loads, on synthetic ticks whose shares are known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from setebench.stats.ticks.mixture import unmix

LATENCIES = {"l1": (4.0, 0.3), "l2": (14.0, 0.6), "l3": (50.0, 4.0), "memory": (420.0, 35.0)}
CYCLES_PER_TICK = 1.6
MIXTURES = (
    (1.0, 0.0, 0.0, 0.0),
    (0.0, 1.0, 0.0, 0.0),
    (0.0, 0.0, 1.0, 0.0),
    (0.0, 0.0, 0.0, 1.0),
    (0.5, 0.0, 0.0, 0.5),
    (0.0, 0.6, 0.4, 0.0),
    (0.1, 0.2, 0.3, 0.4),
)


def loads(rng: np.random.Generator, level: str, count: int, step: float) -> NDArray[np.int64]:
    """Dithered readings of single loads on a clock of that step."""
    latency, spread = LATENCIES[level]
    ticks = 43.0 + (latency + spread * rng.standard_normal(count)) / CYCLES_PER_TICK
    return (np.floor(ticks / step + rng.random(count)) * step).astype(np.int64)


def mixed(rng: np.random.Generator, shares: tuple[float, ...], count: int, step: float) -> NDArray[np.int64]:
    counts = rng.multinomial(count, shares)
    return np.concatenate([loads(rng, level, n, step) for level, n in zip(LATENCIES, counts, strict=True)])


@pytest.fixture(params=[1.0, 26.0])
def step(request: pytest.FixtureRequest) -> float:
    return float(request.param)


def references(rng: np.random.Generator, step: float) -> dict[str, NDArray[np.int64]]:
    return {level: loads(rng, level, 600, step) for level in LATENCIES}


def test_intervals_hold_the_true_shares(step: float) -> None:
    """About 95 of 100 do: 88 leave room for the draw. A step of 26 ticks hides L1 from L2 in most single readings."""
    held = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        sets = [mixed(rng, shares, 200, step) for shares in MIXTURES]
        found = unmix(references(rng, step), sets, rng)
        truth = np.array(MIXTURES)
        held.append((found.low <= truth) & (truth <= found.high))
    assert np.mean(held) > 0.88


def test_memory_is_reported_from_caches_in_few_loads(step: float) -> None:
    rng = np.random.default_rng(1)
    sets = [mixed(rng, shares, 12, step) for shares in MIXTURES[:4]]
    found = unmix(references(rng, step), sets)
    assert found.of("memory") == pytest.approx([0, 0, 0, 1], abs=0.05)
    assert found.of("l1", "l2", "l3") == pytest.approx([1, 1, 1, 0], abs=0.05)


def test_a_share_that_never_showed_may_still_be_three_in_n() -> None:
    rng = np.random.default_rng(2)
    found = unmix(references(rng, 1.0), [loads(rng, "l2", 30, 1.0)], rng)
    assert found.high[0, found.levels.index("memory")] >= 3 / 30
    assert found.low[0, found.levels.index("l2")] <= 1 - 3 / 30


def test_stalls_are_no_level() -> None:
    rng = np.random.default_rng(3)
    hit = loads(rng, "l1", 100, 26.0)
    hit[:10] += 50_000
    found = unmix(references(rng, 26.0), [hit])
    assert found.samples[0] == 90
    assert found.of("memory")[0] < 0.02
