"""The whole check: trials on the machine, on the machine again, and on its twin, until the time is over."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from setebench.errors import SetebenchError, UnsupportedError
from setebench.machine import Machine, open_machine
from setebench.sim import spec
from setebench.sim.capacity import usable_lines
from setebench.sim.dump import dump
from setebench.truth.twin import Twin
from setebench.truth.verify.agreement import ASKED_AGAIN, Compared, contradicted, doubt, errors, separated
from setebench.truth.verify.asking import Answer, Asker
from setebench.truth.verify.families import drawn
from setebench.truth.verify.trials import Levels, Surroundings, Times, Trial

BATCH = 20
"""Trials between two calibrations: fewer than a second of this CPU's time."""

DRAWING = 0.7
"""Part of the minutes for new trials; the rest is for asking again where machine and twin differ."""

MEMORY = 9.0
"""The label of memory, whatever the number of cache levels."""

LEAST_TIME_ERROR, LEAST_CYCLES = 0.05, 2.0
"""Times that differ by less, relatively or in cycles of the whole probe, are the same: a run knows its cycles per
tick and an empty interval no better."""

MOST_ASKED_AGAIN = 6
"""Trials of each family, the worst, that are asked again to see whether they differ for good."""

Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked. `trials` ends the check as well as `minutes`; either may be None, but not both."""

    machine: str = "native"
    cpu: int | None = None
    seed: int = 1
    minutes: float | None = 2.0
    trials: int | None = None
    explain: bool = True


@dataclass(frozen=True)
class Row:
    """One trial and three answers, in cycles; `compared` has them as labels where levels were asked."""

    number: int
    trial: Trial
    first: Answer
    again: Answer
    twin: Answer
    compared: Compared

    @property
    def by_level(self) -> bool:
        """Whether levels were asked, not times."""
        return isinstance(self.trial, Levels)


@dataclass(frozen=True)
class Verified:
    """All rows, by family in the order in which families first came."""

    twin: Twin
    request: Request
    rows: list[Row]
    seconds: float
    parted: dict[int, bool] = field(default_factory=dict)
    facts: dict[str, object] = field(default_factory=dict)

    @property
    def families(self) -> dict[str, list[Row]]:
        """Rows by family."""
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            found.setdefault(row.trial.family, []).append(row)
        return found

    @property
    def doubts(self) -> dict[str, float]:
        """By family, how likely chance alone parts machine and twin on so many trials that were asked again."""
        return {name: _doubt([row.number for row in rows], self.parted) for name, rows in self.families.items()}

    @property
    def contradicted(self) -> bool:
        """Whether the twin differs from the machine for good."""
        return contradicted([*self.doubts.values(), _doubt(list(self.parted), self.parted)])


def _doubt(numbers: list[int], parted: dict[int, bool]) -> float:
    asked = [parted[number] for number in numbers if number in parted]
    return doubt(sum(asked), len(asked))


def badness(row: Row) -> float:
    """How wrong the twin is on a trial, beyond what the machine disagrees with itself; from 0 to 1."""
    if row.by_level:
        return row.compared.missed / len(row.compared.first)
    own, other = (float(errors([row.compared], which)[0]) for which in ("again", "twin"))
    beyond = max(other - max(2 * own, _least(row) / row.compared.first[0]), 0.0)
    return beyond / (1 + beyond)


def _least(row: Row) -> float:
    """The difference of times that counts, in the row's unit."""
    units = row.trial.units if isinstance(row.trial, Times) else 1
    return max(LEAST_TIME_ERROR * row.compared.first[0], LEAST_CYCLES / units)


Askers = tuple[Asker, Asker]
"""Machine and twin."""


def parted(rows: list[Row], askers: Askers, machine: spec.Machine, end: float | None = None) -> dict[int, bool]:
    """Of each family's worst trials by number, whether machine and twin differ on them for good: both are asked
    again, on new places, and all answers of one must lie on one side of the other's. A trial whose answers can't be
    parted any more is not asked further; one that the time is over for says nothing."""
    chosen: list[Row] = []
    for name in dict.fromkeys(row.trial.family for row in rows):
        wrong = [row for row in rows if row.trial.family == name and badness(row) > 0]
        chosen += sorted(wrong, key=lambda row: (-badness(row), row.number))[:MOST_ASKED_AGAIN]
    found: dict[int, bool] = {}
    for begin in range(0, len(chosen), BATCH):
        if end is not None and time.monotonic() > end:
            break
        found |= _asked_again(chosen[begin : begin + BATCH], askers, machine)
    return found


def _asked_again(rows: list[Row], askers: Askers, machine: spec.Machine) -> dict[int, bool]:
    said: dict[int, tuple[list[Answer], list[Answer]]] = {row.number: ([], []) for row in rows}
    found: dict[int, bool] = {}
    left = {row.number: row for row in rows}
    for _ in range(ASKED_AGAIN):
        for who, asker in enumerate(askers):
            asker.calibrate()
            for number, answer in answers(asker, {number: row.trial for number, row in left.items()}):
                said[number][who].append(answer)
        complete = {number: row for number, row in left.items() if len(said[number][0]) == len(said[number][1]) > 0}
        found = found | {number: _parted(row, said[number], machine) for number, row in complete.items()}
        left = {number: row for number, row in complete.items() if found[number]}
    return found


def _parted(row: Row, said: tuple[list[Answer], list[Answer]], machine: spec.Machine) -> bool:
    """On a line, or on the time, on which they differed before."""
    if not row.by_level:
        own, twin = ([each.cycles[0] for each in one] for one in said)
        return separated(own, twin, _least(row))
    compared = zip(row.compared.first, row.compared.again, row.compared.twin, strict=True)
    line = next(index for index, (one, two, other) in enumerate(compared) if one == two != other)
    own, twin = ([labels(each, machine)[line] for each in one] for one in said)
    return separated(own, twin)


def surroundings(machine: spec.Machine, real: Machine, twin: Machine) -> Surroundings:
    """What both machines have."""
    own, others = real.facts, twin.facts
    facts = msgspec.structs.replace(
        own,
        page_sizes=tuple(size for size in own.page_sizes if size in others.page_sizes),
        prefetch_hints=tuple(hint for hint in own.prefetch_hints if hint in others.prefetch_hints),
        kernels=tuple(name for name in own.kernels if name in others.kernels),
        access_sizes=tuple(size for size in own.access_sizes if size in others.access_sizes),
        siblings=own.siblings[: len(others.siblings)],
    )
    lines = tuple(usable_lines(level) for level in machine.levels)
    second = machine.levels[1].latency_cycles
    return Surroundings(facts, machine.line_size_bytes, lines, second, machine.memory.latency_cycles)


def undisturbed(machine: spec.Machine) -> spec.Machine:
    """The machine with a clock that moves with every cycle: what is asked of a twin is memory, not its clock."""
    fine = msgspec.structs.replace(machine.clock, step_ticks=1.0, jitter_cycles=0.0, drift=0.0)
    return msgspec.structs.replace(machine, clock=fine, noise=spec.Noise())


@contextmanager
def opened_twin(machine: spec.Machine, seed: int) -> Iterator[Machine]:
    """The machine, opened by the name of a file as any other."""
    with tempfile.TemporaryDirectory(prefix="setebench-") as folder:
        file = Path(folder) / "twin.toml"
        file.write_text(dump(undisturbed(machine)), encoding="utf-8")
        opened = open_machine(f"sim:{file}", seed=seed)
        try:
            yield opened
        finally:
            opened.close()


def labels(answer: Answer, machine: spec.Machine) -> tuple[float, ...]:
    """The level that served each line, 1 for the first, `MEMORY` for memory. Levels part in the middle between the
    machine's latencies."""
    latencies = [*(level.latency_cycles for level in machine.levels), machine.memory.latency_cycles]
    borders = [(one + other) / 2 for one, other in itertools.pairwise(latencies)]
    crossed = [sum(cycles > border for border in borders) for cycles in answer.cycles]
    return tuple(MEMORY if each == len(borders) else float(1 + each) for each in crossed)


def verify(twin: Twin, request: Request, progress: Progress = lambda _: None) -> Verified:
    """Hold a twin against a machine. Raises what opening and running machines raises."""
    start = time.monotonic()
    real = open_machine(request.machine, cpu=request.cpu, seed=request.seed)
    try:
        with opened_twin(twin.machine, request.seed) as model:
            check = _Check(twin, request, real, model)
            rows, again = check.rows(start, progress)
            facts: dict[str, object] = {"name": real.facts.name, "kind": real.facts.kind}
            return Verified(twin, request, rows, time.monotonic() - start, again, facts)
    finally:
        real.close()


class _Check:
    """The machine, its twin, and the trials that both are asked."""

    def __init__(self, twin: Twin, request: Request, real: Machine, model: Machine) -> None:
        self._machine, self._request = twin.machine, request
        self._around = surroundings(twin.machine, real, model)
        held = (twin.machine.levels[0].latency_cycles, twin.machine.memory.latency_cycles)
        self._real = Asker(real, self._around, held, request.seed)
        self._model = Asker(model, self._around, held, request.seed + 1)

    def rows(self, start: float, progress: Progress) -> tuple[list[Row], dict[int, bool]]:
        """Rows until the time is over or there are enough trials, and which of the worst stay parted."""
        found: list[Row] = []
        try:
            for number in itertools.count(0, BATCH):
                if self._over(start, number):
                    break
                progress(f"{number} trials asked")
                found += self._batch(range(number, number + self._next(number)))
            if not found:
                raise SetebenchError("no trial could be asked of both machines")
            progress("asking again where they differ")
            minutes = self._request.minutes
            end = None if minutes is None else start + 60 * minutes
            return found, parted(found, (self._real, self._model), self._machine, end)
        finally:
            self._real.close()
            self._model.close()

    def _next(self, number: int) -> int:
        return BATCH if self._request.trials is None else min(BATCH, self._request.trials - number)

    def _over(self, start: float, number: int) -> bool:
        if self._request.trials is not None and number >= self._request.trials:
            return True
        minutes = self._request.minutes
        return minutes is not None and time.monotonic() - start > DRAWING * 60 * minutes and number > 0

    def _batch(self, numbers: range) -> list[Row]:
        trials = {number: trial for number in numbers if (trial := drawn(self._request.seed, number, self._around))}
        first, again = self._asked(self._real, trials), self._asked(self._real, trials)
        twin = self._asked(self._model, trials)
        complete = [number for number in trials if number in first and number in again and number in twin]
        return [self._row(number, trials[number], (first[number], again[number], twin[number])) for number in complete]

    def _asked(self, asker: Asker, trials: dict[int, Trial]) -> dict[int, Answer]:
        asker.calibrate()
        return dict(answers(asker, trials))

    def _row(self, number: int, trial: Trial, said: tuple[Answer, Answer, Answer]) -> Row:
        first, again, twin = said
        return Row(number, trial, first, again, twin, compared(trial, said, self._machine))


def answers(asker: Asker, trials: dict[int, Trial]) -> Iterator[tuple[int, Answer]]:
    """What the machine says of each trial; nothing of one that it can't be asked."""
    for number, trial in trials.items():
        try:
            yield number, asker.ask(trial)
        except UnsupportedError:
            continue


def compared(trial: Trial, said: tuple[Answer, Answer, Answer], machine: spec.Machine) -> Compared:
    """Answers as labels where levels were asked, as times else."""
    if isinstance(trial, Levels):
        return Compared(*(labels(each, machine) for each in said))
    return Compared(*(each.cycles for each in said))
