"""Doing work while no co-runner is seen on the core, on a made-up one that shows its pace."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

import numpy as np
import pytest
from bare_machine import BareMachine, facts_of
from numpy.typing import NDArray

from setebench.calibration import Calibration
from setebench.experiments.alone import PARAMS, PAUSE, Alone
from setebench.probe import Probe
from setebench.scenario import Context

FREE_TICKS, SHARED_TICKS, TICK_RATE_TICKS = 1000, 1600, 900


class Core(BareMachine):
    """Shows, look by look, whether another user runs beside; `clock` scales all times, as another frequency does."""

    facts = facts_of("core", cpus=(3, 4))

    def __init__(self, shared: Iterator[bool]) -> None:
        super().__init__()
        self._shared, self.clock, self.pauses = shared, 1.0, 0

    def run(self, probe: Probe, placements: int, **_: Any) -> NDArray[np.int64]:
        if probe == PAUSE:
            self.pauses += 1
            return np.zeros((placements, 0), dtype=np.int64)
        nops = SHARED_TICKS if next(self._shared) else FREE_TICKS
        return np.array([[nops, TICK_RATE_TICKS]] * placements) * int(self.clock)


def context_of(core: Core, step_ticks: float = 1.0) -> Context:
    return Context(machine=core, fast=True, calibration=Calibration(step_ticks=step_ticks))


def alone_on(*later: bool, ever: bool = False) -> tuple[Alone, Core, list[int]]:
    """Alone on a core that was free at first and is shared `later` as given; where work notes that it was done."""
    core = Core(chain(repeat(False, PARAMS.first_controls + 1), later, repeat(ever)))
    alone = Alone(context_of(core))
    core.pauses = 0
    return alone, core, []


@pytest.mark.parametrize(
    ("later", "clock", "times", "pauses"),
    [((), 1.0, 1, 0), ((True, True), 1.0, 2, 2), ((), 2.0, 1, 0)],
    ids=["free", "free later", "another clock rate"],
)
def test_work_is_done_again_once_the_core_is_free(
    later: tuple[bool, ...], clock: float, times: int, pauses: int
) -> None:
    alone, core, done = alone_on(*later)
    core.clock = clock
    alone.run(lambda: done.append(1))
    assert (len(done), core.pauses, alone.co_runner_fraction) == (times, pauses, 0.0)


def test_patience_ends_and_what_was_shared_is_counted() -> None:
    alone, core, done = alone_on(ever=True)
    for _ in range(4):
        alone.run(lambda: done.append(1))
    assert alone.co_runner_fraction == 1.0
    assert core.pauses <= PARAMS.patience and len(done) <= 6
