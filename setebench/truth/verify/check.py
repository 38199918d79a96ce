"""The whole check: trials on the machine, on the machine again, and on its twin, until the time is over."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import zip_longest

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import stats

from setebench.errors import SetebenchError
from setebench.machine import Machine, open_machine
from setebench.sim import spec
from setebench.sim.machine import open_machine_file
from setebench.truth.twin import Twin
from setebench.truth.verify.families import FAMILIES, Surroundings, Trial, drawn
from setebench.truth.verify.runner import Cycles, Runner

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Params:
    """How far a check goes, and the least that counts as a difference: less is within what a run knows of its scale."""

    batch: int = 20  # trials between two calibrations: fewer than a second of this CPU's time
    drawing: float = 0.7  # of the minutes for new trials; the rest is for repeating those on which the twin differs
    repeated: int = 40  # such trials at most, the worst first: the more there are, the clearer each has to be
    rounds: int = 9  # of both machines: complete separation is then one chance in 24,310, enough among 240 trials
    early: int = 3  # rounds after which a trial is given up that chance explains
    futile: float = 0.35  # p-value above which it does: two machines that differ seldom get there
    stays: float = 0.03  # p-value below which the twin is wrong on a trial, where it is shown or fitted
    contradicts: float = 0.01  # false alarms that all trials together may raise on an exact twin
    depth: float = 0.25  # of the way from one level to the next: a line that is nearer in one of four repetitions
    time: float = 0.05  # of a time: a run knows its cycles per tick, and an empty interval, no better
    cycles: float = 2.0  # of a whole probe, for the same reason


PARAMS = Params()


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is wanted. `trials` ends the check as well as `minutes`; either may be None, but not both."""

    machine: str = "native"
    cpu: int | None = None
    seed: int = 1
    minutes: float | None = 2.0
    trials: int | None = None
    purpose: int = 0  # whose draws: 0 of the check, others of whoever improves a twin


# -- scales --------------------------------------------------------------------------------------------------------


def depths(cycles: Cycles, around: Surroundings) -> NDArray[np.float64]:
    """How deep in the hierarchy each line was: 0 in the first level, the number of caches in memory, linear in cycles
    between the twin's latencies."""
    return np.interp(cycles, around.latencies, range(len(around.latencies)))


def labels(cycles: Cycles, around: Surroundings) -> tuple[int, ...]:
    """The level that served each line. Levels part in the middle between the twin's latencies."""
    return tuple(map(round, depths(cycles, around)))


def scaled(trial: Trial, cycles: Cycles, around: Surroundings) -> NDArray[np.float64]:
    """Answers on a scale on which a difference means the same anywhere: depth, or the logarithm of a time."""
    return depths(cycles, around) if trial.targets else np.log(cycles)


def least_difference(trial: Trial, cycles: Cycles) -> float:
    """The difference that counts, in the scale of `scaled`."""
    if trial.targets:
        return PARAMS.depth
    return float(max(np.log1p(PARAMS.time), np.log1p(PARAMS.cycles / trial.units / cycles[0])))


@dataclass(frozen=True)
class Row:
    """One trial with the cycles of the machine, of the machine again at once and once more later, and of the twin.
    `worst` is the target on which the twin lies farthest beyond all of the machine's answers, and `badness` how far, in
    the scale of `scaled`: 0 where that is no more than the least difference."""

    number: int
    trial: Trial
    answers: tuple[Cycles, ...]
    worst: int
    badness: float


# -- the check -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verified:
    """All rows, and by number of the trials that were repeated the p-value that the twin differs by chance."""

    twin: Twin
    request: Request
    around: Surroundings
    rows: list[Row]
    doubts: dict[int, float]
    repetitions: int
    seconds: float = 0.0

    @property
    def families(self) -> dict[str, list[Row]]:
        """Rows by family, without families that have none."""
        found = {name: [row for row in self.rows if row.trial.family == name] for name in FAMILIES}
        return {name: rows for name, rows in found.items() if rows}

    @property
    def staying(self) -> list[Row]:
        """Trials on which the twin stayed wrong when both were run again, the worst first."""
        found = [row for row in self.rows if self.doubts.get(row.number, 1.0) < PARAMS.stays]
        return sorted(found, key=lambda row: (self.doubts[row.number], -row.badness))

    @property
    def contradicted(self) -> bool:
        """True if the twin differs from the machine for good: one doubt is too small for chance, all of them considered
        (Bonferroni)."""
        return any(each < PARAMS.contradicts / len(self.doubts) for each in self.doubts.values())


def surroundings(machine: spec.Machine, real: Machine, model: Machine) -> Surroundings:
    """What machine and twin both have."""
    own, other = real.facts, model.facts
    both = {
        name: tuple(each for each in getattr(own, name) if each in getattr(other, name))
        for name in ("page_sizes", "prefetch_hints", "kernels", "access_sizes")
    }
    lines = tuple(level.lines for level in machine.levels)
    facts = msgspec.structs.replace(own, **both)
    return Surroundings(facts, machine.line_size_bytes, lines, latencies(machine))


def latencies(machine: spec.Machine) -> tuple[float, ...]:
    """Cycles from load to use of each level, and of memory."""
    return (*(level.latency_cycles for level in machine.levels), machine.memory.latency_cycles)


def opened_twin(machine: spec.Machine, seed: int) -> Machine:
    """The machine with a clock that moves with every cycle and without noise: what is compared is memory."""
    fine = msgspec.structs.replace(machine.clock, step_ticks=1.0, jitter_cycles=0.0, drift=0.0)
    return open_machine_file(msgspec.structs.replace(machine, clock=fine, noise=spec.Noise()), seed)


def answered(machine: spec.Machine, checked: Verified, trials: dict[int, Trial]) -> dict[int, Cycles]:
    """What a simulated machine gives for trials, run as they were on the twin of the check."""
    with closing(opened_twin(machine, checked.request.seed)) as model:
        return Runner(model, checked.around, checked.request.seed + 1, checked.repetitions).answers(trials)


def verify(twin: Twin, request: Request, progress: Progress = lambda _: None) -> Verified:
    """Hold a twin against a machine. Raises what opening and running machines raises."""
    opened = open_machine(request.machine, cpu=request.cpu, seed=request.seed)
    with closing(opened) as real, closing(opened_twin(twin.machine, request.seed)) as model:
        around = surroundings(twin.machine, real, model)
        own = Runner(real, around, request.seed)
        checked = Verified(twin, request, around, [], {}, own.repetitions)
        both = (own, Runner(model, around, request.seed + 1, own.repetitions))
        start, seconds = time.monotonic(), 60 * (request.minutes or np.inf)  # the simulator is compiled by now
        numbers = range(request.trials or sys.maxsize)
        for begin in numbers[:: PARAMS.batch]:
            if begin and time.monotonic() - start > PARAMS.drawing * seconds:
                break
            progress(f"{begin} trials measured")
            trials = drawn(request.seed, numbers[begin : begin + PARAMS.batch], around, request.purpose)
            first, again = dict[int, Cycles](), dict[int, Cycles]()
            for number, trial in trials.items():  # at once, so that they differ by chance alone
                first |= own.answers({number: trial})
                again |= own.answers({number: trial})
            given = (first, again, own.answers(trials), both[1].answers(trials))
            complete = (n for n in trials if all(n in each for each in given))
            checked.rows.extend(_row(n, trials[n], tuple(each[n] for each in given), around) for n in complete)
        if not checked.rows:
            raise SetebenchError("no trial could be run on both machines")
        progress("repeating those on which they differ")
        for row in _worst(checked):
            if time.monotonic() - start < seconds:
                checked.doubts[row.number] = _doubt(row, both, around, start + seconds)
        return replace(checked, seconds=time.monotonic() - start)


def _row(number: int, trial: Trial, answers: tuple[Cycles, ...], around: Surroundings) -> Row:
    *own, twin = (scaled(trial, each, around) for each in answers)
    gaps = twin - np.array(own)
    beyond = np.where(np.abs(np.sign(gaps).sum(axis=0)) == len(own), np.abs(gaps).min(axis=0), 0.0)
    worst = int(beyond.argmax())
    counts = beyond[worst] > least_difference(trial, answers[0])
    return Row(number, trial, answers, worst, float(beyond[worst] * counts))


def _worst(checked: Verified) -> list[Row]:
    """Trials on which the twin differs, the worst of every family first, then the second of each."""
    wrong = [[row for row in rows if row.badness] for rows in checked.families.values()]
    ranked = zip_longest(*(sorted(rows, key=lambda row: -row.badness) for rows in wrong))
    return [row for rows in ranked for row in rows if row][: PARAMS.repeated]


def _doubt(row: Row, both: tuple[Runner, Runner], around: Surroundings, end: float) -> float:
    """The p-value that, on new places, answers of one machine for the worst target lie so far to one side of the
    other's if both behave alike, or differ by no more than the least difference: the rank test of Mann and Whitney,
    which holds whatever the noise is. What chance explains is given up early."""
    given, doubt = list[list[float]](), 1.0
    least, trial = least_difference(row.trial, row.answers[0]), {row.number: row.trial}
    for count in range(1, PARAMS.rounds + 1):
        answers = [each for runner in both for each in runner.answers(trial).values()]
        if len(answers) < len(both) or time.monotonic() > end or (count > PARAMS.early and doubt > PARAMS.futile):
            break
        given.append([float(scaled(row.trial, each, around)[row.worst]) for each in answers])
        first, second = np.array(given).T
        gap = np.median(second) - np.median(first)
        test = stats.mannwhitneyu(first, second - np.sign(gap) * least, method="exact")
        doubt = float(test.pvalue) if abs(gap) > least else 1.0
    return doubt
