"""What the tests of the command line share: a fake machine, opened as `module:factory`, and scenarios that a package
which isn't there declares as entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from click.testing import CliRunner, Result

from setebench import registry
from setebench.cli import main
from setebench.errors import ProbeFault, SetebenchError, UnsupportedError, UsageError
from setebench.machine import Facts, Region
from setebench.probe import Base, Probe
from setebench.report import plot
from setebench.results import Finding, Outcome
from setebench.scenario import Context, Option, Scenario

FAKE_MODULE = __name__


class FakeMachine:
    """Every interval takes 40 ticks; remembers how it was opened and whether it was closed."""

    opened: ClassVar[list[FakeMachine]] = []

    def __init__(self, cpu: int | None, seed: int) -> None:
        self.arguments = {"cpu": cpu, "seed": seed}
        self.closed = False
        self.facts = Facts(
            name="fake \x1b machine",
            kind="plugin",
            cpus=(0, 1),
            siblings=((0,), (1,)),
            ticks_per_second=2e9,
            notes=("no 2 MiB pages",),
        )
        self.opened.append(self)

    def allocate(self, size: int, page_size: int, *, populate: bool = True) -> Region:
        return Region(1 << 20, size, page_size)

    def release(self, region: Region) -> None:
        pass

    def link(self, region: Region, addresses: Any) -> None:
        pass

    def run(self, probe: Probe, placements: Any, *, cpu: int | None = None, warmup: int = 0) -> Any:
        return np.full((len(placements[Base("line")]), probe.intervals), 40, dtype=np.int64)

    def run_together(self, probes: Any, placements: Any, *, warmup: int = 0) -> dict[int, Any]:
        return {cpu: self.run(probe, placements) for cpu, probe in probes.items()}

    def close(self) -> None:
        self.closed = True


def open_fake(cpu: int | None, seed: int) -> FakeMachine:
    return FakeMachine(cpu, seed)


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
FAKE_PLAIN = Scenario(name="plain", summary="Draws nothing.", answer=answer, parameters=())
NO_SCENARIO = 3


def raising(error: BaseException) -> Scenario:
    def fail(context: Context) -> Iterator[Finding]:
        yield Finding(parameter="latency.l1", value=1.0)
        raise error

    return Scenario(name="failing", summary="Fails.", answer=fail, parameters=(), plot=draw)


FAILING = raising(SetebenchError("the probe\nwas stopped"))
BAD_USE = raising(UsageError("no such thing"))
FAULT = raising(ProbeFault("SIGSEGV", 2, 0xBAD, "load"))
UNSUPPORTED = raising(UnsupportedError("no huge pages"))
BUG = raising(ZeroDivisionError("a bug"))
CLASH = Scenario(name="clash", summary="", answer=answer, parameters=(), options=(Option(name="seed", help=""),))
ENTRIES = {
    "fake": "FAKE",
    "plain_one": "FAKE_PLAIN",
    "failing": "FAILING",
    "bad-use": "BAD_USE",
    "fault": "FAULT",
    "unsupported": "UNSUPPORTED",
    "bug": "BUG",
    "clash": "CLASH",
    "no-scenario": "NO_SCENARIO",
    "missing": "MISSING",
}

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def fake_scenarios(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    points = [
        EntryPoint(name, f"{__name__}:{attribute}", registry.ENTRY_POINT_GROUP) for name, attribute in ENTRIES.items()
    ]
    points.append(EntryPoint("broken", "package_that_is_not_there:SCENARIO", registry.ENTRY_POINT_GROUP))
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    monkeypatch.setattr(registry, "_own", list)
    registry.catalogue.cache_clear()
    FakeMachine.opened.clear()
    yield
    registry.catalogue.cache_clear()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str, machine: str | None = f"{__name__}:open_fake") -> Result:
        chosen = ["--machine", machine] if machine else []
        return CliRunner().invoke(main.setebench, [*arguments, *chosen])

    return invoke


def said(result: Result) -> str:
    """Standard error, which must be without a traceback."""
    assert "Traceback" not in result.stderr and isinstance(result.exception, SystemExit | None), result.exception
    return result.stderr
