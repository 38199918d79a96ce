"""The command line: what it prints, draws and writes, what it refuses before measuring, and how it ends."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from fake_command_line import FAKE_MACHINE, FakeMachine, fake_scenarios, run, said
from scenario_files import Run

from setebench import store
from setebench.cli.progress import Progress

__all__ = ["fake_scenarios", "run"]  # fixtures

# -- what there is ------------------------------------------------------------------------------------------------


def test_help_lists_scenarios_and_tools(run: Run) -> None:
    result = run("--help", machine=None)
    assert result.exit_code == 0
    for name in ("fake", "plain-one", "doctor", "sim", "show-asm", "score", "show"):
        assert f"\n  {name} " in result.stdout
    assert not FakeMachine.opened


@pytest.mark.parametrize("line", ["fake --seed -1", "fake --kind jump", "plain-one --plot a.png"])
def test_bad_use_ends_with_2(run: Run, line: str) -> None:
    result = run(*line.split())
    assert result.exit_code == 2 and said(result) and result.stdout == "" and not FakeMachine.opened


# -- answers ------------------------------------------------------------------------------------------------------


def test_json_on_stdout_is_the_document_alone(run: Run, tmp_path: Path) -> None:
    result = run(*shlex.split("fake --format json --seed 7 --cpu 1 --fast --max-lines 3 --size 1.5 --size 2"))
    assert result.exit_code == 0
    (tmp_path / "a.json").write_text(result.stdout)
    document = store.load(tmp_path / "a.json")
    options = {"max_lines": 3, "kind": "load", "huge": False, "size": [1.5, 2.0]}
    asked = {"scenario": "fake", "machine": FAKE_MACHINE, "seed": 7, "cpu": 1, "fast": True}
    assert document.settings == {**asked, "options": options}
    assert document.evidence == {"ticks": [40] * 10, "options": options, "missing": None}
    assert (document.machine.kind, document.machine.environment) == ("plugin", {})
    assert document.machine.facts["cpus"] == [0, 1]
    assert document.started.endswith("+00:00") and document.elapsed_seconds >= 0
    assert [finding.outcome for finding in document.findings] == ["measured", "unresolved"]
    assert FakeMachine.opened[0].arguments == {"cpu": 1, "seed": 7} and FakeMachine.opened[0].closed


@pytest.mark.parametrize(
    ("name", "form", "start"),
    [
        ("a.json", "json", "{"),
        ("a.csv", "csv", "parameter,"),
        ("a.txt", "table", "fake on"),
    ],
)
def test_forms_are_chosen_by_name_or_extension(run: Run, tmp_path: Path, name: str, form: str, start: str) -> None:
    assert run("fake", "--format", form).stdout.startswith(start)
    result = run("fake", "-o", name)
    assert (result.exit_code, result.stdout) == (0, "")
    assert said(result).endswith(f"wrote 2 findings to {name} ({form})\n")
    assert (tmp_path / name).read_text().startswith(start)


# -- terminals ----------------------------------------------------------------------------------------------------


def test_a_log_gets_a_line_for_what_begins_and_then_one_in_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    for part in ("[1/2] latency", "[2/2] stream"):
        for step in range(2000):
            progress(f"{part}: {step}")
    progress.result("done")
    assert capsys.readouterr().err == "[1/2] latency: 0\n[2/2] stream: 0\ndone\n"


def _written(run: Run) -> Path:
    assert run("fake", "-o", "written.json").exit_code == 0
    return Path("written.json")


# -- show ---------------------------------------------------------------------------------------------------------


def test_show_prints_a_result_file_in_another_form(run: Run, tmp_path: Path) -> None:
    whole = _written(run).read_text()
    assert "40.0 cycles" in run("show", "written.json", machine=None).stdout
    assert run("show", "written.json", "--format", "json", machine=None).stdout == whole
    assert run("show", "written.json", "-o", "a.csv", machine=None).exit_code == 0
    assert (tmp_path / "a.csv").read_text().startswith("parameter,")


# -- refused before measuring -------------------------------------------------------------------------------------


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
def test_targets_are_checked_before_the_machine_is_opened(
    run: Run, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("there.json", "there.svg"):
        (tmp_path / name).write_text("mine")
    result = run("fake", *arguments)
    assert result.exit_code == 2 and message in said(result) and len(said(result).splitlines()) == 1
    assert not FakeMachine.opened and (tmp_path / "there.json").read_text() == "mine"


# -- how it ends --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "status", "message"),
    [
        ("failing", 1, "Error: the probe was stopped\n"),
        ("bad-use", 2, "Error: no such thing\n"),
        ("fault", 1, "stopped by SIGSEGV in operation 2 (load)"),
        ("clash", 1, "declares the option --seed"),
        ("no-scenario", 1, "is no setebench Scenario but a int"),
        ("broken", 1, "'package_that_is_not_there' can't be loaded: ModuleNotFoundError"),
    ],
)
def test_errors_are_one_line_and_a_status(run: Run, tmp_path: Path, name: str, status: int, message: str) -> None:
    result = run(name) if name in ("clash", "no-scenario", "missing", "broken") else run(name, "-o", "a.json")
    assert result.exit_code == status and message in said(result) and len(said(result).splitlines()) == 1
    assert os.listdir(tmp_path) == [] and all(machine.closed for machine in FakeMachine.opened)
