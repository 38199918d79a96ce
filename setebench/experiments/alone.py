"""Detect an SMT co-runner on the measured core, and repeat measurements until none is seen.

A hypervisor may run another guest on the core's other SMT thread, which no list of CPUs shows. That co-runner takes
MSHRs, queue entries and issue slots, so that counted entries are too few. The issue slots show it: independent
no-operations take longer than before, relative to a chain of dependent additions, whose pace a co-runner hardly
changes. This ratio doesn't depend on the clock rate, and needs no privilege.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from setebench.errors import UnsupportedError
from setebench.experiments.calibrate import step_ticks
from setebench.probe import Probe
from setebench.scenario import Context

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Params:
    """Tunables of the control (the timed code that shows a co-runner) and of waiting for a co-runner to leave."""

    nops: int = 120  # no-operations in the control's loop; longer loops may not fit a cache of decoded instructions
    rounds: int = 100  # rounds of that loop
    additions: int = 2000  # dependent additions after the loop
    steps: int = 40  # clock steps that the additions last at least, so that one step more is no false alarm
    repetitions: int = 4  # runs of a control; the slowest is ignored, as an interrupt may have hit it
    alone_fraction: float = 0.9  # of the fastest pace; less shows a co-runner, which takes 25 %; clock steps add 5 %
    first_controls: int = 60  # controls that determine the fastest pace
    pause_cycles: int = 1 << 21  # wait between two controls: a co-runner that runs for milliseconds must not hit all
    patience: int = 3000  # most pauses and repeated measurements together, about two seconds


PARAMS = Params()
PAUSE = Probe().wait(PARAMS.pause_cycles)
CONTROL = Probe().start(0).repeat(PARAMS.rounds, Probe().nop(PARAMS.nops)).stop(0)
CONTROL = CONTROL.start(1).add(PARAMS.additions).stop(1)


def watch(context: Context) -> None:
    """Measure the fastest pace of independent instructions on the core, once per run; later paces are compared with it.
    Scenarios call this before anything else, as a co-runner that comes later then shows."""
    for _ in range(0 if context.calibration.issue_pace else PARAMS.first_controls):
        _free(context)
        context.machine.run(PAUSE, 1, cpu=context.cpu)


def _free(context: Context) -> bool:
    """Run the control once, and return whether its pace is near the fastest one, so that no co-runner is seen."""
    pace = _pace(context)
    fastest = max(pace, context.calibration.issue_pace)
    context.calibration = replace(context.calibration, issue_pace=fastest)
    return pace >= PARAMS.alone_fraction * fastest


def _pace(context: Context) -> float:
    """Return the pace of independent instructions: the time of the additions over that of the no-operations; 0 if the
    clock is too coarse or an operation is lacking. The least time of additions is used, as delays fake a fast pace."""
    try:
        nops, additions = context.machine.run(CONTROL, PARAMS.repetitions + 1, cpu=context.cpu, warmup=1).T
    except UnsupportedError:
        return 0.0
    coarse = np.median(additions) < PARAMS.steps * step_ticks(context)
    return 0.0 if coarse else float(additions.min() / max(np.sort(nops)[-2], 1))


class Alone:
    """Runs measurements while no SMT co-runner is seen on the measured core, until `PARAMS.patience` is used up."""

    def __init__(self, context: Context) -> None:
        self._context, self._patience = context, PARAMS.patience
        self._runs = self._beside = 0
        watch(context)
        self._free = _free(context)

    @property
    def co_runner_fraction(self) -> float:
        """Fraction of measurements that were kept although a co-runner was seen: too many had been repeated before."""
        return self._beside / max(self._runs, 1)

    def run(self, work: Callable[[], Result]) -> Result:
        """Call `work` and return its result; call it again if a co-runner was seen right before or right after it."""
        while True:
            while not self._free and self._patience > 0:
                self._context.machine.run(PAUSE, 1, cpu=self._context.cpu)
                self._free, self._patience = _free(self._context), self._patience - 1
            before, result = self._free, work()
            self._free = _free(self._context)
            alone = before and self._free
            if alone or self._patience <= 0:
                self._runs += 1
                self._beside += not alone
                return result
            self._patience -= 1
