"""The second cache's ways by minimal eviction sets, and its size by how many pages are congruent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from quiet_machines import quiet
from setebench.scenarios.hierarchy.eviction_sets import (
    EvictionRound,
    eviction_pool,
    measure_eviction,
    second_cache_findings,
)

from setebench.calibration import Calibration, Levels
from setebench.results import Finding, Outcome
from setebench.scenario import Context
from setebench.sim import spec
from setebench.stats.estimate import Interval

LEVELS = Levels(
    walks={},
    cycles={"l1": 4.0, "l2": 14.0, "l3": 46.0, "memory": 300.0},
    capacity={"l1": Interval(32e3, 32e3, 32e3), "l2": Interval(1e6, 1e6, 1e6)},
)
"""Of the quiet machine, about."""

COARSE = spec.Clock(ticks_per_cycle=0.703, step_ticks=26.0, jitter_cycles=2.0)
BUSY = spec.Noise(interrupt_interval_cycles=3e5, stall_interval_cycles=5e4)
PREFETCHERS = (spec.LinePair(level=2), spec.NextLine(level=1))


def findings(rounds: list[EvictionRound]) -> dict[str, Finding]:
    return {each.parameter.removeprefix("cache.l2."): each for each in second_cache_findings(rounds, LEVELS, 64)}


def measured(rounds: int, **changes: Any) -> dict[str, Finding]:
    cycles = {name: each for name, each in LEVELS.cycles.items() if changes.get(name, True) is not None}
    calibration = Calibration(levels=replace(LEVELS, cycles=cycles))
    context = Context(machine=quiet(**changes), calibration=calibration)
    pool = eviction_pool(context)
    found = findings([measure_eviction(context, pool)[0] for _ in range(rounds)])
    pool.close()
    return found


@pytest.mark.parametrize(
    ("sets", "ways", "changes"),
    [
        (256, 8, {"prefetchers": PREFETCHERS, "noise": BUSY}),
        (512, 5, {"l1": {"replacement": "random"}, "l2": {"replacement": "fifo"}}),
        (256, 16, {"l2": {"replacement": "random"}}),
        (512, 8, {"l2": {"replacement": "qlru", "qlru": "H00_M1_R0_U1", "inclusion": "inclusive"}}),
        (512, 8, {"l2": {"inclusion": "exclusive"}, "l1": {"ways": 12, "replacement": "tree_plru"}}),
        (256, 12, {"l3": None}),
        (256, 4, {"clock": COARSE}),
    ],
    ids=["prefetchers", "fifo", "random", "qlru", "exclusive", "two levels", "coarse clock"],
)
def test_ways_and_size(sets: int, ways: int, changes: dict[str, Any]) -> None:
    """Of two rounds, which may find one set only: the ways, and a size that is true or a bound."""
    found = measured(2, **{**changes, "l2": {**changes.get("l2", {}), "sets": sets, "ways": ways}})
    assert found["ways"].value == ways
    size = found["size"]
    assert size.outcome is Outcome.AT_LEAST or size.value == sets * ways * 64
    assert found["index"].value == "linear"


def test_a_hash_is_reported_as_one_or_nothing_is() -> None:
    found = measured(2, l2={"sets": 256, "ways": 4, "hashed_index": True})
    assert found["ways"].value in (4, None)
    assert found["index"].value in ("hashed", None)
    assert (found["size"].value is not None and found["size"].value <= 256 * 4 * 64) or found["size"].value == 5e5


def test_a_pool_that_does_not_fill_a_set_shows_nothing_but_the_curve() -> None:
    found = measured(1, l2={"sets": 131072, "ways": 16})
    assert found["ways"].outcome is Outcome.UNRESOLVED
    assert (found["size"].outcome, found["size"].value) == (Outcome.AT_LEAST, 500_000)
    assert found["index"].outcome is Outcome.UNAVAILABLE


def counted(ways: int, congruent: int, tested: int = 8171, hashed: bool = False) -> EvictionRound:
    return EvictionRound(ways=ways, pages=8171, tested=tested, congruent=congruent, hashed=hashed)


def test_pages_that_are_congruent_give_the_sets() -> None:
    """Counts of a guest whose second cache has 2 MiB in 16 ways; 240 of 8,171 and the set itself are one in 32."""
    found = findings([counted(16, each) for each in (239, 228, 230, 238, 228, 231)])
    assert (found["size"].value, found["size"].outcome) == (2 << 20, Outcome.MEASURED)
    few = findings([counted(16, 18, 607)])
    assert few["size"].outcome is Outcome.AT_LEAST and few["size"].value <= 2 << 20


def test_ways_are_what_most_rounds_found_and_of_ties_the_larger() -> None:
    """Others take ways in some rounds and give none in any."""
    found = findings([counted(16, 240), EvictionRound(), counted(14, 230), counted(16, 240)])
    assert (found["ways"].value, found["ways"].outcome) == (16, Outcome.MEASURED)
    found = findings([counted(15, 240), counted(14, 230)])
    assert (found["ways"].value, found["ways"].outcome) == (15, Outcome.AT_LEAST)


def test_no_set_found_is_no_number_of_ways() -> None:
    found = findings([EvictionRound()] * 6)
    assert found["ways"].outcome is Outcome.UNRESOLVED and found["ways"].value is None
