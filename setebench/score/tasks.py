"""One machine and the scenarios to run on it, and what came of it: the place where findings and truth meet. Tasks are
carried out in processes of this computer, or on a Dask cluster: a worker that dies loses its machine's turn alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import as_completed as completed
from contextlib import closing
from typing import Any

import msgspec

from setebench import registry, store
from setebench.errors import SetebenchError, reason
from setebench.fleet.run import connected
from setebench.loops import LOOP_NAMES
from setebench.results import Finding
from setebench.scenario import Context
from setebench.score.seeds import sources_hash
from setebench.sim import spec
from setebench.sim.compiled import prepare
from setebench.sim.files.loader import load
from setebench.sim.machine import open_machine_file
from setebench.sim.truth.pace import seen_pace
from setebench.sim.truth.parameters import left_open, truth

NOISES = ("drawn", "quiet", "guest")
"""drawn: as the machine file says. quiet: no interrupts, jitter or drift. guest: those of the `zen-like`
preset, which has the reference guest's."""

ADVICE = "advise-prefetch"
REGRET, SPEEDUP = (-100.0, 5.0), (0.97, 1e9)
"""Advice is right up to 5 per cent behind the best of the scenario's own sweep over distances, chosen and timed on
other rounds (a machine file doesn't say which prefetches pay for a loop), and wrong where it is slower than none."""


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
    whose truth isn't known, the prefetcher map's curves, which a twin of the findings replays, and the CPU time that
    scenarios took. `lost` says why the task was not carried out at all: then there are neither findings nor truths."""

    machine: str
    findings: list[Finding] = []
    truths: list[Finding] = []
    failures: list[Failure] = []
    left_open: frozenset[str] = frozenset()
    curves: dict[str, Any] = {}
    cpu_seconds: float = 0.0
    lost: str | None = None


def perform(task: Task) -> Answer:
    """Run a task's scenarios in this process, each on a fresh copy of the machine, and put the truth of the machine
    beside what they found. How one scenario calibrated goes to the next, as in `setebench characterize`. What a
    scenario found before it failed counts."""
    machine, advised = with_noise(load(task.machine), task.noise), ADVICE in task.scenarios
    known = tuple(truth(machine)) if advised and not task.from_findings else ()
    findings, failures, calibrated, pace = list[Finding](), list[Failure](), dict[str, Any](), None
    curves: dict[str, Any] = {}
    begin = time.process_time()
    for name in task.scenarios:
        scenario, before = registry.scenario(name), len(findings)
        try:
            with closing(open_machine_file(machine, task.seed)) as opened:
                context = Context(machine=opened, seed=task.seed, fast=task.fast, **calibrated)
                if scenario.builds_on:
                    context.foundations = known or tuple(registry.foundations(scenario, context))
                for finding in scenario.answer(context):
                    store.require_finite(finding)
                    findings.append(msgspec.convert(store.plain(finding), Finding))  # without numpy's numbers
                calibrated = {"calibration": context.calibration}
                curves = store.plain(context.evidence.get("prefetchers", curves))
                if any(finding.parameter.startswith("clock.") for finding in findings[before:]):
                    pace = seen_pace(opened)
        except Exception as error:  # a scenario's defect costs its own rows, and is counted
            crashed = not isinstance(error, SetebenchError)
            failures.append(Failure(scenario=name, reason=reason(error), crashed=crashed))
    seconds = round(time.process_time() - begin, 3)
    return Answer(
        machine=task.machine,
        findings=findings,
        truths=[*truth(machine, pace), *(_advice_truths() if advised else ())],
        failures=failures,
        left_open=left_open(machine),
        curves=curves,
        cpu_seconds=seconds,
    )


def _advice_truths() -> Iterator[Finding]:
    """For every loop the ranges in which regret and speed-up are right."""
    for name in LOOP_NAMES:
        for kind, value, (low, high), unit in (("regret", 0.0, REGRET, "%"), ("speedup", 1.0, SPEEDUP, "ratio")):
            yield Finding(parameter=f"advice.{name}.{kind}", value=value, low=low, high=high, unit=unit)


# -- in processes of this computer ------------------------------------------------------------------------------------


Received = Callable[[Answer], None]
"""Is given each answer as it comes in, one at a time."""


def perform_all(tasks: list[Task], workers: int, received: Received) -> list[Answer]:
    """Answers in the order of the tasks."""
    prepare()  # else every worker would compile the simulator
    answers: dict[int, Answer] = {}
    if min(workers, len(tasks)) <= 1:
        for number, task in enumerate(tasks):
            answers[number] = perform(task)
            received(answers[number])
        return list(answers.values())
    with ThreadPoolExecutor(workers) as threads:
        pending = {threads.submit(_apart, task): number for number, task in enumerate(tasks)}
        try:
            for done in completed(pending):
                answers[pending[done]] = done.result()
                received(done.result())
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return [answers[number] for number in range(len(tasks))]


def _apart(task: Task) -> Answer:
    """The answer of a process of its own, or how that ended instead."""
    command = [sys.executable, "-P", "-c", f"from {__name__} import main; main()"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each or os.getcwd() for each in sys.path)}
    wanted = msgspec.msgpack.encode(task)
    done = subprocess.run(command, input=wanted, stdout=subprocess.PIPE, env=environment, check=False)
    if done.returncode:
        how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit status {done.returncode}"
        return Answer(machine=task.machine, lost=f"its worker ended: {how}")
    return msgspec.msgpack.decode(done.stdout, type=Answer)


def main() -> None:
    """Carry out the task on standard input, and answer on standard output. Whatever a scenario prints goes to standard
    error."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # an interrupt at the terminal is the other process's to report
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as reply:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        reply.write(msgspec.msgpack.encode(perform(msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Task))))


# -- on a Dask cluster ------------------------------------------------------------------------------------------------


def perform_on(address: str, tasks: list[Task], received: Received) -> list[Answer]:
    """As `perform_all`, on the cluster whose scheduler has that address: Dask gives the tasks of a worker that dies to
    another one, and gives up on a task that has cost several of them.

    Raises what `connected` raises, and `SetebenchError` where a worker has another version of this package."""
    prepare()  # workers of this computer share the compiled simulator
    with connected(address) as client:
        from distributed import as_completed

        arriving: Any = as_completed  # whose types depend on whether the extra is installed
        # pure=False: a task is carried out again, never answered from what the cluster remembers of an earlier run
        pending = {client.submit(_checked, task, sources_hash(), pure=False): task for task in tasks}
        answers = {}
        try:
            for future in arriving(list(pending), loop=client.loop):
                task = pending.pop(future)
                if future.status == "cancelled":  # nobody here has: the scheduler is gone, or was started anew
                    raise SetebenchError(
                        "the Dask scheduler dropped the run; with --answers FILE, --resume FILE goes on"
                    )
                error = future.exception()
                if isinstance(error, SetebenchError):
                    raise error
                # else of a worker that died, or whose computer lacks something
                answers[task] = Answer(machine=task.machine, lost=reason(error)) if error else future.result()
                received(answers[task])
                future.release()  # else the cluster would compute it again where the worker that holds it dies
        except BaseException:
            client.cancel(list(pending))
            raise
    return [answers[task] for task in tasks]


def _checked(task: Task, wanted: str) -> Answer:
    """Runs on a worker. Raises `SetebenchError` where its package is another one."""
    if (own := sources_hash()) != wanted:
        raise SetebenchError(
            f"a worker of the cluster has another version of setebench ({own[:12]}, here {wanted[:12]})"
        )
    return perform(task)
