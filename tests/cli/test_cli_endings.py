"""The command line: what it refuses before measuring, and how it ends when something goes wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from fake_command_line import FakeMachine, fake_scenarios, run, said
from scenario_files import Run

from setebench import store

__all__ = ["fake_scenarios", "run"]  # fixtures

# -- refused before measuring -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "there.json"], "exists; use --force"),
        (["-o", "folder"], "is a directory"),
        (["-o", "none/a.json"], "make it first"),
        (["-o", "a.xyz"], "names no form"),
        (["--plot", "there.svg"], "exists; use --force"),
        (["--plot", "a.jpg"], ".png, .svg, .pdf"),
        (["--plot", "none/a.png"], "make it first"),
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


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        ("nonsense", "unknown machine 'nonsense'"),
        ("no_module:x", "can't be opened"),
        ("fake_command_line:nothing", "can't be opened"),
    ],
)
def test_an_unknown_machine_is_bad_use(run: Run, machine: str, message: str) -> None:
    result = run("fake", machine=machine)
    assert result.exit_code == 2 and message in said(result)


# -- how it ends --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "status", "message"),
    [
        ("failing", 1, "Error: the probe was stopped\n"),
        ("bad-use", 2, "Error: no such thing\n"),
        ("fault", 1, "stopped by SIGSEGV in operation 2 (load)"),
        ("unsupported", 1, "Error: no huge pages\n"),
        ("clash", 1, "declares the option --seed"),
        ("no-scenario", 1, "is no setebench Scenario but a int"),
        ("missing", 1, "can't be loaded: AttributeError"),
        ("broken", 1, "'package_that_is_not_there' can't be loaded: ModuleNotFoundError"),
    ],
)
def test_errors_are_one_line_and_a_status(run: Run, tmp_path: Path, name: str, status: int, message: str) -> None:
    result = run(name) if name in ("clash", "no-scenario", "missing", "broken") else run(name, "-o", "a.json")
    assert result.exit_code == status and message in said(result) and len(said(result).splitlines()) == 1
    assert os.listdir(tmp_path) == [] and all(machine.closed for machine in FakeMachine.opened)


def test_a_bug_shows_itself(run: Run) -> None:
    result = run("bug")
    assert isinstance(result.exception, ZeroDivisionError) and FakeMachine.opened[0].closed


def test_an_interrupt_just_after_writing_reports_the_truth(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "_sync_folder", interrupt)
    result = run("fake", "-o", "a.json")
    assert result.exit_code == 130 and "Interrupted; a.json was written." in said(result)
    assert len(store.load(tmp_path / "a.json").findings) == 2 and os.listdir(tmp_path) == ["a.json"]
