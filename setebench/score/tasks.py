"""One machine and the scenarios to run on it, and what came of it: the place where findings and truth meet."""

from __future__ import annotations

import msgspec

from setebench.results import Finding
from setebench.score import advice
from setebench.score.errand import Errand, Failure, Reply, carry_out
from setebench.sim import spec
from setebench.sim.files.loader import load
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
    """Run a task's scenarios in this process."""
    return answer_of(task, carry_out(errand_of(task)))


def errand_of(task: Task) -> Errand:
    """What a process that holds no truths needs for the task. Raises `UsageError` for a machine that there is not."""
    machine = with_noise(load(task.machine), task.noise)
    known = truth(machine) if advice.SCENARIO in task.scenarios and not task.from_findings else []
    return Errand(machine=machine, scenarios=task.scenarios, seed=task.seed, fast=task.fast, known=known)


def answer_of(task: Task, reply: Reply) -> Answer:
    """The reply beside the truth of the task's machine."""
    machine = with_noise(load(task.machine), task.noise)
    advised = list(advice.advice_truths()) if advice.SCENARIO in task.scenarios else []
    return Answer(
        machine=task.machine,
        findings=reply.findings,
        truths=[*truth(machine, reply.pace), *advised],
        failures=reply.failures,
        left_open=left_open(machine),
        cpu_seconds=reply.cpu_seconds,
    )
