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
from setebench.truth.verify.again import asked_again
from setebench.truth.verify.agreement import contradicted
from setebench.truth.verify.asking import Answer, Asker
from setebench.truth.verify.families import drawn
from setebench.truth.verify.rows import Row, answers, row
from setebench.truth.verify.trials import Surroundings, Trial

STAYS = 0.03
"""p-value below which a trial counts as one on which the twin is wrong, where it is shown or explained."""

BATCH = 20
"""Trials between two calibrations: fewer than a second of this CPU's time."""

DRAWING = 0.7
"""Part of the minutes for new trials; the rest is for asking again where machine and twin differ."""

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
    """All rows, by family in the order in which families first came."""

    twin: Twin
    request: Request
    rows: list[Row]
    seconds: float
    doubts: dict[int, float] = field(default_factory=dict)
    repetitions: int | None = None
    facts: dict[str, object] = field(default_factory=dict)

    @property
    def families(self) -> dict[str, list[Row]]:
        """Rows by family."""
        found: dict[str, list[Row]] = {}
        for each in self.rows:
            found.setdefault(each.trial.family, []).append(each)
        return found

    @property
    def staying(self) -> set[int]:
        """Numbers of trials on which the twin stayed wrong when both were asked again."""
        return {number for number, doubt in self.doubts.items() if doubt < STAYS}

    def family_doubt(self, rows: list[Row]) -> float:
        """How likely the clearest of a family's trials is by chance alone, all that were asked again considered."""
        asked = [self.doubts[row.number] for row in rows if row.number in self.doubts]
        return min(1.0, len(asked) * min(asked)) if asked else 1.0

    @property
    def contradicted(self) -> bool:
        """Whether the twin differs from the machine for good."""
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


def verify(twin: Twin, request: Request, progress: Progress = lambda _: None) -> Verified:
    """Hold a twin against a machine. Raises what opening and running machines raises."""
    start = time.monotonic()
    real = open_machine(request.machine, cpu=request.cpu, seed=request.seed)
    try:
        with opened_twin(twin.machine, request.seed) as model:
            check = _Check(twin, request, real, model)
            rows, again = check.rows(start, progress)
            facts: dict[str, object] = {"name": real.facts.name, "kind": real.facts.kind, "cpu": real.facts.cpu}
            seconds = time.monotonic() - start
            return Verified(twin, request, rows, seconds, again, check.repetitions, facts)
    finally:
        real.close()


class _Check:
    """The machine, its twin, and the trials that both are asked."""

    def __init__(self, twin: Twin, request: Request, real: Machine, model: Machine) -> None:
        self._machine, self._request = twin.machine, request
        self._around = surroundings(twin.machine, real, model)
        held = (twin.machine.levels[0].latency_cycles, twin.machine.memory.latency_cycles)
        self._real = Asker(real, self._around, held, request.seed)
        self._model = Asker(model, self._around, held, request.seed + 1, self._real.repetitions)

    @property
    def repetitions(self) -> int:
        """How often each line is asked of both."""
        return self._real.repetitions

    def rows(self, start: float, progress: Progress) -> tuple[list[Row], dict[int, float]]:
        """Rows until the time is over or there are enough trials, and doubts of those on which the twin differs."""
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
            return found, asked_again(found, (self._real, self._model), self._machine, end)
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
        trials = {number: trial for number in numbers if (trial := self._drawn(number))}
        first, again = self._asked(self._real, trials), self._asked(self._real, trials)
        twin = self._asked(self._model, trials)
        complete = [number for number in trials if number in first and number in again and number in twin]
        return [
            row(number, trials[number], (first[number], again[number], twin[number]), self._machine)
            for number in complete
        ]

    def _drawn(self, number: int) -> Trial | None:
        return drawn(self._request.seed, number, self._around, self._request.purpose)

    def _asked(self, asker: Asker, trials: dict[int, Trial]) -> dict[int, Answer]:
        asker.alone()
        asker.calibrate()
        return dict(answers(asker, trials))
