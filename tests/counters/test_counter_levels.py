"""Levels that the validation of events finds in a sweep of working sets."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from quiet_machines import L1, L2, L3, MEMORY, quiet

from scenarios.counters.ahead import prefetched_traffic
from scenarios.counters.levels import left_behind, levels_of
from scenarios.counters.lost import lost_bytes, lost_ticks
from scenarios.counters.params import Params
from setebench.scenario import Context
from setebench.sim import spec

SIZES = 1024.0 * 2 ** np.arange(0, 15.01, 0.5)


def _served(capacities: tuple[float, ...], ticks: tuple[float, ...], octaves: float) -> NDArray[np.float64]:
    """Ticks of a step where each level is outgrown within so many octaves behind its capacity."""
    found = np.full(len(SIZES), float(ticks[0]))
    for capacity, inner, outer in zip(capacities, ticks, ticks[1:], strict=False):
        found += (outer - inner) * np.clip(np.log2(SIZES / capacity) / octaves, 0, 1)
    return found


@pytest.mark.parametrize("octaves", [0.5, 2.0])
def test_levels_are_found_whether_they_end_in_cliffs_or_slopes(octaves: float) -> None:
    ticks = _served((32 << 10, 512 << 10, 8 << 20), (4, 14, 50, 250), octaves)
    levels = levels_of(SIZES, ticks, 250.0, Params())
    assert 2.8 * levels.first_bytes <= levels.second <= 512 << 10 and levels.second_ticks <= 1.1 * 14
    assert levels.third is not None and 1 << 20 <= levels.third <= 8 << 20
    assert levels.third_ticks == pytest.approx(50, rel=0.1)


@pytest.mark.parametrize("octaves", [0.5, 2.0])
def test_memory_behind_two_levels_is_no_third_one(octaves: float) -> None:
    levels = levels_of(SIZES, _served((32 << 10, 512 << 10), (4, 14, 250), octaves), 250.0, Params())
    assert levels.third is None


def test_steps_that_take_less_than_lines_that_the_first_level_lost_are_a_mixture() -> None:
    """A policy that bears cyclic passes keeps half of a working set in the first level, over an octave and more."""
    ticks = _served((16 << 10, 32 << 10, 1 << 20), (4, 10, 18, 250), 0.5)
    assert levels_of(SIZES, ticks, 250.0, Params()).second_ticks == pytest.approx(10, rel=0.1)
    levels = levels_of(SIZES, ticks, 250.0, Params(), 17.5)
    assert levels.second_ticks == pytest.approx(18, rel=0.05) and levels.third is None


@pytest.mark.parametrize(
    "levels",
    [
        *({"l1": {"replacement": replacement}} for replacement in ("lru", "srrip", "random", "bit_plru")),
        {"l1": {"ways": 16}},
        {"l2": {"sets": 256}},  # of which the evictors of a line take an eighth
    ],
)
def test_lines_that_the_first_level_lost_take_what_the_second_does(levels: dict[str, dict[str, Any]]) -> None:
    with closing(quiet(**levels)) as machine:
        region = machine.allocate(lost_bytes(Params()), 4096)
        found = lost_ticks(Context(machine=machine, seed=1), region, Params())
    assert found == pytest.approx(L2, rel=0.04)


FOLLOWERS = {
    "none": ((), set()),
    "to the first level": ((spec.NextLine(level=1, fills="l1"),), {"l2", "l3", "memory"}),
    "of every other line": ((spec.NextLine(level=2, fills="l2", only_misses=True),), {"l3", "memory"}),
    "to the third level": ((spec.Streamer(level=2, fills="l3"),), {"memory"}),
}


@pytest.mark.parametrize("case", FOLLOWERS)
def test_prefetched_lines_belong_to_the_traffic_of_the_levels_that_they_passed(case: str) -> None:
    prefetchers, traffic = FOLLOWERS[case]
    with closing(quiet(prefetchers=prefetchers)) as machine:
        params = Params()
        region = machine.allocate(params.stream_bytes, 4096)
        machine.link(region, np.arange(region.address, region.address + region.size, region.line_size))
        ticks = _served((32 << 10, 512 << 10, 2 << 20), (L1, L2, L3, MEMORY), 0.5)
        levels = levels_of(SIZES, ticks, MEMORY, params, L2)
        assert prefetched_traffic(Context(machine=machine, seed=1), region, levels, params) == traffic


def test_a_sweep_that_ends_on_the_way_to_memory_shows_no_third_level() -> None:
    ticks = _served((32 << 10, 16 << 20), (4, 14, 250), 2.0)
    assert 1.3 * 14 < ticks[-1] < 0.6 * 250
    assert levels_of(SIZES, ticks, 250.0, Params(), 14.0).third is None


def test_random_replacement_keeps_some_lines_of_a_larger_working_set() -> None:
    assert left_behind(2.0) == pytest.approx(0.2032, abs=1e-3)
    assert left_behind(5.0) < 0.01
