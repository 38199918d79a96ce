"""What tests of whole runs share: a folder of small scenario files, all that there are, on a machine without parts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from bare_machine import BareMachine
from click.testing import CliRunner, Result

from setebench import registry
from setebench.cli.main import setebench

MACHINE = "bare_machine:BareMachine"

HEAD = """
from setebench.errors import ProbeFault, SetebenchError
from setebench.results import Finding, Outcome
from dataclasses import replace

from setebench.scenario import Context, Option, Scenario
"""

EARLY = """
def answer(context):
    context.progress("looking at the clock")
    context.calibration = replace(context.calibration, step_ticks=26.0)
    context.evidence["cycles"] = {"cycles_per_ns": 4.0}
    context.evidence["seen"] = [1, 2, 3]
    yield Finding(parameter="clock.step", value=26.0, unit="ticks", method="steps", evidence="seen")
    yield Finding(parameter="latency.l1", value=4.0, unit="cycles", low=3.9, high=4.1)
    yield Finding(parameter="mshr.l1.demand", unit="entries", outcome=Outcome.UNRESOLVED, reason="no queue was seen")


SCENARIO = Scenario(name="early", summary="Early.", answer=answer, parameters=("clock.",), order=10, seconds=2.0)
"""

LATE = """
def answer(context):
    context.evidence["step_ticks"] = context.calibration.step_ticks
    yield Finding(parameter="mshr.l1.demand", value=12, unit="entries")
    yield Finding(parameter="latency.l1", value=5.0, unit="cycles")


SCENARIO = Scenario(name="late", summary="Late.", answer=answer, parameters=("mshr.",), order=50, seconds=8.0)
"""

FAILING = """
def answer(context):
    yield Finding(parameter="blocking.load", value="nonblocking", unit="string")
    context.calibration = replace(context.calibration, step_ticks=1e6)
    {what}


SCENARIO = Scenario(name="failing", summary="Fails.", answer=answer, parameters=("blocking.",), order=30)
"""


Write = Callable[..., Path]
Run = Callable[..., Result]


def runs(*first: str, machine: str | None = None) -> Run:
    """Runs `setebench FIRST ...` in this process, with `--machine` where one is named then or now."""

    def run(*arguments: str, machine: str | None = machine) -> Result:
        chosen = ["--machine", machine] if machine else []
        return CliRunner().invoke(setebench, [*first, *arguments, *chosen])

    return run


def _hear_hang_ups() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def start(folder: Path, cwd: Path, *arguments: str) -> subprocess.Popen[str]:
    """`setebench characterize` as a process of its own, with the scenarios in a folder beside those that ship, and with
    SIGHUP as usual where nohup runs the tests."""
    command = [sys.executable, "-m", "setebench", "--scenario-path", str(folder), "characterize", *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    environment.pop(registry.PATH_VARIABLE, None)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=cwd, env=environment, text=True, preexec_fn=_hear_hang_ups, **pipes)


def write_files(folder: Path, **files: str) -> Path:
    """Scenario files, by name, into a folder."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(HEAD + textwrap.dedent(text))
    registry.catalogue.cache_clear()
    return folder


@pytest.fixture
def no_scenarios(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if no package had scenarios, ours neither."""
    monkeypatch.setattr(registry, "_own", list)
    monkeypatch.setattr(registry, "entry_points", lambda group: [])
    BareMachine.opened.clear()
    registry.catalogue.cache_clear()
    yield
    registry.catalogue.cache_clear()


@pytest.fixture
def scenario_folder(no_scenarios: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes scenario files into a folder whose scenarios are the only ones; returns the folder."""
    monkeypatch.setenv(registry.PATH_VARIABLE, str(tmp_path / "scenarios"))
    return partial(write_files, tmp_path / "scenarios")
