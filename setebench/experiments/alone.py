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
    """The control, and how long work waits for a co-runner to go.

    A control is `nops` no-operations in a loop of `rounds` (a longer loop fits a cache of decoded instructions now and
    then only, and its pace changes with that), then `additions` chained ones. It lasts `steps` of the clock at least,
    or a step more or less would look like a co-runner, and is made up to `most_scale` times as long for that; where
    that doesn't do, nobody can be reported. Of its `repetitions` (after `warmup`) all but the slowest count, into which
    an interrupt may have fallen: who mostly waits for memory slows down some of them only.

    A core is not alone below `alone_fraction` of the fastest pace seen: a clock's steps blur a control by some percent,
    and a co-runner takes a quarter or more, as one of its instructions takes all slots of a cycle. One who mostly waits
    for memory takes less and is missed. The fastest pace is known after `first_controls`, with `pause_cycles` between
    two: a co-runner who runs for some milliseconds mustn't fill them all. Fewer than `least_controls` say nothing.

    Work waits for up to `patience` pauses altogether, some ten seconds (`fast_patience`, about two, with --fast)."""

    nops: int = 120
    rounds: int = 100
    additions: int = 1000
    steps: int = 40
    most_scale: int = 8
    repetitions: int = 5
    warmup: int = 1
    alone_fraction: float = 0.9
    first_controls: int = 60
    least_controls: int = 6
    pause_cycles: int = 1 << 21
    patience: int = 20000
    fast_patience: int = 3000


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
    if context.calibration.control_scale is None:
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
    return context.calibration.control_scale


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
    that. How many of its epochs counted is evidence (`epochs`)."""

    def __init__(self, context: Context, question: str = "", *, patient: bool = True) -> None:
        """Evidence is kept of a `question` that has a name. Who isn't `patient` waits as with --fast."""
        self._context, self._question = context, question
        self._patience = PARAMS.patience if patient and not context.fast else PARAMS.fast_patience
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
                self._note(alone)
                return result
            self._patience -= 1

    def _note(self, alone: bool) -> None:
        """Count an epoch whose work is done; where there is no control nobody knows which count."""
        self._runs += 1
        self._beside += not alone
        if self._question and _scale(self._context):
            epochs = self._context.evidence.setdefault("epochs", {}).setdefault(self._question, {"counted": 0, "of": 0})
            epochs["counted"] += alone
            epochs["of"] += 1

    def _waited(self) -> bool:
        """Wait until no co-runner is seen, and say whether that is so."""
        if self._free_now:  # seen right behind the work before
            return True
        while not (free := _free(self._context)) and self._patience > 0:
            self._context.machine.run(PAUSE, 1, cpu=self._context.cpu)
            self._patience -= 1
        return free
