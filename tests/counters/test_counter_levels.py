"""Levels that the validation of events finds."""

from __future__ import annotations

from contextlib import closing

import pytest
from quiet_machines import L1, L2, L3, MEMORY, quiet

from scenarios.counters.levels import Levels, levels_of
from scenarios.counters.params import Params
from setebench.calibration import Levels as Found
from setebench.calibration import Walk
from setebench.experiments.levels import find_levels, working_memory
from setebench.scenario import Context


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
