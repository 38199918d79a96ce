"""One machine and the scenarios to run on it, and what came of it: the place where findings and truth meet."""

from __future__ import annotations

import time
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
    """Run a task's scenarios in this process, each on a fresh copy of the machine, and put the truth of the machine
    beside what they found. What a scenario found before it failed counts."""
    machine, advised = with_noise(load(task.machine), task.noise), advice.SCENARIO in task.scenarios
    run = _Run(machine, task, tuple(truth(machine)) if advised and not task.from_findings else ())
    begin, failures = time.process_time(), list[Failure]()
    for name in task.scenarios:
        try:
            run.carry_out(name)
        except SetebenchError as error:
            failures.append(Failure(scenario=name, reason=_line(error)))
        except Exception as error:  # a scenario's defect costs its own rows, and is counted
            reason = f"{type(error).__name__}: {_line(error)}"
            failures.append(Failure(scenario=name, reason=reason, crashed=True))
    seconds = round(time.process_time() - begin, 3)
    return Answer(
        machine=task.machine,
        findings=run.findings,
        truths=[*truth(machine, run.pace), *(advice.advice_truths() if advised else ())],
        failures=failures,
        left_open=left_open(machine),
        cpu_seconds=seconds,
    )


class _Run:
    """What scenarios find on a machine, and the `pace` of the clock while something was said of it. `known` are
    findings for scenarios that build on others'; without any, those others are run first."""

    def __init__(self, machine: spec.Machine, task: Task, known: tuple[Finding, ...]) -> None:
        self.machine, self.task, self.known = machine, task, known
        self.findings: list[Finding] = []
        self.pace: Pace | None = None
        self._calibrated: dict[str, Any] = {}

    def carry_out(self, name: str) -> None:
        """Run a scenario; how it calibrated goes to the next, as in `setebench characterize`."""
        scenario, before = registry.scenario(name), len(self.findings)
        with closing(open_machine_file(self.machine, self.task.seed)) as machine:
            context = Context(machine=machine, seed=self.task.seed, fast=self.task.fast, **self._calibrated)
            if scenario.builds_on:
                context.foundations = self.known or tuple(registry.foundations(scenario, context))
            for finding in scenario.answer(context):
                store.require_finite(finding)
                self.findings.append(msgspec.convert(store.plain(finding), Finding))  # without numpy's numbers
            self._calibrated = {"calibration": context.calibration}
            if any(finding.parameter.startswith("clock.") for finding in self.findings[before:]):
                self.pace = seen_pace(machine)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
