"""Levels that the validation of events finds, and where lines of working sets are."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from quiet_machines import L1, L2, L3, MEMORY, quiet

from scenarios.counters.ahead import prefetched_traffic
from scenarios.counters.levels import Levels, beyond, levels_of
from scenarios.counters.params import Params
from setebench.calibration import Levels as Found
from setebench.calibration import Walk
from setebench.experiments.levels import find_levels, working_memory
from setebench.scenario import Context
from setebench.sim import spec

LEVELS = Levels(first_bytes=32 << 10, near_ticks=float(L1), lost_ticks=float(L2), memory_ticks=float(MEMORY))


def _timed(third: dict[str, int] | None) -> Levels:
    """Levels of a machine of three caches, or of two."""
    with closing(quiet(l3=third)) as machine:
        context = Context(machine=machine, seed=1)
        return levels_of(find_levels(context, working_memory(context)), 1.0, float(MEMORY), Params())


def test_levels_beyond_the_second_have_numbers_where_no_other_may_hide() -> None:
    two, three = _timed(None), _timed({})
    assert two.numbered and two.third is None
    assert three.numbered and three.third is not None and three.third_ticks == pytest.approx(L3, rel=0.05)
    for levels in (two, three):
        assert (levels.near_ticks, levels.lost_ticks) == (pytest.approx(L1, rel=0.05), pytest.approx(L2, rel=0.05))
        assert levels.second is not None and levels.first_bytes < levels.second
        assert levels.second_bytes is not None and levels.second < 1.1 * levels.second_bytes


def test_levels_have_no_numbers_where_one_may_hide_or_there_is_no_second() -> None:
    walks, cycles = {"l1": Walk(1.0), "l2": Walk(2.0)}, {"l1": 4.0, "l2": 14.0, "memory": 300.0}
    assert levels_of(Found(walks=walks, cycles=cycles), 1.0, 300.0, Params()).numbered
    far = levels_of(Found(walks=walks, cycles=cycles, hidden_cycles=60.0), 1.0, 300.0, Params())
    assert not far.numbered and (far.second, far.lost_ticks) == (2.0, 14.0)
    near = levels_of(Found(walks=walks, cycles=cycles, hidden_cycles=9.0), 1.0, 300.0, Params())
    assert not near.numbered and (near.second, near.lost_ticks) == (Params().outgrow, 9.0)
    alone = levels_of(Found(walks=walks, cycles={"l1": 4.0, "memory": 300.0}), 1.0, 300.0, Params())
    assert not alone.numbered and alone.second is None


@pytest.mark.parametrize("step", [1.0, 30.0])
@pytest.mark.parametrize("fractions", [(0.0, 1.0, 0.0, 0.0), (0.2, 0.7, 0.1, 0.0), (0.0, 0.3, 0.5, 0.2)])
def test_where_timed_lines_were_is_known_on_a_coarse_clock_too(step: float, fractions: tuple[float, ...]) -> None:
    rng = np.random.default_rng(5)
    levels = replace(LEVELS, second=128e3, third=2e6, third_ticks=float(L3))

    def read(taken: NDArray[np.float64]) -> NDArray[np.int64]:
        return (np.floor((80.0 + taken) / step + rng.random(len(taken))) * step).astype(np.int64)

    ticks = read(rng.choice([L1, L2, L3, MEMORY], 256, p=fractions).astype(np.float64))
    found = beyond(ticks, read(np.full(4096, float(L1))), step, levels, Params())
    expected = np.cumsum(fractions[::-1])[::-1]
    assert [found[name] for name in ("l1", "l2", "l3", "memory")] == pytest.approx(expected, abs=Params().looseness)


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
        assert prefetched_traffic(Context(machine=machine, seed=1), region, LEVELS, params) == traffic
