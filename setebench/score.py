"""Runs scenarios on simulated machines and holds what they tell against what is true.

The scenario gets the machine's facade and ticks, never its file; only here, after it has answered, do the two meet.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass

import msgspec

from setebench import registry
from setebench.errors import SetebenchError
from setebench.judge import Judgement, judge
from setebench.results import Finding
from setebench.scenario import Context
from setebench.sim import spec
from setebench.sim.compiled import prepare
from setebench.sim.loader import load
from setebench.sim.machine import open_machine_file
from setebench.sim.truth import left_open, truth

NOISES = ("drawn", "quiet", "guest", "double")
"""drawn: as the machine file says. quiet: no interrupts, stalls, jitter or drift. guest: those of the `zen-like`
preset, which has the reference guest's. double: guest with interrupts and stalls twice as often, and jitter and drift
twice as large."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One machine and the scenarios to run on it."""

    machine: str
    scenarios: tuple[str, ...]
    noise: str
    seed: int
    fast: bool


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came of a task: findings and truth, scenarios that could not be run, with why, and parameters that the
    machine has, but whose truth isn't known."""

    machine: str
    findings: list[Finding]
    truths: list[Finding]
    failures: list[str]
    left_open: frozenset[str] = frozenset()


def with_noise(machine: spec.Machine, noise: str) -> spec.Machine:
    """The machine with its disturbances replaced; see `NOISES`."""
    if noise == "drawn":
        return machine
    calm = msgspec.structs.replace(machine.clock, drift=0.0, jitter_cycles=0.0)
    if noise == "quiet":
        return msgspec.structs.replace(machine, clock=calm, noise=spec.Noise())
    guest = load("zen-like")
    # as a share of a core's own speed, so that a slow core is not disturbed more than a fast one
    noisy = msgspec.structs.replace(
        machine.clock,
        drift=guest.clock.drift,
        drift_period_cycles=guest.clock.drift_period_cycles,
        jitter_cycles=guest.clock.jitter_cycles,
    )
    machine = msgspec.structs.replace(machine, clock=noisy, noise=guest.noise)
    return machine if noise == "guest" else _doubled(machine)


def _doubled(machine: spec.Machine) -> spec.Machine:
    clock, noise = machine.clock, machine.noise
    return msgspec.structs.replace(
        machine,
        clock=msgspec.structs.replace(clock, drift=min(2 * clock.drift, 0.2), jitter_cycles=2 * clock.jitter_cycles),
        noise=msgspec.structs.replace(
            noise,
            interrupt_interval_cycles=noise.interrupt_interval_cycles / 2,
            stall_interval_cycles=noise.stall_interval_cycles / 2,
        ),
    )


def perform(task: Task) -> Answer:
    """Run a task's scenarios, each on a fresh copy of the machine. Only `SetebenchError` counts as a failure told."""
    machine_file = with_noise(load(task.machine), task.noise)
    findings: list[Finding] = []
    failures: list[str] = []
    for name in task.scenarios:
        scenario = registry.catalogue()[name].load()
        with closing(open_machine_file(machine_file, task.seed)) as machine:
            context = Context(machine=machine, seed=task.seed, fast=task.fast)
            try:
                findings.extend(scenario.answer(context))
            except SetebenchError as error:
                failures.append(f"{task.machine}, {name}: {error}")
    return Answer(
        machine=task.machine,
        findings=findings,
        truths=truth(machine_file),
        failures=failures,
        left_open=left_open(machine_file),
    )


def perform_all(tasks: list[Task], workers: int, tell: Callable[[str], None]) -> Iterator[Answer]:
    """Answers in the order of the tasks, worked on by `workers` processes; `tell` hears of each as it comes in."""
    if workers == 1 or len(tasks) == 1:
        for number, task in enumerate(tasks, 1):
            yield perform(task)
            tell(f"{number} of {len(tasks)} machines: {task.machine}")
        return
    prepare()  # else every worker would compile the simulator
    # started afresh, not forked: compiled code and its threads don't survive a fork
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        pending = {pool.submit(perform, task): task for task in tasks}
        answers = {}
        try:
            for number, done in enumerate(as_completed(pending), 1):
                answers[pending[done]] = done.result()
                tell(f"{number} of {len(tasks)} machines: {pending[done].machine}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    yield from (answers[task] for task in tasks)


def judge_all(
    answers: list[Answer], prefixes: tuple[str, ...] | None, left_out: tuple[str, ...] = ()
) -> list[Judgement]:
    """Judge all answers; with `prefixes` only parameters that begin with one of them, and none of those `left_out`."""
    known = frozenset(finding.parameter for answer in answers for finding in answer.truths)
    judgements = [
        judgement
        for answer in answers
        for judgement in judge(answer.machine, answer.findings, answer.truths, known, answer.left_open)
    ]
    return [
        j
        for j in judgements
        if (prefixes is None or j.parameter.startswith(prefixes)) and not j.parameter.startswith(left_out)
    ]
