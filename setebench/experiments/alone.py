"""Whether a core is ours alone just now, and work done while it is.

A hypervisor may run another guest, a co-runner, on the other thread of a core, which no list of CPUs shows. While he
runs, the core gives him miss entries, part of its queues and issue slots; then one counts what is left, not what there
is. Issue slots show: independent instructions, which take nothing but these, run slower than they ever did beside a
chain that only waits for itself and so keeps its pace. That holds for any clock rate, and asks for no right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

import numpy as np

from setebench.errors import UnsupportedError
from setebench.experiments.calibrate import step_ticks
from setebench.machine import Machine, Ticks, run_on
from setebench.probe import Probe
from setebench.scenario import Context

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Params:
    """The control, and how long work waits for a co-runner to go.

    A control is `nops` no-operations in a loop of `rounds` (a longer loop fits a cache of decoded instructions now and
    then only, and its pace changes with that), then `additions` chained ones. It lasts `steps` of the clock at least,
    or a step more or less would look like a co-runner, and is made up to `most_scale` times as long for that; where
    that doesn't do, nobody can be reported. Of its `repetitions` (after `warmup`; where threads are begun,
    `threads_warmup`: a CPU that was asleep takes longer to come to pace) all but the slowest count, into which an
    interrupt may have fallen: who mostly waits for memory slows down some of them only.

    A core is not alone below `alone_fraction` of the fastest pace seen: a clock's steps blur a control by some percent,
    and a co-runner takes a quarter or more, as one of its instructions takes all slots of a cycle. One who mostly waits
    for memory takes less and is missed. The fastest pace is known after `first_controls` (`least_controls` for
    each of many CPUs), with `pause_cycles` between two: a co-runner who runs for some milliseconds mustn't fill them
    all. `together_every`: several CPUs are controlled at once before every so many works or so, else one after the
    other, as to begin threads takes milliseconds and a hypervisor leaves CPUs where they are for longer than that.

    Work waits for up to `patience` pauses altogether, some ten seconds (`fast_patience`, about two, with --fast), and
    what is right without, if with wider intervals, for `little_patience` of that."""

    nops: int = 120
    rounds: int = 100
    additions: int = 1000
    steps: int = 40
    most_scale: int = 8
    repetitions: int = 5
    warmup: int = 1
    threads_warmup: int = 5
    alone_fraction: float = 0.9
    first_controls: int = 60
    least_controls: int = 6
    pause_cycles: int = 1 << 21
    together_every: int = 12
    patience: int = 20000
    fast_patience: int = 3000
    little_patience: float = 0.2


PARAMS = Params()
PAUSE = Probe().wait(PARAMS.pause_cycles)


@cache
def control(scale: int) -> Probe:
    """No-operations, then the chain beside, so many times as long as usual."""
    nops = Probe().start(0).repeat(scale * PARAMS.rounds, Probe().nop(PARAMS.nops)).stop(0)
    return nops.start(1).add(scale * PARAMS.additions).stop(1)


def watch(context: Context, cpus: Sequence[int | None] = ()) -> None:
    """Note how fast the issue slots of CPUs ever are, by default of the one that is measured."""
    cpus = cpus or (context.cpu,)
    if not _scale(context):
        return
    for _ in range(max(PARAMS.first_controls // len(cpus), PARAMS.least_controls)):
        for cpu in cpus:
            _free(context, (cpu,))
            context.machine.run(PAUSE, 1, cpu=cpu)


def _scale(context: Context) -> int:
    """How many times as long as usual a sample is on this clock; 0 where none shows anything: the clock is too coarse,
    or the machine lacks what a sample is made of."""
    if context.calibration.control_scale is None:
        try:
            tick_rate = _times(context.machine, (context.cpu,), control(1))[0][:, 1]
            context.machine.run(PAUSE, 1, cpu=context.cpu)
            scale = math.ceil(PARAMS.steps * step_ticks(context) / max(float(np.median(tick_rate)), 1.0))
        except UnsupportedError:
            scale = 0
        scale = scale if scale <= PARAMS.most_scale else 0
        context.calibration = replace(context.calibration, control_scale=scale)
        return scale
    return context.calibration.control_scale


def _free(context: Context, cpus: Sequence[int | None]) -> bool:
    """Whether no co-runner is seen on any of the cores. All run controls at once: then CPUs slow each other down that
    a hypervisor has put on one core unsaid."""
    scale = _scale(context)
    if not scale:
        return True
    paces = []
    for nops, tick_rate in (times.T for times in _times(context.machine, cpus, control(scale))):
        # a chain that was held up would make the pace look faster than any that there is
        paces.append(float(tick_rate.min() / max(np.sort(nops)[-2], 1)))
    before = context.calibration.issue_pace
    fastest = {cpu: max(pace, before.get(cpu, 0.0)) for cpu, pace in zip(cpus, paces, strict=True)}
    context.calibration = replace(context.calibration, issue_pace={**before, **fastest})
    return all(pace >= PARAMS.alone_fraction * fastest[cpu] for cpu, pace in zip(cpus, paces, strict=True))


def _times(machine: Machine, cpus: Sequence[int | None], probe: Probe) -> list[Ticks]:
    """Of both intervals on every CPU, shape (repetitions, 2) each."""
    warmup = PARAMS.threads_warmup if len(cpus) > 1 else PARAMS.warmup
    return list(run_on(machine, dict.fromkeys(cpus, probe), PARAMS.repetitions + warmup, warmup=warmup).values())


class Alone:
    """Runs work while no co-runner is seen on the cores that do it, for as long as there is patience to wait for
    that. How many of its epochs counted is evidence (`epochs`)."""

    def __init__(
        self, context: Context, cpus: Iterable[int | None] = (), patience: float = 1.0, question: str = ""
    ) -> None:
        """The cores are those of the `cpus`, by default the one that is measured; `patience` is a fraction of what
        there is at most. Evidence is kept of a `question` that has a name."""
        self._context, self._cpus, self._question = context, tuple(cpus) or (context.cpu,), question
        self._patience = patience * (PARAMS.fast_patience if context.fast else PARAMS.patience)
        self._runs = self._beside = 0
        self.lately = True
        """Whether the latest work was done alone."""
        self._free_now: tuple[int | None, ...] = ()
        self._conflicting: set[tuple[int | None, ...]] = set()
        known = context.calibration.issue_pace
        if new := [cpu for cpu in self._one_of_each_core(self._cpus) if cpu not in known]:
            watch(context, new)

    @property
    def co_runner_fraction(self) -> float:
        """Of the work, what was done beside a co-runner, patience being gone."""
        return self._beside / max(self._runs, 1)

    def run(
        self,
        work: Callable[[], Result],
        cpus: Iterable[int | None] = (),
        pauses: Callable[[Result], float] = lambda _: 1.0,
    ) -> Result:
        """What `work` returns, done once more where a co-runner was seen right before it or right after on one of the
        cores, or on those of some of the CPUs. What it gave took about as long as so many `pauses`."""
        chosen = self._one_of_each_core(tuple(cpus) or self._cpus)
        while True:
            before = self._waited(chosen)
            result = work()
            after = self._looked(chosen)
            self._free_now = chosen if after else ()
            self.lately = before and after
            if self.lately or self._patience <= 0:
                self._note()
                return result
            self._patience -= pauses(result)

    def _note(self) -> None:
        """Count an epoch whose work is done; where there is no control nobody knows which count."""
        self._runs += 1
        self._beside += not self.lately
        if self._question and _scale(self._context):
            epochs = self._context.evidence.setdefault("epochs", {}).setdefault(self._question, {"counted": 0, "of": 0})
            epochs["counted"] += self.lately
            epochs["of"] += 1

    def _one_of_each_core(self, cpus: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Threads of one core that are known as such may well slow each other down."""
        known = self._context.machine.facts.siblings if len(cpus) > 1 else ()
        core = {cpu: next((group for group in known if cpu in group), (cpu,)) for cpu in cpus}
        return tuple(cpu for number, cpu in enumerate(cpus) if not any(one in core[cpu] for one in cpus[:number]))

    def _looked(self, cpus: tuple[int | None, ...]) -> bool:
        """A sample at all of these CPUs, at once where that is due or where they were last seen on one core."""
        if len(cpus) > 1 and (self._runs % PARAMS.together_every == 0 or cpus in self._conflicting):
            apart = _free(self._context, cpus)
            (self._conflicting.discard if apart else self._conflicting.add)(cpus)
            return apart
        return all([_free(self._context, (cpu,)) for cpu in cpus])

    def _waited(self, cpus: tuple[int | None, ...]) -> bool:
        """Wait until no co-runner is seen, and say whether that is so."""
        if self._free_now == cpus:  # seen right behind the work before
            return True
        while not (free := self._looked(cpus)) and self._patience > 0:
            self._context.machine.run(PAUSE, 1, cpu=cpus[0])
            self._patience -= len(cpus)
        return free
