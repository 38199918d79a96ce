"""One machine and the scenarios to run on it, and what came of it: the place where findings and truth meet."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import msgspec

from setebench import registry, store
from setebench.errors import SetebenchError
from setebench.results import Finding
from setebench.scenario import Context
from setebench.score import advice
from setebench.sim import spec
from setebench.sim.files.loader import load
from setebench.sim.machine import open_machine_file
from setebench.sim.truth.pace import Pace, seen_pace
from setebench.sim.truth.parameters import left_open, truth

NOISES = ("drawn", "quiet", "guest")
"""drawn: as the machine file says. quiet: no interrupts, jitter or drift. guest: those of the `zen-like`
preset, which has the reference guest's."""


def with_noise(machine: spec.Machine, noise: str) -> spec.Machine:
    """The machine with its disturbances replaced; see `NOISES`."""
    if noise == "drawn":
        return machine
    guest = load("zen-like")
    source = guest.clock if noise == "guest" else spec.Clock()
    # as a fraction of a core's own speed, so that a slow core is not disturbed more than a fast one
    names = ("drift", "drift_period_cycles", "jitter_cycles")
    clock = msgspec.structs.replace(machine.clock, **{name: getattr(source, name) for name in names})
    return msgspec.structs.replace(machine, clock=clock, noise=guest.noise if noise == "guest" else spec.Noise())


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One machine and the scenarios to run on it. Scenarios that build on findings get the truth as theirs, unless
    these are to be others' own (`from_findings`)."""

    machine: str
    scenarios: tuple[str, ...]
    noise: str
    seed: int
    fast: bool
    from_findings: bool = False


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario that didn't go through. `crashed`: by an error that is nobody's answer, a defect of the scenario."""

    scenario: str
    reason: str
    crashed: bool = False


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a task: findings and truth, scenarios that didn't go through, parameters that the machine has, but
    whose truth isn't known, and the CPU time that the scenarios took. `lost` says why the task was not carried out at
    all: then there are neither findings nor truths to judge."""

    machine: str
    findings: list[Finding] = []
    truths: list[Finding] = []
    failures: list[Failure] = []
    left_open: frozenset[str] = frozenset()
    cpu_seconds: float = 0.0
    lost: str | None = None


def perform(task: Task) -> Answer:
    """Run a task's scenarios in this process, and put the truth of its machine beside what they found."""
    machine = with_noise(load(task.machine), task.noise)
    advised = advice.SCENARIO in task.scenarios
    begin, run = time.process_time(), Series(machine, task.seed, task.fast)
    run.carry_out(task.scenarios, truth(machine) if advised and not task.from_findings else ())
    seconds = round(time.process_time() - begin, 3)
    return Answer(
        machine=task.machine,
        findings=run.findings,
        truths=[*truth(machine, run.pace), *(advice.advice_truths() if advised else ())],
        failures=run.failures,
        left_open=left_open(machine),
        cpu_seconds=seconds,
    )


class Series:
    """Scenarios run on a machine, each on a fresh copy of it: their `findings` and `failures`, and the `pace` of the
    clock while something was said of it."""

    def __init__(self, machine: spec.Machine, seed: int, fast: bool) -> None:
        self.machine, self.seed, self.fast = machine, seed, fast
        self.findings: list[Finding] = []
        self.failures: list[Failure] = []
        self.pace: Pace | None = None
        self._calibrated: dict[str, Any] = {}

    def carry_out(self, scenarios: Sequence[str], known: Sequence[Finding] = ()) -> None:
        """Run the scenarios by command name. What one found before it failed counts; how it calibrated goes to the
        next, as in `setebench characterize`. `known` are findings for scenarios that build on others'; without any,
        those others are run first."""
        for name in scenarios:
            try:
                self._run(name, known)
            except SetebenchError as error:
                self.failures.append(Failure(scenario=name, reason=_line(error)))
            except Exception as error:  # a scenario's defect costs its own rows, and is counted
                reason = f"{type(error).__name__}: {_line(error)}"
                self.failures.append(Failure(scenario=name, reason=reason, crashed=True))

    def _run(self, name: str, known: Sequence[Finding]) -> None:
        scenario, before = registry.scenario(name), len(self.findings)
        with closing(open_machine_file(self.machine, self.seed)) as machine:
            context = Context(machine=machine, seed=self.seed, fast=self.fast, **self._calibrated)
            if scenario.builds_on:
                context.foundations = tuple(known or registry.foundations(scenario, context))
            for finding in scenario.answer(context):
                store.require_finite(finding)
                self.findings.append(finding)
            self._calibrated = {"calibration": context.calibration}
            if any(finding.parameter.startswith("clock.") for finding in self.findings[before:]):
                self.pace = seen_pace(machine)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
