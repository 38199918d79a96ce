"""Whether a core is ours alone just now, and work done while it is.

A hypervisor may run another guest, a co-runner, on the other thread of a core, which no list of CPUs shows. While he
runs, the core gives him miss entries, part of its queues and issue slots; then one counts what is left, not what there
is. Issue slots show: independent instructions, which take nothing but these, run slower than they ever did beside a
chain that only waits for itself and so keeps its pace. That holds for any clock rate, and asks for no right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

import numpy as np

from setebench.errors import UnsupportedError
from setebench.experiments.calibrate import step_ticks
from setebench.machine import Ticks
from setebench.probe import Probe
from setebench.scenario import Context

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Params:
    """The control, and how long work waits for a co-runner to go."""

    nops: int = 120  # in a loop; a longer one fits a cache of decoded instructions now and then only
    rounds: int = 100  # of that loop
    additions: int = 1000  # chained ones behind it
    steps: int = 40  # of the clock that a control lasts at least: one more or less would look like a co-runner
    most_scale: int = 8  # times as long at most for that; where it doesn't do, nobody is seen
    repetitions: int = 5  # of which all but the slowest count: an interrupt may have fallen into it
    warmup: int = 1  # repetitions before
    alone_fraction: float = 0.9  # of the fastest pace: steps blur a control by some percent, a co-runner takes 25
    first_controls: int = 60  # after which the fastest pace is known
    pause_cycles: int = 1 << 21  # between two: a co-runner who runs for some milliseconds mustn't fill them all
    patience: int = 3000  # pauses that work waits for altogether, about two seconds


PARAMS = Params()
PAUSE = Probe().wait(PARAMS.pause_cycles)


@cache
def control(scale: int) -> Probe:
    """No-operations, then the chain beside, so many times as long as usual."""
    nops = Probe().start(0).repeat(scale * PARAMS.rounds, Probe().nop(PARAMS.nops)).stop(0)
    return nops.start(1).add(scale * PARAMS.additions).stop(1)


def watch(context: Context) -> None:
    """Note how fast the core's issue slots are at first. The longer ago that was, the likelier it was alone then, so
    whoever has other things to measure before calls it first."""
    if not context.calibration.issue_pace and _scale(context):
        for _ in range(PARAMS.first_controls):
            _free(context)
            context.machine.run(PAUSE, 1, cpu=context.cpu)


def _scale(context: Context) -> int:
    """How many times as long as usual a sample is on this clock; 0 where none shows anything: the clock is too coarse,
    or the machine lacks what a sample is made of."""
    scale = context.calibration.control_scale
    if scale is None:
        try:
            first = _times(context, control(1))
            context.machine.run(PAUSE, 1, cpu=context.cpu)
            scale = math.ceil(PARAMS.steps * step_ticks(context) / max(float(np.median(first[:, 1])), 1.0))
        except UnsupportedError:
            scale = 0
        scale = scale if scale <= PARAMS.most_scale else 0
        pace = pace_of(first) if scale == 1 else 0.0  # the earliest of all: nobody may have come yet
        context.calibration = replace(context.calibration, control_scale=scale, issue_pace=pace)
    return scale


def _free(context: Context) -> bool:
    """Whether no co-runner is seen."""
    scale = _scale(context)
    if not scale:
        return True
    pace = pace_of(_times(context, control(scale)))
    fastest = max(pace, context.calibration.issue_pace)
    context.calibration = replace(context.calibration, issue_pace=fastest)
    return pace >= PARAMS.alone_fraction * fastest


def pace_of(times: Ticks) -> float:
    """Of no-operations beside additions. A chain that was held up would make it look faster than any that there is."""
    nops, additions = times.T
    return float(additions.min() / max(np.sort(nops)[-2], 1))


def _times(context: Context, probe: Probe) -> Ticks:
    """Of both intervals, shape (repetitions, 2)."""
    return context.machine.run(probe, PARAMS.repetitions + PARAMS.warmup, cpu=context.cpu, warmup=PARAMS.warmup)


class Alone:
    """Runs work while no co-runner is seen on the core that is measured, for as long as there is patience to wait for
    that."""

    def __init__(self, context: Context) -> None:
        self._context, self._patience = context, PARAMS.patience
        self._runs = self._beside = 0
        self._free_now = False
        watch(context)

    @property
    def co_runner_fraction(self) -> float:
        """Of the work, what was done beside a co-runner, patience being gone."""
        return self._beside / max(self._runs, 1)

    def run(self, work: Callable[[], Result]) -> Result:
        """What `work` returns, done once more where a co-runner was seen right before it or right after."""
        while True:
            before = self._waited()
            result = work()
            self._free_now = _free(self._context)
            alone = before and self._free_now
            if alone or self._patience <= 0:
                self._runs += 1
                self._beside += not alone
                return result
            self._patience -= 1

    def _waited(self) -> bool:
        """Wait until no co-runner is seen, and say whether that is so."""
        if self._free_now:  # seen right behind the work before
            return True
        while not (free := _free(self._context)) and self._patience > 0:
            self._context.machine.run(PAUSE, 1, cpu=self._context.cpu)
            self._patience -= 1
        return free
