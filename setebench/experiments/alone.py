"""Whether a core is ours alone just now, and work done while it is.

A hypervisor may run another guest, a co-runner, on the other thread of a core, which no list of CPUs shows. While he
runs, the core gives him miss entries, part of its queues and issue slots; then one counts what is left, not what there
is. Issue slots show: independent instructions, which take nothing but these, run slower than they ever did beside a
chain that only waits for itself and so keeps its pace. That holds for any clock rate, and asks for no right.
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
    """The control, and how long work waits for a co-runner to go."""

    nops: int = 120  # in a loop; a longer one fits a cache of decoded instructions now and then only
    rounds: int = 200  # of that loop
    additions: int = 2000  # chained ones behind it
    steps: int = 40  # of the clock that these last at least: else one step more would look like a co-runner
    repetitions: int = 5  # of which all but the slowest count: an interrupt may have fallen into it
    alone_fraction: float = 0.9  # of the fastest pace: steps blur a control by some percent, a co-runner takes 25
    first_controls: int = 60  # after which the fastest pace is known
    pause_cycles: int = 1 << 21  # between two: a co-runner who runs for some milliseconds mustn't fill them all
    patience: int = 3000  # pauses that work waits for altogether, about two seconds


PARAMS = Params()
PAUSE = Probe().wait(PARAMS.pause_cycles)
CONTROL = Probe().start(0).repeat(PARAMS.rounds, Probe().nop(PARAMS.nops)).stop(0)
CONTROL = CONTROL.start(1).add(PARAMS.additions).stop(1)


def watch(context: Context) -> None:
    """Note how fast the core's issue slots are at first. The longer ago that was, the likelier it was alone then, so
    whoever has other things to measure before calls it first."""
    for _ in range(0 if context.calibration.issue_pace else PARAMS.first_controls):
        _free(context)
        context.machine.run(PAUSE, 1, cpu=context.cpu)


def _free(context: Context) -> bool:
    """Whether no co-runner is seen."""
    pace = _pace(context)
    fastest = max(pace, context.calibration.issue_pace)
    context.calibration = replace(context.calibration, issue_pace=fastest)
    return pace >= PARAMS.alone_fraction * fastest


def _pace(context: Context) -> float:
    """Of no-operations beside additions: a chain that was held up would make it look faster than any that there is. 0
    where the clock is too coarse for it, or the machine lacks what it is made of."""
    try:
        nops, additions = context.machine.run(CONTROL, PARAMS.repetitions + 1, cpu=context.cpu, warmup=1).T
    except UnsupportedError:
        return 0.0
    coarse = np.median(additions) < PARAMS.steps * step_ticks(context)
    return 0.0 if coarse else float(additions.min() / max(np.sort(nops)[-2], 1))


class Alone:
    """Runs work while no co-runner is seen on the core that is measured, for as long as there is patience to wait for
    that."""

    def __init__(self, context: Context) -> None:
        self._context, self._patience = context, PARAMS.patience
        self._runs = self._beside = 0
        watch(context)
        self._free = _free(context)

    @property
    def co_runner_fraction(self) -> float:
        """Of the work, what was done beside a co-runner, patience being gone."""
        return self._beside / max(self._runs, 1)

    def run(self, work: Callable[[], Result]) -> Result:
        """What `work` returns, done once more where a co-runner was seen right before it or right after."""
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
