"""Made fleets: the odd nodes are those that are named, with nothing else; and the command line of both."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from fleets import RECORDED, number, put

from setebench import store
from setebench.cli.fleet import fleet
from setebench.errors import UsageError
from setebench.fleet.comparison import compare
from setebench.score import fleet as made

PLAN = made.Plan(nodes=60, odd=2, seed=5)


@pytest.fixture(scope="module")
def recording() -> made.Recording:
    return store.load_as(RECORDED, made.Recording)


def test_odd_nodes_and_their_parameters_are_named_and_nothing_else(recording: made.Recording, tmp_path: Path) -> None:
    odd = made.write(tmp_path / "fleet", recording, PLAN)
    assert len(odd) == 2
    found = compare([tmp_path / "fleet"])
    assert {(mark.node, mark.parameter) for mark in found.alarms} >= {
        (node, name) for node, change in odd.items() for name in change["parameters"] if "vector" not in name
    }
    assert {mark.node for mark in found.marks} == set(odd)
    truth = json.loads((tmp_path / "fleet/truth.json").read_text())
    assert set(truth["odd"]) == set(odd)


# -- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("made") / "fleet"
    arguments = ["simulate", "--nodes", "40", "--odd", "1", "--seed", "2", "--recorded", str(RECORDED)]
    result = CliRunner().invoke(fleet, [*arguments, "-o", str(where)])
    assert result.exit_code == 0, result.output
    assert "wrote 40 nodes" in result.stderr
    return where


def _odd(folder: Path) -> str:
    return next(iter(json.loads((folder / "truth.json").read_text())["odd"]))


def test_the_exit_status_follows_the_alarm(folder: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(fleet, ["compare", str(folder), "--exit-code"])
    assert result.exit_code == 3 and _odd(folder) in result.stdout and "nodes: 40, runs: 120" in result.stdout
    assert CliRunner().invoke(fleet, ["compare", str(folder)]).exit_code == 0
    for node in range(8):
        put(tmp_path / f"n{node}.json", [number("latency.l1", 4.0)])
    assert CliRunner().invoke(fleet, ["compare", str(tmp_path), "--exit-code"]).exit_code == 0


def test_forms(folder: Path, tmp_path: Path) -> None:
    run = CliRunner()
    document = json.loads(run.invoke(fleet, ["compare", str(folder), "--format", "json", "-q"]).stdout)
    assert {mark["node"] for mark in document["marks"]} == {_odd(folder)} and document["marks"][0]["alarm"] is True
    assert "clock.step" in {each["parameter"] for each in document["parameters"]} and len(document["nodes"]) == 40
    rows = list(csv.DictReader(io.StringIO(run.invoke(fleet, ["compare", str(folder), "--format", "csv"]).stdout)))
    assert {row["node"] for row in rows} == {_odd(folder)} and float(rows[0]["familywise"]) < 0.05
    target = tmp_path / "marks.csv"
    assert run.invoke(fleet, ["compare", str(folder), "-o", str(target)]).exit_code == 0
    again = run.invoke(fleet, ["compare", str(folder), "-o", str(target)])
    assert isinstance(again.exception, UsageError) and "exists" in str(again.exception)


def test_names_from_files_are_shown_and_never_obeyed(tmp_path: Path) -> None:
    for node in range(5):
        evil = "<script>alert(1)</script>\x1b[2J"
        put(tmp_path / f"n{node}.json", [number(f"latency.{evil}", 4.0)], node=f"{evil}{node}")
    for form in ("table", "csv"):
        out = CliRunner().invoke(fleet, ["compare", str(tmp_path), "--format", form]).stdout
        assert "\x1b" not in out
