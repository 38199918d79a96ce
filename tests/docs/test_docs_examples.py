"""The worked examples of docs/, run as a reader would run them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from click.testing import CliRunner

from setebench import registry
from setebench.cli.main import setebench
from setebench.errors import ProbeFault, UnsupportedError, UsageError
from setebench.machine import Machine, open_machine
from setebench.probe import Base, Probe
from setebench.results import Finding, Outcome
from setebench.scenario import Context

pytestmark = pytest.mark.long(23)

DOCS = Path(__file__).resolve().parents[2] / "docs"
TRUTH = {"clock.step": 8.0, "clock.cycles_per_tick": 1.6, "latency.l1": 5.0, "latency.memory": 120.0}
LINE, OTHER = Base("line"), Base("other")


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.syspath_prepend(DOCS / "examples")
    machine = open_machine("toy_machine:toy", seed=3)
    yield machine
    machine.close()


# -- docs/machine-plugins.md --------------------------------------------------------------------------------------


def test_latency_finds_out_what_the_toy_is(toy: Machine) -> None:
    found: dict[str, Finding] = {
        finding.parameter: finding
        for finding in registry.scenario("latency").answer(Context(machine=toy, seed=3, fast=True))
    }
    assert "latency.l2" not in found
    for parameter, true in TRUTH.items():
        reported = found[parameter]
        assert reported.outcome is Outcome.MEASURED
        assert isinstance(reported.value, float)
        allowed = max(0.05 * true, 1.0) if reported.unit == "cycles" else 0.05 * true
        assert abs(reported.value - true) <= allowed, reported


def test_the_toy_does_what_the_protocol_asks(toy: Machine) -> None:
    region = toy.allocate(5000, 4096)
    assert region.size == 8192 and region.address % 4096 == 0
    lines = np.array([region.line(0, 5), region.line(1, 3), region.line(0, 9)])
    toy.link(region, lines)
    chase = Probe().start().chase(LINE, 4).stop()
    assert toy.run(chase, {LINE: lines}, warmup=1).shape == (2, 1)
    with pytest.raises(ProbeFault, match="SIGSEGV in operation 1"):
        toy.run(chase, {LINE: lines[:1] + 64})
    with pytest.raises(UnsupportedError):
        toy.run(Probe().load(LINE, 32), {LINE: lines})
    with pytest.raises(UnsupportedError):
        toy.allocate(4096, 2 << 20)
    with pytest.raises(UsageError):
        toy.run(Probe().start().stop(), 3, cpu=1)
    assert set(toy.run_together({0: chase}, {LINE: lines})) == {0}


# -- docs/add-a-probe.md ------------------------------------------------------------------------------------------


def test_the_snippet_of_the_page_assembles(tmp_path: Path) -> None:
    (snippet,) = _blocks("add-a-probe.md", "asm")
    source = tmp_path / "new.S"
    source.write_text(f'#include "snippet.inc"\n{snippet}\n    END_OF_FILE\n')
    build = ["gcc", "-c", "-I", str(DOCS.parent / "asm"), str(source), "-o", str(tmp_path / "new.o")]
    subprocess.run(build, check=True, timeout=60)
    sections = subprocess.run(["objdump", "-h", str(tmp_path / "new.o")], capture_output=True, text=True, check=True)
    assert "setebench_snippets" in sections.stdout


@pytest.fixture
def question() -> ModuleType:
    module = ModuleType("read_prefetch")
    (code,) = (block for block in _blocks("add-a-probe.md", "python") if "SCENARIO" in block)
    exec(compile(code, "docs/add-a-probe.md", "exec"), module.__dict__)
    return module


def test_the_question_of_the_page_is_unavailable_without_the_instruction(question: ModuleType, toy: Machine) -> None:
    (finding,) = question.SCENARIO.answer(Context(machine=toy))
    assert finding.outcome is Outcome.UNAVAILABLE and finding.reason


def test_the_question_of_the_page_is_answered(question: ModuleType, toy: Machine) -> None:
    """With a hint that the toy has: its prefetch fills the cache."""
    question.HINT = "t0"
    (finding,) = question.SCENARIO.answer(Context(machine=toy, fast=True))
    assert (finding.outcome, finding.value) == (Outcome.MEASURED, "l1")


# -- README.md, docs/report.md, library.md ----------------------------------------------------------------


def _console_commands(page: str) -> list[str]:
    lines = [line for block in _blocks(page, "console") for line in block.splitlines()]
    return [match[1] for line in lines if (match := re.match(r"\$ (?:\.venv/bin/)?setebench (.+)", line))]


@pytest.mark.parametrize(
    ("page", "machine"), [("../README.md", ["--machine", "sim:plain", "--fast"]), ("report.md", [])]
)
def test_the_commands_of_a_page_run_in_their_order(
    page: str, machine: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the README, which measure this CPU, on a simulated one."""
    monkeypatch.chdir(tmp_path)
    commands = _console_commands(page)
    assert commands
    for line in commands:
        result = CliRunner().invoke(setebench, [*shlex.split(line), *machine])
        assert result.exit_code == 0, (line, result.output)
        assert result.stdout or "-o" in line.split()


def test_the_goals_that_the_readme_names_are_there() -> None:
    goals = re.findall(r"^ {4}make (\w+) +#", (DOCS.parent / "README.md").read_text(), re.MULTILINE)
    assert len(goals) > 2
    for goal in goals:
        subprocess.run(["make", "-n", goal], cwd=DOCS.parent, check=True, capture_output=True, timeout=60)


def test_the_library_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = _blocks("library.md", "python")
    assert len(blocks) == 2
    for block in blocks:
        ended = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, timeout=300)
        assert ended.returncode == 0 and ended.stdout, ended.stderr


def test_the_library_page_lists_every_public_name() -> None:
    table = (DOCS / "library.md").read_text()
    import setebench as library

    assert [name for name in library.__all__ if f"`{name}" not in table] == []


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed; make docs installs it")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    ended = subprocess.run(command, cwd=DOCS.parent, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "index.html").exists() and (tmp_path / "project/readme-first.html").exists()
