"""The first cache's sets, ways, index and replacement from conflicts of lines whose sets addresses tell."""

from __future__ import annotations

import pytest
from quiet_machines import quiet
from setebench.scenarios.hierarchy.first_cache import Params, first_cache

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
