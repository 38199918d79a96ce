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
from setebench.errors import UnsupportedError
from setebench.experiments.alone import PARAMS, PAUSE, Alone
from setebench.probe import Probe
from setebench.scenario import Context

FREE_TICKS, SHARED_TICKS, TICK_RATE_TICKS = 1000, 1600, 900


class Core(BareMachine):
    """Shows, look by look, whether another user runs beside; `clock` scales all times, as another frequency does. CPUs
    are reported as cores of their own, those in `siblings` as one."""

    def __init__(self, shared: Iterator[bool], siblings: tuple[int, ...] = ()) -> None:
        super().__init__()
        self._shared, self.clock, self.pauses, self.together = shared, 1.0, 0, 0
        self.facts = facts_of("core", cpus=(3, 4), siblings=(siblings,))

    def run(self, probe: Probe, placements: int, **_: Any) -> NDArray[np.int64]:
        if probe == PAUSE:
            self.pauses += 1
            return np.zeros((placements, 0), dtype=np.int64)
        nops = SHARED_TICKS if next(self._shared) else FREE_TICKS
        return np.array([[nops, TICK_RATE_TICKS]] * placements) * int(self.clock)

    def run_together(self, probes: dict[int, Probe], placements: int, **_: Any) -> dict[int, NDArray[np.int64]]:
        self.together += 1
        return super().run_together(probes, placements)


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
    [((), 1.0, 1, 0), ((False, True, True, True), 1.0, 2, 2), ((), 2.0, 1, 0)],
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
    assert core.pauses <= PARAMS.fast_patience and len(done) <= 6


def test_each_core_has_a_pace_of_its_own() -> None:
    """The second one is slower whenever it is looked at, which is what it can do."""
    core = Core(chain(repeat(False, PARAMS.first_controls + 3), repeat(True)))
    context, done = context_of(core), list[int]()
    for cpu in (3, 4):
        Alone(context, (cpu,)).run(lambda: done.append(1))
    assert (len(done), core.pauses) == (2, 2 * PARAMS.first_controls + 1)


def test_cpus_that_slow_each_other_down_are_not_alone_together() -> None:
    """Each runs at full pace alone, so a hypervisor has put both on one core; nobody waits for ever."""
    core = Core(chain(repeat(False, PARAMS.first_controls + 1), repeat(True)))
    alone = Alone(context_of(core), (3, 4), 0.01)
    alone.run(lambda: None)
    assert core.together > 0 and not alone.lately


def test_threads_of_a_known_core_are_looked_at_one_by_one() -> None:
    core = Core(repeat(False), siblings=(3, 4))
    alone = Alone(context_of(core), (3, 4))
    alone.run(lambda: None)
    assert core.together == 0 and alone.lately


def test_on_a_clock_too_coarse_for_samplings_nobody_waits() -> None:
    alone, done = Alone(context_of(Core(repeat(True)), 1e4)), list[int]()
    alone.run(lambda: done.append(1))
    assert len(done) == 1 and alone.lately


@pytest.mark.parametrize("ticks", [0, 1])
def test_a_clock_that_hardly_moves_shows_nobody(ticks: int) -> None:
    core = Core(repeat(True))
    core.clock = 0.0
    alone = Alone(context_of(core, float(ticks)))
    alone.run(lambda: None)
    assert alone.lately and alone.co_runner_fraction == 0.0


def test_a_machine_without_no_operations_is_not_waited_for() -> None:
    class Bare(Core):
        def run(self, probe: Probe, placements: int, **_: Any) -> NDArray[np.int64]:
            raise UnsupportedError("no such operation")

    alone, done = Alone(context_of(Bare(repeat(True)))), list[int]()
    alone.run(lambda: done.append(1))
    assert len(done) == 1 and alone.lately


def test_what_was_known_before_a_scenario_stays_as_it_was() -> None:
    """A campaign goes back to it where a scenario fails."""
    core = Core(chain(repeat(True, PARAMS.first_controls + 2), repeat(False)))
    context = context_of(core)
    Alone(context)
    before = context.calibration
    paces = dict(before.issue_pace)
    Alone(context).run(lambda: None)
    assert before.issue_pace == paces != context.calibration.issue_pace
