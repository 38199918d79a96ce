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

from setebench.errors import SetebenchError
from setebench.machine import Machine, open_machine
from setebench.sim import spec
from setebench.sim.files.dump import dump
from setebench.sim.spec.capacity import usable_lines
from setebench.truth.twin import Twin
from setebench.truth.verify.agreement import contradicted, doubt
from setebench.truth.verify.asking import Answer, Asker
from setebench.truth.verify.families import drawn
from setebench.truth.verify.rows import Row, answers, least_difference, row, scaled
from setebench.truth.verify.trials import Surroundings, Trial


@dataclass(frozen=True)
class Params:
    """How far a check goes."""

    batch: int = 20  # trials between two calibrations: fewer than a second of this CPU's time
    drawing: float = 0.7  # of the minutes for new trials; the rest is for repeating those on which the twin differs
    repeated: int = 40  # such trials at most: the more there are, the clearer each has to be
    rounds: int = 9  # of both machines: complete separation is then one chance in 24,310, enough among 240 trials
    early: int = 3  # rounds after which a trial is given up that chance explains
    futile: float = 0.35  # p-value above which it does: two machines that differ seldom get there
    stays: float = 0.03  # p-value below which the twin is wrong on a trial, where it is shown or fitted


PARAMS = Params()

Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked. `trials` ends the check as well as `minutes`; either may be None, but not both."""

    machine: str = "native"
    cpu: int | None = None
    seed: int = 1
    minutes: float | None = 2.0
    trials: int | None = None
    purpose: int = 0  # whose draws: 0 of the check, others of whoever improves a twin


@dataclass(frozen=True)
class Verified:
    """All rows, and by number of the trials that were repeated the p-value that the twin differs by chance."""

    twin: Twin
    request: Request
    rows: list[Row]
    seconds: float
    doubts: dict[int, float] = field(default_factory=dict)
    repetitions: int | None = None
    facts: dict[str, object] = field(default_factory=dict)

    @property
    def families(self) -> dict[str, list[Row]]:
        """Rows by family, in the order in which families first came."""
        found: dict[str, list[Row]] = {}
        for each in self.rows:
            found.setdefault(each.trial.family, []).append(each)
        return found

    @property
    def staying(self) -> list[Row]:
        """Trials on which the twin stayed wrong when both were asked again, the worst first."""
        found = [row for row in self.rows if self.doubts.get(row.number, 1.0) < PARAMS.stays]
        return sorted(found, key=lambda row: (self.doubts[row.number], -row.badness))

    def family_doubt(self, rows: list[Row]) -> float:
        """How likely the clearest of a family's trials is by chance alone, all that were repeated considered."""
        doubts = [self.doubts[row.number] for row in rows if row.number in self.doubts]
        return min(1.0, len(doubts) * min(doubts)) if doubts else 1.0

    @property
    def contradicted(self) -> bool:
        """True if the twin differs from the machine for good."""
        return contradicted(list(self.doubts.values()))


def surroundings(machine: spec.Machine, real: Machine, twin: Machine) -> Surroundings:
    """What both machines have."""
    own, others = real.facts, twin.facts
    facts = msgspec.structs.replace(
        own,
        page_sizes=tuple(size for size in own.page_sizes if size in others.page_sizes),
        prefetch_hints=tuple(hint for hint in own.prefetch_hints if hint in others.prefetch_hints),
        kernels=tuple(name for name in own.kernels if name in others.kernels),
        access_sizes=tuple(size for size in own.access_sizes if size in others.access_sizes),
    )
    lines = tuple(usable_lines(level) for level in machine.levels)
    second = machine.levels[1].latency_cycles
    return Surroundings(facts, machine.line_size_bytes, lines, second, machine.memory.latency_cycles)


@contextmanager
def opened_twin(machine: spec.Machine, seed: int) -> Iterator[Machine]:
    """The machine, opened by the name of a file as any other, with a clock that moves with every cycle and without
    noise: what is compared is memory."""
    fine = msgspec.structs.replace(machine.clock, step_ticks=1.0, jitter_cycles=0.0, drift=0.0)
    quiet = msgspec.structs.replace(machine, clock=fine, noise=spec.Noise())
    with tempfile.TemporaryDirectory(prefix="setebench-") as folder:
        file = Path(folder) / "twin.toml"
        file.write_text(dump(quiet), encoding="utf-8")
        opened = open_machine(f"sim:{file}", seed=seed)
        try:
            yield opened
        finally:
            opened.close()


def held_latencies(machine: spec.Machine) -> tuple[float, float]:
    """Cycles of the first level and of memory, to which times are scaled."""
    return machine.levels[0].latency_cycles, machine.memory.latency_cycles


def answered(
    machine: spec.Machine, checked: Verified, trials: dict[int, Trial], twin: spec.Machine | None = None
) -> dict[int, Answer]:
    """What a simulated machine gives for trials, asked as the twin was. Latencies and working sets are those of `twin`,
    by default its own."""
    twin = twin or machine
    with opened_twin(machine, checked.request.seed) as model:
        around = surroundings(twin, model, model)
        asker = Asker(model, around, held_latencies(twin), checked.request.seed + 1, checked.repetitions)
        asker.calibrate()
        return dict(answers(asker, trials))


def verify(twin: Twin, request: Request, progress: Progress = lambda _: None) -> Verified:
    """Hold a twin against a machine. Raises what opening and running machines raises."""
    start = time.monotonic()
    real = open_machine(request.machine, cpu=request.cpu, seed=request.seed)
    try:
        with opened_twin(twin.machine, request.seed) as model:
            check = _Check(twin, request, real, model)
            rows, doubts = check.rows(start, progress)
            facts: dict[str, object] = {"name": real.facts.name, "kind": real.facts.kind, "cpu": real.facts.cpu}
            return Verified(twin, request, rows, time.monotonic() - start, doubts, check.repetitions, facts)
    finally:
        real.close()


class _Check:
    """The machine, its twin, and the trials that both run."""

    def __init__(self, twin: Twin, request: Request, real: Machine, model: Machine) -> None:
        self._machine, self._request = twin.machine, request
        self._around = surroundings(twin.machine, real, model)
        held = held_latencies(twin.machine)
        self._real = Asker(real, self._around, held, request.seed)
        self._model = Asker(model, self._around, held, request.seed + 1, self._real.repetitions)

    @property
    def repetitions(self) -> int:
        """How often each line is timed on both."""
        return self._real.repetitions

    def rows(self, start: float, progress: Progress) -> tuple[list[Row], dict[int, float]]:
        """Rows until the time is over or there are enough trials, and doubts of those on which the twin differs."""
        found: list[Row] = []
        minutes, trials = self._request.minutes, self._request.trials
        try:
            for number in itertools.count(0, PARAMS.batch):
                late = minutes is not None and time.monotonic() - start > PARAMS.drawing * 60 * minutes
                if (late and number) or (trials is not None and number >= trials):
                    break
                progress(f"{number} trials measured")
                found += self._batch(range(number, min(number + PARAMS.batch, trials or number + PARAMS.batch)))
            if not found:
                raise SetebenchError("no trial could be run on both machines")
            progress("repeating those on which they differ")
            return found, self._repeated(found, None if minutes is None else start + 60 * minutes)
        finally:
            self._real.close()
            self._model.close()

    def _batch(self, numbers: range) -> list[Row]:
        drawings = ((n, drawn(self._request.seed, n, self._around, self._request.purpose)) for n in numbers)
        trials = {number: trial for number, trial in drawings if trial is not None}
        first, again, twin = (self._asked(asker, trials) for asker in (self._real, self._real, self._model))
        complete = [number for number in trials if number in first and number in again and number in twin]
        return [
            row(number, trials[number], (first[number], again[number], twin[number]), self._machine)
            for number in complete
        ]

    def _asked(self, asker: Asker, trials: dict[int, Trial]) -> dict[int, Answer]:
        asker.alone()
        asker.calibrate()
        return dict(answers(asker, trials))

    def _repeated(self, rows: list[Row], end: float | None) -> dict[int, float]:
        """By number of the trials on which the twin differs most, the p-value that it does so by chance: answers on new
        places, by ranks. What chance explains is given up early."""
        differing = sorted((each for each in rows if each.badness), key=lambda each: -each.badness)
        left = {each.number: each for each in differing[: PARAMS.repeated]}
        given: dict[int, tuple[list[float], list[float]]] = {number: ([], []) for number in left}
        doubts: dict[int, float] = {}
        for number in range(PARAMS.rounds):
            if not left or (end is not None and time.monotonic() > end):
                break
            self._round(left, given)
            for each in left.values():
                if given[each.number][1]:
                    doubts[each.number] = doubt(*given[each.number], least_difference(each.trial, each.first))
            if number + 1 >= PARAMS.early:
                left = {number: each for number, each in left.items() if doubts.get(number, 1.0) <= PARAMS.futile}
        return doubts

    def _round(self, left: dict[int, Row], given: dict[int, tuple[list[float], list[float]]]) -> None:
        """One more answer of both; a round in which a co-runner stays on the machine's core says nothing."""
        trials = {number: each.trial for number, each in left.items()}
        if not self._real.alone():
            return
        own, twin = (self._asked(asker, trials) for asker in (self._real, self._model))
        for number in own.keys() & twin.keys():
            for values, answer in zip(given[number], (own[number], twin[number]), strict=True):
                values.append(scaled(trials[number], answer, self._machine)[left[number].worst])
