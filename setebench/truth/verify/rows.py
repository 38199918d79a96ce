"""One trial with what machine and twin gave for it, as labels, depths and times."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from setebench.errors import UnsupportedError
from setebench.sim import spec
from setebench.truth.verify.agreement import Compared
from setebench.truth.verify.asking import Answer, Asker
from setebench.truth.verify.trials import Levels, Trial

MEMORY = 9.0
"""The label of memory, whatever the number of cache levels."""


@dataclass(frozen=True)
class Params:
    """The least that counts as a difference. Smaller ones are within what a run knows of its own scale."""

    depth: float = 0.25  # of the way from one level to the next: a line that is nearer in one of four repetitions
    time: float = 0.05  # of a time: a run knows its cycles per tick, and an empty interval, no better
    cycles: float = 2.0  # of a whole probe, for the same reason


PARAMS = Params()


@dataclass(frozen=True)
class Row:
    """One trial and three answers, in cycles; `compared` has them as labels where levels were measured. `apart` is by
    target how far the twin lies beyond both of the machine's answers, in levels, or relative to the time."""

    number: int
    trial: Trial
    first: Answer
    again: Answer
    twin: Answer
    compared: Compared
    apart: tuple[float, ...]

    @property
    def by_level(self) -> bool:
        """True where levels were measured, not times."""
        return isinstance(self.trial, Levels)

    @property
    def worst(self) -> int:
        """The target on which the twin lies farthest from the machine."""
        return int(np.argmax(np.abs(self.apart)))

    @property
    def badness(self) -> float:
        """How far the twin is off at the worst target: 0 where it is not."""
        return abs(self.apart[self.worst])


def row(number: int, trial: Trial, given: tuple[Answer, Answer, Answer], machine: spec.Machine) -> Row:
    """What the machine gave, gave again, and what the twin gave."""
    scales = [scaled(trial, each, machine) for each in given]
    least = least_difference(trial, given[0])
    apart = tuple(_beyond(one, two, other, least) for one, two, other in zip(*scales, strict=True))
    compared = Compared(*(labels(each, machine) if isinstance(trial, Levels) else each.cycles for each in given))
    return Row(number, trial, *given, compared, apart)


def _beyond(first: float, again: float, twin: float, least: float) -> float:
    """How far the twin is from the nearer of both answers, if it is so by more than `least` and on one side of both."""
    gaps = (twin - first, twin - again)
    nearer = min(gaps, key=abs)
    return nearer if gaps[0] * gaps[1] > 0 and abs(nearer) > least else 0.0


def least_difference(trial: Trial, first: Answer) -> float:
    """The difference that counts, in the scale of `scaled`."""
    if isinstance(trial, Levels):
        return PARAMS.depth
    return float(max(np.log1p(PARAMS.time), np.log1p(PARAMS.cycles / trial.units / first.cycles[0])))


def scaled(trial: Trial, answer: Answer, machine: spec.Machine) -> tuple[float, ...]:
    """Answers on a scale on which a difference means the same anywhere: depth in the hierarchy (1 for the first level,
    linear in cycles between the machine's latencies), or the logarithm of a time."""
    if not isinstance(trial, Levels):
        return tuple(float(np.log(max(each, 1e-9))) for each in answer.cycles)
    latencies = _latencies(machine)
    return tuple(float(np.interp(each, latencies, range(1, 1 + len(latencies)))) for each in answer.cycles)


def _latencies(machine: spec.Machine) -> list[float]:
    return [*(level.latency_cycles for level in machine.levels), machine.memory.latency_cycles]


def labels(answer: Answer, machine: spec.Machine) -> tuple[float, ...]:
    """The level that served each line, 1 for the first, `MEMORY` for memory. Levels part in the middle between the
    machine's latencies."""
    borders = [(one + other) / 2 for one, other in itertools.pairwise(_latencies(machine))]
    crossed = [sum(cycles > border for border in borders) for cycles in answer.cycles]
    return tuple(MEMORY if each == len(borders) else float(1 + each) for each in crossed)


def answers(asker: Asker, trials: dict[int, Trial]) -> Iterator[tuple[int, Answer]]:
    """What the machine gives for each trial; nothing for one that it can't run."""
    for number, trial in trials.items():
        try:
            yield number, asker.ask(trial)
        except UnsupportedError:
            continue
