"""`import setebench`: light, small, and enough to ask questions from Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bare_machine import BareMachine
from scenario_files import HEAD, MACHINE, Write, runs

import setebench
from setebench import registry

OWN = """
def answer(context):
    context.progress("asking")
    context.evidence["options"] = context.options
    yield Finding(parameter="latency.l1", value=4.0, unit="cycles")


SCENARIO = Scenario(
    name="own",
    summary="Own.",
    answer=answer,
    parameters=("latency.",),
    options=(
        Option(name="kind", help="Which.", default="load", choices=("load", "store")),
        Option(name="size", help="Sizes.", type=int, multiple=True),
        Option(name="huge", help="Huge.", flag=True),
    ),
)
"""


def test_importing_is_light_and_every_public_name_is_there() -> None:
    code = (
        "import sys, setebench\n"
        "heavy = {'numpy', 'numba', 'matplotlib', 'jinja2', 'msgspec', 'click'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert all(getattr(setebench, name) for name in setebench.__all__)\n"
        "assert set(setebench.__all__) <= set(dir(setebench))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        setebench.nothing  # noqa: B018


def test_a_question_is_asked_by_name(scenario_folder: Write, tmp_path: Path) -> None:
    scenario_folder(own=OWN)
    heard: list[str] = []
    reported: list[str] = []
    listening = {"progress": heard.append, "on_finding": lambda finding: reported.append(finding.parameter)}
    document = setebench.run("own", MACHINE, seed=3, fast=True, size=[1, 2], **listening)
    options = {"kind": "load", "size": [1, 2], "huge": False}
    assert document.evidence["options"] == options
    asked = {"scenario": "own", "machine": MACHINE, "seed": 3, "cpu": None, "fast": True}
    assert document.settings == {**asked, "options": options}
    assert heard == ["asking"] and reported == ["latency.l1"]
    assert document["latency.l1"].value == 4.0 and "latency.l1" in document and "latency.l2" not in document
    with pytest.raises(KeyError):
        document["latency.l2"]
    assert BareMachine.opened[0].closed
    assert setebench.list_scenarios() == {"own": "Own."}
    setebench.save(document, tmp_path / "a.json")
    assert setebench.load(tmp_path / "a.json") == document


def test_a_machine_of_ones_own_stays_open(scenario_folder: Write) -> None:
    scenario_folder(own=OWN)
    machine = BareMachine()
    assert setebench.run("own", machine).settings["machine"] == "bare"
    assert setebench.characterize(machine)["latency.l1"].value == 4.0
    assert not machine.closed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nothing": 1}, "has no option 'nothing'; its options: kind, size, huge"),
        ({"kind": "flush"}, "takes one of load, store, not 'flush'"),
        ({"cpu": 7}, "bare has no CPU 7"),
    ],
)
def test_bad_use_is_reported(scenario_folder: Write, arguments: dict[str, Any], message: str) -> None:
    scenario_folder(own=OWN)
    with pytest.raises(setebench.UsageError, match=message):
        setebench.run("own", MACHINE, **arguments)
    with pytest.raises(setebench.UsageError, match="unknown scenario"):
        setebench.run("nothing", MACHINE)


# -- scenario files ---------------------------------------------------------------------------------------------------


def test_a_folder_of_scenarios_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.setenv(registry.PATH_VARIABLE, "")
    (folder / "my_question.py").write_text(HEAD + OWN)
    (folder / "latency.py").write_text(HEAD + OWN)
    (folder / "helper.py").write_text("x = 1\n")
    (folder / "_hidden.py").write_text(HEAD + OWN)
    (folder / "binary.py").write_bytes(b"\xff\xfeSCENARIO")
    try:
        run = runs()
        shown = run("--scenario-path", str(folder), "--help").stdout
        assert "\n  my-question " in shown and f"\n  {folder.name}.latency " in shown
        assert "helper" not in shown and "hidden" not in shown and "binary" not in shown
        asked = run("my-question", "--size", "3", "-q", machine=MACHINE)
        assert asked.exit_code == 0 and "latency.l1" in asked.stdout
        missing = run("--scenario-path", "nowhere", "--help")
        assert missing.exit_code == 2 and "'nowhere' is no directory" in missing.stderr
    finally:
        registry.catalogue.cache_clear()
