"""What the tests of the command line share: a fake machine, opened as `module:factory`, and scenarios that a package
which isn't there declares as entry points."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bare_machine import BareMachine, facts_of
from click.testing import Result
from scenario_files import Run, runs

from setebench import registry
from setebench.errors import ProbeFault, SetebenchError, UsageError
from setebench.probe import Base, Probe
from setebench.report.plots import plot
from setebench.results import Finding, Outcome
from setebench.scenario import Context, Option, Scenario

FAKE_MACHINE = f"{__name__}:FakeMachine"


class FakeMachine(BareMachine):
    """Every interval takes 40 ticks."""

    facts = facts_of("fake \x1b machine", notes=("no 2 MiB pages",))

    def run(self, probe: Probe, placements: Any, *, cpu: int | None = None, warmup: int = 0) -> Any:
        return np.full((len(placements[Base("line")]), probe.intervals), 40, dtype=np.int64)


def answer(context: Context) -> Iterator[Finding]:
    line = Base("line")
    context.progress("timing one load\x1b[2J")
    ticks = context.machine.run(Probe().start().load(line).stop(), {line: np.arange(10) * 64})
    context.evidence["ticks"] = ticks[:, 0]
    context.evidence["options"] = context.options
    context.evidence["missing"] = float("nan")
    yield Finding(parameter="latency.l1", value=ticks.mean(), unit="cycles", low=39.5, high=40.5)
    context.progress("looking for a knee")
    yield Finding(parameter="mshr.l1.demand", unit="entries", outcome=Outcome.UNRESOLVED, reason="no knee was seen")


def draw(evidence: dict[str, Any]) -> Any:
    figure, axes = plot.new_figure("ticks", "repetition", "ticks")
    axes.plot(evidence["ticks"], **plot.style(0))
    return figure


OPTIONS = (
    Option(name="max_lines", help="Most lines.", default=8, type=int),
    Option(name="kind", help="Which.", default="load", choices=("load", "store")),
    Option(name="huge", help="Huge pages.", flag=True),
    Option(name="size", help="A size.", type=float, multiple=True),
)
FAKE = Scenario(
    name="fake", summary="Times one load.", answer=answer, parameters=("latency.", "mshr."), options=OPTIONS, plot=draw
)
PLAIN_ONE = Scenario(name="plain", summary="Draws nothing.", answer=answer, parameters=())
NO_SCENARIO = 3


def raising(error: BaseException) -> Scenario:
    def fail(context: Context) -> Iterator[Finding]:
        yield Finding(parameter="latency.l1", value=1.0)
        raise error

    return Scenario(name="failing", summary="Fails.", answer=fail, parameters=(), plot=draw)


FAILING = raising(SetebenchError("the probe\nwas stopped"))
BAD_USE = raising(UsageError("no such thing"))
FAULT = raising(ProbeFault("SIGSEGV", 2, 0xBAD, "load"))
CLASH = Scenario(name="clash", summary="", answer=answer, parameters=(), options=(Option(name="seed", help=""),))
ENTRIES = ["fake", "plain_one", "failing", "bad-use", "fault", "clash", "no-scenario"]
"""Names of scenarios; each is declared as the value of its name in capitals."""


@pytest.fixture(autouse=True)
def fake_scenarios(no_scenarios: None, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {name: f"{__name__}:{name.upper().replace('-', '_')}" for name in ENTRIES}
    values["broken"] = "package_that_is_not_there:SCENARIO"
    points = [EntryPoint(name, value, registry.ENTRY_POINT_GROUP) for name, value in values.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return runs(machine=FAKE_MACHINE)


def said(result: Result) -> str:
    """Standard error, which must be without a traceback."""
    assert "Traceback" not in result.stderr and isinstance(result.exception, SystemExit | None), result.exception
    return result.stderr
