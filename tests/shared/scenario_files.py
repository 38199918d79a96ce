"""What tests of whole runs share: a folder of small scenario files, all that there are, and a machine without parts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from setebench import registry
from setebench.machine import Facts, Region

MACHINE = f"{__name__}:open_bare"

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


class BareMachine:
    """Runs nothing; knows whether it was closed."""

    opened: ClassVar[list[BareMachine]] = []

    def __init__(self, cpu: int | None, seed: int) -> None:
        self.closed = False
        self.facts = Facts(name="bare", kind="plugin", cpus=(0, 1), siblings=((0,), (1,)), ticks_per_second=2e9)
        self.opened.append(self)

    def allocate(self, size: int, page_size: int, *, populate: bool = True) -> Region:
        return Region(1 << 20, size, page_size)

    def release(self, region: Region) -> None:
        pass

    def link(self, region: Region, addresses: Any) -> None:
        pass

    def run(self, probe: Any, placements: Any, *, cpu: int | None = None, warmup: int = 0) -> Any:
        return np.zeros((1, probe.intervals), dtype=np.int64)

    def run_together(self, probes: Any, placements: Any, *, warmup: int = 0) -> dict[int, Any]:
        return {cpu: self.run(probe, placements) for cpu, probe in probes.items()}

    def close(self) -> None:
        self.closed = True


def open_bare(cpu: int | None, seed: int) -> BareMachine:
    return BareMachine(cpu, seed)


Write = Callable[..., Path]


def _hear_hang_ups() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def start(folder: Path, cwd: Path, *arguments: str) -> subprocess.Popen[str]:
    """`setebench characterize` as a process of its own, with the scenarios in a folder beside those that ship, and with
    SIGHUP as usual where nohup runs the tests."""
    command = [sys.executable, "-m", "setebench", "--scenario-path", str(folder), "characterize", *arguments]
    here = str(Path(__file__).parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *sys.path])}
    environment.pop(registry.PATH_VARIABLE, None)
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_hear_hang_ups,
    )


@pytest.fixture
def scenario_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes scenario files into a folder whose scenarios are the only ones; returns the folder."""
    folder = tmp_path / "scenarios"
    folder.mkdir()
    monkeypatch.setattr(registry, "_own", list)
    monkeypatch.setattr(registry, "entry_points", lambda group: [])
    monkeypatch.setenv(registry.PATH_VARIABLE, str(folder))

    def write(**files: str) -> Path:
        for name, text in files.items():
            (folder / f"{name}.py").write_text(HEAD + textwrap.dedent(text))
        registry.catalogue.cache_clear()
        return folder

    BareMachine.opened.clear()
    yield write
    registry.catalogue.cache_clear()
