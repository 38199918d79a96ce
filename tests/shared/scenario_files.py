"""What tests of whole runs share: a folder of small scenario files, all that there are, on a machine without parts."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from importlib import invalidate_caches
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


SCENARIO = Scenario(name="early", summary="Early.", answer=answer, parameters=("clock.",), order=10)
"""

LATE = """
def answer(context):
    context.evidence["step_ticks"] = context.calibration.step_ticks
    yield Finding(parameter="mshr.l1.demand", value=12, unit="entries")
    yield Finding(parameter="latency.l1", value=5.0, unit="cycles")


SCENARIO = Scenario(name="late", summary="Late.", answer=answer, parameters=("mshr.",), order=50)
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


METADATA = "Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n"


def write_files(folder: Path, **files: str) -> Path:
    """Scenarios, by name, into a folder that is a package of somebody else once it is on the path of modules."""
    metadata = folder / "mine-1.0.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    (metadata / "METADATA").write_text(METADATA)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(HEAD + textwrap.dedent(text))
        sys.modules.pop(name, None)
    points = "".join(f"{path.stem} = {path.stem}:SCENARIO\n" for path in sorted(folder.glob("*.py")))
    (metadata / "entry_points.txt").write_text(f"[{registry.ENTRY_POINT_GROUP}]\n{points}")
    invalidate_caches()
    registry.catalogue.cache_clear()
    return folder


def with_modules(*folders: Path) -> dict[str, str]:
    """The environment of a process that finds these modules, and those of the tests."""
    paths = [*map(str, folders), str(Path(__file__).parent), *sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def no_scenarios(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if the project had no scenarios."""
    monkeypatch.setattr(registry, "_own", list)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a file that changes twice in a second would stay the same
    BareMachine.opened.clear()
    registry.catalogue.cache_clear()
    yield
    registry.catalogue.cache_clear()


@pytest.fixture
def scenario_folder(no_scenarios: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes scenario files into a folder whose scenarios are the only ones; returns the folder."""
    monkeypatch.syspath_prepend(str(tmp_path / "scenarios"))
    return partial(write_files, tmp_path / "scenarios")
