"""The first cache's sets, ways, index and replacement from conflicts of lines whose sets addresses tell."""

from __future__ import annotations

import numpy as np
import pytest
from quiet_machines import quiet
from setebench.scenarios.hierarchy.first_cache import (
    Candidate,
    Params,
    first_cache,
    predicted,
    ring_posterior,
    ring_shapes,
)

from setebench.scenario import Context

GAP = 10.0
"""Cycles between the first two levels of the quiet machine, about."""


@pytest.mark.parametrize(
    ("sets", "ways", "replacement", "name"),
    [
        (64, 8, "lru", "lru"),
        (64, 8, "tree_plru", "tree_plru"),
        (64, 5, "random", "random"),
        (128, 4, "fifo", "other"),
        (32, 8, "srrip", "srrip"),
        (64, 12, "bit_plru", "bit_plru"),
    ],
)
def test_a_first_cache(sets: int, ways: int, replacement: str, name: str) -> None:
    """Also ways above and below a page."""
    machine = quiet(l1={"sets": sets, "ways": ways, "replacement": replacement})
    found = {each.parameter: each.value for each in first_cache(Context(machine=machine), GAP, Params()).findings()}
    assert found == {
        "cache.l1.size": sets * ways * 64,
        "cache.l1.ways": ways,
        "cache.l1.index": "linear",
        "cache.l1.replacement": name,
    }


def test_a_hash_of_all_bits_is_no_bits_of_the_address() -> None:
    machine = quiet(l1={"sets": 64, "ways": 4, "hashed_index": True})
    found = {each.parameter: each for each in first_cache(Context(machine=machine), GAP, Params()).findings()}
    assert found["cache.l1.index"].value in ("hashed", None)
    assert found["cache.l1.size"].value is None or found["cache.l1.size"].value <= 64 * 4 * 64


def test_what_a_miss_costs_is_no_trait_of_a_cache() -> None:
    """Strides whose misses cost a third more than others', and twice as much where one line too many is in a set."""
    params, true = Params(), Candidate(sets=64, ways=8, index="linear", policy=0)
    rings, rng = ring_shapes(params), np.random.default_rng(1)
    fraction = next(
        means[:, own.index(true)] for own, means, _ in predicted(rings, 64, params) if own[0].sets == true.sets
    )
    cost = np.array([{512: 10.6, 1024: 10.6, 2048: 11.7}.get(ring.stride, 13.0) for ring in rings])
    cost[[ring.lines * ring.stride == 9 * 4096 for ring in rings]] *= 2.1
    excess = cost * fraction + rng.normal(0.0, 0.02, len(rings))
    posterior, cycles, left = ring_posterior(excess, rings, 64, 9.6, params)
    assert posterior[true] > 0.95
    assert 12.5 < cycles < 13.5
    assert left < params.most_left
