"""`setebench characterize`: the table, saving and going on, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from bare_machine import BareMachine
from scenario_files import EARLY, FAILING, LATE, MACHINE, Run, Write, runs, with_modules

from setebench import registry, store
from setebench.campaign import choose, steps_of


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return runs("characterize", machine=MACHINE)


def test_a_failure_is_one_line_that_says_where(run: Run, scenario_folder: Write) -> None:
    scenario_folder(early=EARLY, failing=FAILING.format(what="1 / 0"))
    result = run()
    assert result.exit_code == 0 and "Traceback" not in result.stderr
    assert "failing failed: ZeroDivisionError: division by zero (failing.py:11)\n" in result.stderr
    assert "failing failed, so blocking.* may be missing: ZeroDivisionError" in result.stdout, "the table lists it too"


def test_only_and_skip(run: Run, scenario_folder: Write) -> None:
    scenario_folder(early=EARLY, late=LATE)
    assert "mshr" not in run("-q", "--only", "early", "--format", "csv").stdout.replace("mshr.l1.demand,,entries", "")
    assert "clock.step" not in run("-q", "--skip", "early").stdout
    assert run("--only", "nothing").exit_code == 2
    settings = json.loads(run("--only", "early", "--format", "json").stdout)["settings"]
    assert (settings["scenario"], settings["scenarios"]) == ("characterize", ["early"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "there.json"), "exists; use --force"),
        (("-o", "same", "--report", "same"), "both name"),
        (("-o", "-"), "need a file"),
        (("--resume", "there.json", "--skip", "early"), "is damaged"),
        (("--resume", "there.json"), "is damaged"),
    ],
)
def test_what_can_not_work_is_reported_before_measuring(
    run: Run, scenario_folder: Write, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    scenario_folder(early=EARLY)
    (tmp_path / "there.json").write_text("{")
    result = run(*arguments)
    assert result.exit_code == 2 and message in result.stderr and result.stdout == ""


def test_an_interrupt_says_how_to_go_on(scenario_folder: Write, tmp_path: Path) -> None:
    waiting = FAILING.format(what="print('waiting', flush=True); __import__('time').sleep(60)")
    folder = scenario_folder(early=EARLY, failing=waiting, late=LATE)
    command = [sys.executable, "-m", "setebench", "characterize", "--machine", MACHINE, "-o", "out.json"]
    chosen = [each for name in ("early", "failing", "late") for each in ("--only", name)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": tmp_path}
    with subprocess.Popen([*command, *chosen], env=with_modules(folder), **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert said.endswith(f"go on with: setebench characterize --resume out.json --machine {MACHINE}\n")
    states = [step.state for step in steps_of(store.load(tmp_path / "out.json"))]
    assert states == ["done", "pending", "pending"] and list(tmp_path.glob(".setebench-*")) == []


# -- going on -----------------------------------------------------------------------------------------------------


def test_code_that_a_file_names_is_run_where_the_user_names_it_too(run: Run, scenario_folder: Write) -> None:
    scenario_folder(early=EARLY)
    assert run("-o", "out.json").exit_code == 0
    opened = len(BareMachine.opened)
    silent, other = run("--resume", "out.json", machine=None), run("--resume", "out.json", machine="os:getcwd")
    assert silent.exit_code == 2 and f"where you trust that, --machine {MACHINE}" in silent.stderr
    assert other.exit_code == 2 and f"was begun on {MACHINE!r}" in other.stderr
    assert len(BareMachine.opened) == opened


# -- what ships -----------------------------------------------------------------------------------------------------


def test_every_scenario_that_ships_takes_part_and_the_levels_come_first() -> None:
    names = choose()
    asked = {name for name, entry in registry.catalogue().items() if not entry.load().on_request}
    assert names[0] == "latency" and set(names) == asked


def test_a_file_that_cannot_be_written_costs_no_measurement(run: Run, scenario_folder: Write, tmp_path: Path) -> None:
    """Its folder is away while the first scenario's findings are to be saved."""
    moving, begins = "    __import__('os').rename(*{})\n", "def answer(context):\n"
    moved = {"early": (EARLY, ("out", "away")), "late": (LATE, ("away", "out"))}
    scenario_folder(**{name: text.replace(begins, begins + moving.format(how)) for name, (text, how) in moved.items()})
    (tmp_path / "out").mkdir()
    result = run("-o", "out/a.json")
    assert result.exit_code == 0 and "not saved yet: " in result.stderr and "make it first" in result.stderr
    assert len(store.load("out/a.json").findings) == 3
