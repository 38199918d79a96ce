"""A program that runs scenarios on a simulated machine for another process: it reads an errand from standard input and
answers on standard output, both in msgpack.

It is a file of its own that knows nothing of this package: with another version's sources on PYTHONPATH it runs that
version's inference.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import closing
from typing import Any

import msgspec

from setebench import registry, store
from setebench.errors import SetebenchError
from setebench.results import Finding
from setebench.scenario import Context
from setebench.sim import spec
from setebench.sim.compiled import prepare
from setebench.sim.machine import open_machine_file
from setebench.sim.truth.pace import Pace, seen_pace


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario that didn't go through. `crashed`: by an error that is nobody's answer, a defect of the scenario;
    `unimportable`: because sources of it, or what it imports, don't fit together."""

    scenario: str
    reason: str
    crashed: bool = False
    unimportable: bool = False


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """One simulated machine, and the scenarios to run on it by command name. `known` are findings for scenarios that
    build on others'; without any, those others are run first."""

    machine: spec.Machine
    scenarios: tuple[str, ...]
    seed: int
    fast: bool
    known: list[Finding] = []


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an errand, the CPU time that it took, and how the clock went where something was said of it."""

    findings: list[Finding]
    failures: list[Failure]
    cpu_seconds: float
    pace: Pace | None = None


def carry_out(errand: Errand) -> Reply:
    """Run the scenarios, each on a fresh copy of the machine. What a scenario found before it failed counts; how it
    calibrated goes to the next, as in `setebench characterize`."""
    begin = time.process_time()
    findings: list[Finding] = []
    failures: list[Failure] = []
    left: dict[str, Any] = {}
    for name in errand.scenarios:
        try:
            _run(name, errand, findings, left)
        except SetebenchError as error:
            failures.append(Failure(scenario=name, reason=_line(error)))
        except Exception as error:  # a scenario's defect costs its own rows, and is counted
            reason, unimportable = f"{type(error).__name__}: {_line(error)}", isinstance(error, ImportError)
            failures.append(Failure(scenario=name, reason=reason, crashed=True, unimportable=unimportable))
    seconds = round(time.process_time() - begin, 3)
    return Reply(findings=findings, failures=failures, cpu_seconds=seconds, pace=left.get("pace"))


def _run(name: str, errand: Errand, findings: list[Finding], left: dict[str, Any]) -> None:
    """Run one scenario; its findings are appended to `findings` as they come, and `left` gets the calibration that it
    leaves and, where it says something of the clock, the `pace` that this had meanwhile."""
    entry = registry.catalogue().get(name)
    if entry is None:
        raise SetebenchError("this version has no such scenario")
    calibration, before = {key: left[key] for key in ("calibration",) if key in left}, len(findings)
    scenario = entry.load()
    with closing(open_machine_file(errand.machine, errand.seed)) as machine:
        context = Context(machine=machine, seed=errand.seed, fast=errand.fast, **calibration)
        if getattr(scenario, "builds_on", ()):  # which another version's may lack
            context.foundations = tuple(errand.known or registry.foundations(scenario, context))
        for finding in scenario.answer(context):
            store.require_finite(finding)
            findings.append(finding)
        if hasattr(context, "calibration"):  # which another version's lacks
            left["calibration"] = context.calibration
        if any(finding.parameter.startswith("clock.") for finding in findings[before:]):
            left["pace"] = seen_pace(machine)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())


def main() -> None:
    """Answer the errand on standard input. Whatever a scenario prints goes to standard error."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # an interrupt at the terminal is the other process's to report
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as reply:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        prepare()
        reply.write(msgspec.msgpack.encode(carry_out(msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Errand))))


if __name__ == "__main__":
    main()
