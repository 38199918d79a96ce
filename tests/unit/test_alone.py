"""Doing work while nobody else runs on another thread of the core, on a made-up one that tells its pace."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.machine import Facts
from setebench.measure.alone import FAST_PATIENCE, LOOKS, PAUSE, Alone
from setebench.probe import Probe
from setebench.scenario import Context

FREE_TICKS, SHARED_TICKS, RULER_TICKS = 1000, 1600, 900


class Core:
    """Tells, look by look, whether somebody runs beside; `clock` scales all times, as another frequency does. CPUs are
    told as cores of their own, those in `siblings` as one."""

    def __init__(self, shared: Iterator[bool], siblings: tuple[int, ...] = ()) -> None:
        self._shared, self.clock, self.pauses, self.together = shared, 1.0, 0, 0
        self.facts = Facts(name="core", kind="sim", cpus=(3, 4), siblings=(siblings,), ticks_per_second=1e9)

    def run(self, probe: Probe, placements: int, **_: Any) -> NDArray[np.int64]:
        if probe == PAUSE:
            self.pauses += 1
            return np.zeros((placements, 0), dtype=np.int64)
        nops = SHARED_TICKS if next(self._shared) else FREE_TICKS
        return np.array([[nops, RULER_TICKS]] * placements) * int(self.clock)

    def run_together(self, probes: dict[int, Probe], placements: int, **_: Any) -> dict[int, NDArray[np.int64]]:
        self.together += 1
        return {cpu: self.run(probe, placements) for cpu, probe in probes.items()}


def alone_on(*later: bool, ever: bool = False) -> tuple[Alone, Core, list[int]]:
    """Alone on a core that was free at first and is shared `later` as given; where work notes that it was done."""
    core = Core(chain(repeat(False, LOOKS), later, repeat(ever)))
    alone = Alone(Context(machine=core, fast=True))  # type: ignore[arg-type]
    core.pauses = 0
    return alone, core, []


def test_work_on_a_free_core_is_done_once() -> None:
    alone, core, done = alone_on()
    alone.run(lambda: done.append(1))
    assert (len(done), core.pauses, alone.shared_share) == (1, 0, 0.0)


def test_work_is_done_again_once_the_core_is_free() -> None:
    alone, core, done = alone_on(False, True, True, True)
    alone.run(lambda: done.append(1))
    assert (len(done), core.pauses, alone.shared_share) == (2, 3, 0.0)


def test_another_clock_rate_is_nobody_beside() -> None:
    alone, core, done = alone_on()
    core.clock = 2.0
    alone.run(lambda: done.append(1))
    assert (len(done), core.pauses) == (1, 0)


def test_patience_ends_and_what_was_shared_is_counted() -> None:
    alone, core, done = alone_on(ever=True)
    for _ in range(4):
        alone.run(lambda: done.append(1))
    assert alone.shared_share == 1.0
    assert core.pauses <= FAST_PATIENCE and len(done) <= 6


def test_each_core_has_a_pace_of_its_own() -> None:
    """The second one is slower whenever it is looked at, which is what it can do."""
    core = Core(chain(repeat(False, LOOKS + 2), repeat(True)))
    context, done = Context(machine=core, fast=True), list[int]()  # type: ignore[arg-type]
    for cpu in (3, 4):
        Alone(context, (cpu,)).run(lambda: done.append(1))
    assert (len(done), core.pauses) == (2, 2 * LOOKS)


def test_cpus_that_slow_each_other_down_are_not_alone_together() -> None:
    """Each runs at full pace alone, so a hypervisor has put both on one core; nobody waits for ever."""
    core = Core(chain(repeat(False, 2 * LOOKS), repeat(True)))
    alone = Alone(Context(machine=core, fast=True), (3, 4), 0.01)  # type: ignore[arg-type]
    alone.run(lambda: None)
    assert core.together > 0 and not alone.lately


def test_threads_of_a_known_core_are_looked_at_one_by_one() -> None:
    core = Core(repeat(False), siblings=(3, 4))
    alone = Alone(Context(machine=core, fast=True), (3, 4))  # type: ignore[arg-type]
    alone.run(lambda: None)
    assert core.together == 0 and alone.lately
