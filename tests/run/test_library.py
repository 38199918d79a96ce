"""`import setebench`: light, small, and enough to ask questions from Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bare_machine import BareMachine, facts_of
from scenario_files import MACHINE, Write, write_files

import setebench
from setebench import registry
from setebench.errors import SetebenchError, UnsupportedError

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
    document = setebench.run("own", MACHINE, seed=3, fast=True, size=[1, 2], progress=heard.append)
    options = {"kind": "load", "size": [1, 2], "huge": False}
    assert document.evidence["options"] == options
    asked = {"scenario": "own", "machine": MACHINE, "seed": 3, "cpu": None, "fast": True}
    assert document.settings == {**asked, "options": options}
    assert heard == ["asking"]
    assert (document["latency.l1"].value, document["latency.l1"].method_version) == (4.0, 1)
    assert "latency.l1" in document and "latency.l2" not in document
    assert BareMachine.opened[0].closed
    assert setebench.list_scenarios() == {"own": "from the package mine"}
    setebench.save(document, tmp_path / "a.json")
    assert setebench.load(tmp_path / "a.json") == document


def test_a_machine_of_ones_own_stays_open(scenario_folder: Write) -> None:
    scenario_folder(own=OWN)
    machine = BareMachine()
    assert setebench.run("own", machine).settings["machine"] == "bare"
    assert setebench.characterize(machine)["latency.l1"].value == 4.0
    assert not machine.closed


def test_nothing_is_asked_in_hardly_any_memory(scenario_folder: Write) -> None:
    """As a control group may leave it, whatever the question would make of it."""
    scenario_folder(own=OWN)
    machine = BareMachine()
    machine.facts = facts_of("small", memory_bytes=1 << 20)
    with pytest.raises(UnsupportedError, match="too little memory: 1 MiB may be used"):
        setebench.run("own", machine)


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


def test_no_package_takes_a_name_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    write_files(tmp_path, latency=OWN.replace('name="own"', 'name="latency"'), torn="SCENARIO = (")
    listed = registry.catalogue()
    assert {"latency", "mine.latency", "torn"} <= listed.keys() and listed["latency"].entry_point is None
    assert registry.scenario("latency").summary != registry.scenario("mine.latency").summary == "Own."
    with pytest.raises(SetebenchError, match="can't be loaded: SyntaxError"):
        registry.scenario("torn")
    registry.catalogue.cache_clear()
