"""Levels that the validation of events finds, and where lines of working sets are."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from quiet_machines import L1, L2, L3, MEMORY, quiet

from scenarios.counters.ahead import prefetched_traffic
from scenarios.counters.levels import Levels, beyond, levels_of, numbered
from scenarios.counters.lost import lost_bytes, lost_ticks
from scenarios.counters.params import Params
from setebench.calibration import Levels as Found
from setebench.calibration import Walk
from setebench.experiments.levels import find_levels, working_memory
from setebench.scenario import Context
from setebench.sim import spec

LEVELS = Levels(
    first_bytes=32 << 10, second=128 << 10, near_ticks=float(L1), lost_ticks=float(L2), memory_ticks=float(MEMORY)
)
SIZES = 1024.0 * 2 ** np.arange(0, 15.01, 0.5)


def _served(capacities: tuple[float, ...], ticks: tuple[float, ...], octaves: float) -> NDArray[np.float64]:
    """Ticks of a step where each level is outgrown within so many octaves behind its capacity."""
    found = np.full(len(SIZES), float(ticks[0]))
    for capacity, inner, outer in zip(capacities, ticks, ticks[1:], strict=False):
        found += (outer - inner) * np.clip(np.log2(SIZES / capacity) / octaves, 0, 1)
    return found


@pytest.mark.parametrize("octaves", [0.5, 2.0])
def test_the_second_level_is_found_whether_it_ends_in_a_cliff_or_a_slope(octaves: float) -> None:
    ticks = _served((32 << 10, 512 << 10, 8 << 20), (4, 14, 50, 250), octaves)
    found = levels_of(SIZES, ticks, 250.0, Params(), 14.0)
    assert 2.8 * found.first_bytes <= found.second <= 512 << 10
    assert not found.numbered and found.third is None


def _timed(third: dict[str, int] | None) -> Levels:
    """Levels of a machine of three caches, or of two, and how many the mixture of its working sets says there are."""
    with closing(quiet(l3=third)) as machine:
        context = Context(machine=machine, seed=1)
        found = find_levels(context, working_memory(context))
    return numbered(LEVELS, found, 1.0, Params())


def test_levels_beyond_the_second_have_numbers_where_no_other_may_hide() -> None:
    assert _timed(None) == replace(LEVELS, numbered=True)
    levels = _timed({})
    assert levels.numbered and levels.third is not None and levels.third_ticks == pytest.approx(L3, rel=0.05)


def test_levels_have_no_numbers_where_timing_disagrees_on_the_second_or_one_may_hide() -> None:
    walks, cycles = {"l1": Walk(), "l2": Walk()}, {"l1": 4.0, "l2": 14.0, "memory": 300.0}
    assert numbered(LEVELS, Found(walks=walks, cycles=cycles), 1.0, Params()).numbered
    assert not numbered(LEVELS, Found(walks=walks, cycles=cycles, hidden_cycles=60.0), 1.0, Params()).numbered
    assert not numbered(LEVELS, Found(walks=walks, cycles=cycles | {"l2": 46.0}), 1.0, Params()).numbered
    assert not numbered(LEVELS, Found(walks=walks, cycles={"l1": 4.0, "memory": 300.0}), 1.0, Params()).numbered


@pytest.mark.parametrize("step", [1.0, 30.0])
@pytest.mark.parametrize("fractions", [(0.0, 1.0, 0.0, 0.0), (0.2, 0.7, 0.1, 0.0), (0.0, 0.3, 0.5, 0.2)])
def test_where_timed_lines_were_is_known_on_a_coarse_clock_too(step: float, fractions: tuple[float, ...]) -> None:
    rng = np.random.default_rng(5)
    levels = replace(LEVELS, third=2e6, third_ticks=float(L3))

    def read(taken: NDArray[np.float64]) -> NDArray[np.int64]:
        return (np.floor((80.0 + taken) / step + rng.random(len(taken))) * step).astype(np.int64)

    ticks = read(rng.choice([L1, L2, L3, MEMORY], 256, p=fractions).astype(np.float64))
    found = beyond(ticks, read(np.full(4096, float(L1))), step, levels, Params())
    expected = np.cumsum(fractions[::-1])[::-1]
    assert [found[name] for name in ("l1", "l2", "l3", "memory")] == pytest.approx(expected, abs=Params().looseness)


def test_steps_that_take_less_than_lines_that_the_first_level_lost_are_a_mixture() -> None:
    """A policy that bears cyclic passes keeps half of a working set in the first level, over an octave and more."""
    ticks = _served((16 << 10, 32 << 10, 1 << 20), (4, 10, 18, 250), 0.5)
    assert levels_of(SIZES, ticks, 250.0, Params(), 17.5).second > 32 << 10


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
