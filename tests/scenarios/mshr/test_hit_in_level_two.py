"""Where a line is found that evictors ought to have left in level 2, from timings that were made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from setebench.scenarios.mshr.curves import Curves
from setebench.scenarios.mshr.demand import levels_off

from setebench.calibration import Calibration
from setebench.experiments.bursts.of_threads import ThreadBursts
from setebench.scenario import Context

CYCLES = {"l1": 4.0, "l2": 14.0, "l3": 50.0, "memory": 300.0}
EMPTY = 40.0


@pytest.mark.parametrize("step", [1.0, 26.0])
@pytest.mark.parametrize(
    ("shares", "off"),
    [
        ({"l2": 1.0}, 0),
        ({"l2": 0.8, "memory": 0.2}, 0),
        ({"l2": 0.4, "memory": 0.6}, 1),
        ({"memory": 1.0}, 1),
        ({"l3": 1.0}, 1),
        ({"l1": 1.0}, -1),
    ],
)
def test_a_line_is_in_level_two_where_most_loads_find_it_there(shares: dict[str, float], off: int, step: float) -> None:
    """Some that went out to memory spoil no calm level, so they must not make the mean that of another level."""
    rng = np.random.default_rng(7)

    def near(evictor_bytes: float) -> NDArray[np.float64]:
        levels = rng.choice(list(shares), 64, p=list(shares.values())) if evictor_bytes else ["l1"] * 64
        times = EMPTY + np.array([CYCLES[str(level)] for level in levels])
        return np.floor(times / step + rng.random(64)) * step

    context = Context(machine=cast(Any, None), calibration=Calibration(step_ticks=step))
    curves = Curves(context, cast(ThreadBursts, SimpleNamespace(cycles_per_tick=1.0)), CYCLES)
    assert levels_off(curves, near, 1e5) == off
