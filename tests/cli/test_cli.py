"""The command line: what it prints, draws and writes, what it refuses before measuring, and how it ends."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from bare_machine import BareMachine
from scenario_files import MACHINE, Run, Write, runs

from setebench import store
from setebench.cli.output import Progress

FAKE = """
def answer(context):
    context.progress("timing one load\\x1b[2J")
    context.evidence |= {"options": context.options, "missing": float("nan")}
    yield Finding(parameter="latency.l1", value=40.0, unit="cycles", low=39.5, high=40.5)
    WHAT
    yield Finding(parameter="mshr.l1.demand", unit="entries", outcome=Outcome.UNRESOLVED, reason="no knee was seen")


OPTIONS = (
    Option(name="max_lines", help="Most lines.", default=8, type=int),
    Option(name="kind", help="Which.", default="load", choices=("load", "store")),
    Option(name="huge", help="Huge pages.", flag=True),
    Option(name="size", help="A size.", type=float, multiple=True),
)
SCENARIO = Scenario(
    name="fake", summary="Times.", answer=answer, parameters=("latency.",), options=OPTIONS, plot=lambda _: None
)
"""


def fake(what: str = "") -> str:
    return FAKE.replace("WHAT", what)


@pytest.fixture
def run(scenario_folder: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    scenario_folder(fake=fake(), clash=fake().replace('"max_lines"', '"seed"'), broken="import nothing_there")
    monkeypatch.chdir(tmp_path)
    return runs(machine=MACHINE)


@pytest.mark.parametrize("line", ["fake --seed -1", "fake --kind jump", "fake --nothing", "nothing"])
def test_bad_use_ends_with_2(run: Run, line: str) -> None:
    result = run(*line.split())
    assert result.exit_code == 2 and result.stderr and result.stdout == "" and not BareMachine.opened


@pytest.mark.parametrize(
    "line", ["diagnose --duration nan -- true", "diagnose --duration inf -- true", "fake --size nan"]
)
def test_what_is_no_number_is_refused(run: Run, line: str) -> None:
    result = run(*line.split(), machine=None)
    assert result.exit_code == 2 and "no finite number" in result.stderr and not BareMachine.opened


def test_json_on_stdout_is_the_document_alone(run: Run, tmp_path: Path) -> None:
    arguments = "--format json --seed 7 --cpu 1 --fast --max-lines 3 --size 1.5 --size 2"
    result = run("fake", *arguments.split(" "))
    assert result.exit_code == 0 and "\x1b" not in result.stderr
    (tmp_path / "a.json").write_text(result.stdout)
    document = store.load(tmp_path / "a.json")
    options = {"max_lines": 3, "kind": "load", "huge": False, "size": [1.5, 2.0]}
    asked = {"scenario": "fake", "machine": MACHINE, "seed": 7, "cpu": 1, "fast": True}
    assert document.settings == {**asked, "options": options}
    assert document.evidence == {"options": options, "missing": None}
    assert (document.machine.kind, document.machine.environment) == ("plugin", {})
    assert document.started.endswith("+00:00") and document.elapsed_seconds >= 0
    assert [finding.outcome for finding in document.findings] == ["measured", "unresolved"]
    assert BareMachine.opened[0].arguments == {"cpu": 1, "seed": 7} and BareMachine.opened[0].closed


@pytest.mark.parametrize(("name", "form", "start"), [("a.json", "json", "{"), ("a.txt", "table", "fake on")])
def test_forms_are_chosen_by_name_or_extension(run: Run, tmp_path: Path, name: str, form: str, start: str) -> None:
    assert run("fake", "--format", form).stdout.startswith(start)
    result = run("fake", "-o", name)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.endswith(f"wrote 2 findings to {name} ({form})\n")
    assert (tmp_path / name).read_text().startswith(start)


def test_show_prints_a_result_file_in_another_form(run: Run) -> None:
    assert run("fake", "-o", "written.json").exit_code == 0
    whole = Path("written.json").read_text()
    assert "40.0 cycles" in run("show", "written.json", machine=None).stdout
    assert json.loads(run("show", "written.json", "--format", "json", machine=None).stdout) == json.loads(whole)
    assert run("show", "written.json", "-o", "a.csv", machine=None).exit_code == 0
    assert Path("a.csv").read_text().startswith("parameter,")


def test_a_log_gets_a_line_for_what_begins_and_then_one_in_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    for part in ("[1/2] latency", "[2/2] stream"):
        for step in range(2000):
            progress(f"{part}: {step}")
    progress.result("done")
    assert capsys.readouterr().err == "[1/2] latency: 0\n[2/2] stream: 0\ndone\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "there.json"], "exists; use --force"),
        (["-o", "none/a.json"], "make it first"),
        (["-o", "a.xyz"], "names no form"),
        (["--plot", "a.jpg"], ".png, .svg, .pdf"),
        (["-o", "a.svg", "--format", "json", "--plot", "./a.svg"], "name two files"),
    ],
)
def test_targets_are_checked_before_the_machine_is_opened(run: Run, arguments: list[str], message: str) -> None:
    Path("there.json").write_text("mine")
    result = run("fake", *arguments)
    assert result.exit_code == 2 and message in result.stderr and len(result.stderr.splitlines()) == 1
    assert not BareMachine.opened and Path("there.json").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "what", "status", "message"),
    [
        ("fake", 'raise SetebenchError("the probe\\nwas stopped")', 1, "Error: the probe was stopped\n"),
        ("fake", 'raise ProbeFault("SIGSEGV", 2, 0xBAD, "load")', 1, "stopped by SIGSEGV in operation 2 (load)"),
        ("fake", 'raise SetebenchError("ab" * 9999)', 1, "abab ...\n"),
        ("clash", "", 1, "declares the option --seed"),
        ("broken", "", 1, "can't be loaded: ModuleNotFoundError"),
    ],
)
def test_errors_are_one_line_and_a_status(
    run: Run, scenario_folder: Write, name: str, what: str, status: int, message: str
) -> None:
    scenario_folder(fake=fake(what))
    result = run(name, "-o", "a.json", "-q") if name == "fake" else run(name)
    assert result.exit_code == status and message in result.stderr and len(result.stderr.splitlines()) == 1
    assert len(result.stderr) < 5000
    assert "a.json" not in os.listdir() and all(machine.closed for machine in BareMachine.opened)
