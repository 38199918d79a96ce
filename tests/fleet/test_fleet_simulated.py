"""Made fleets: the odd nodes are those that are named, with nothing else; and the command line of both."""

from __future__ import annotations

import csv
import io
import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner
from fleets import RECORDED, number, put, tiny

from setebench.cli.fleet import fleet
from setebench.errors import UsageError
from setebench.fleet.comparison import compare
from setebench.score import fleet as made
from setebench.sim.files.dump import dump
from setebench.sim.files.loader import parse

PLAN = made.Plan(nodes=60, odd=2, seed=5)


@pytest.fixture(scope="module")
def recording() -> made.Recording:
    return made.read_recording(RECORDED)


def test_odd_nodes_and_their_parameters_are_named_and_nothing_else(recording: made.Recording, tmp_path: Path) -> None:
    odd = made.write(tmp_path / "fleet", recording, PLAN)
    assert len(odd) == 2
    found = compare([tmp_path / "fleet"])
    assert {(mark.node, mark.parameter) for mark in found.alarms} >= {
        (node, name) for node, change in odd.items() for name in change.parameters if "vector" not in name
    }
    assert {mark.node for mark in found.marks} == set(odd)
    truth = json.loads((tmp_path / "fleet/truth.json").read_text())
    assert set(truth["odd"]) == set(odd)


def test_equal_nodes_raise_no_alarm(recording: made.Recording, tmp_path: Path) -> None:
    for seed in range(5):
        made.write(tmp_path / str(seed), recording, made.Plan(nodes=30, odd=0, seed=seed))
        assert compare([tmp_path / str(seed)]).alarms == []


def test_an_odd_nodes_runs_are_moved_as_its_truth_is(recording: made.Recording) -> None:
    machine = parse(recording.machine, "recorded")
    node = next(node for node in made.nodes(recording, PLAN) if node.change is not None)
    assert node.change is not None
    usual, odd = node.change.parameters[next(iter(node.change.parameters))]
    assert isinstance(usual, float) and isinstance(odd, float) and odd == pytest.approx(1.1 * usual)
    latencies = [*(level.latency_cycles for level in machine.levels), machine.memory.latency_cycles]
    assert usual in latencies
    for run in node.runs:
        moved = {finding.parameter: finding for finding in run}
        for parameter, (_, value) in node.change.parameters.items():
            finding = moved[parameter]
            assert finding.value == pytest.approx(value, rel=0.03)
            assert finding.low is not None and finding.high is not None and finding.low < finding.value < finding.high


def test_recorded_runs_are_those_of_equal_machines_with_other_seeds(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(dump(tiny(250.0)))
    name = str(tmp_path / "tiny.toml")
    wanted = made.Wanted(machine=name, noise="quiet", scenarios=("latency",), fast=True, seed=7, count=2)
    done: list[int] = []
    recording = made.record(wanted, done.append)
    assert done == [1, 2] and [run.seed for run in recording.runs] == [7, 8]
    made.save_recording(recording, tmp_path / "recorded.json")
    assert made.read_recording(tmp_path / "recorded.json") == recording
    for run in recording.runs:
        values = {finding.parameter: finding.value for finding in run.findings}
        assert values["latency.memory"] == pytest.approx(250, rel=0.01)


# -- the command line -------------------------------------------------------------------------------------------------


class _Reader(HTMLParser):
    """Rows of the heat map: node, and the classes of its cells."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.cells += [value or "" for name, value in attrs if name == "class" and tag == "td"]


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
    assert result.exit_code == 3 and _odd(folder) in result.stdout and "40 nodes, 120 runs" in result.stdout
    assert CliRunner().invoke(fleet, ["compare", str(folder)]).exit_code == 0
    for node in range(8):
        put(tmp_path / f"n{node}.json", [number("latency.l1", 4.0)])
    assert CliRunner().invoke(fleet, ["compare", str(tmp_path), "--exit-code"]).exit_code == 0


def test_forms(folder: Path, tmp_path: Path) -> None:
    run = CliRunner()
    document = json.loads(run.invoke(fleet, ["compare", str(folder), "--format", "json", "-q"]).stdout)
    assert {mark["node"] for mark in document["marks"]} == {_odd(folder)} and document["marks"][0]["alarm"] is True
    assert document["parameters"][0]["parameter"] == "clock.step" and len(document["nodes"]) == 40
    rows = list(csv.DictReader(io.StringIO(run.invoke(fleet, ["compare", str(folder), "--format", "csv"]).stdout)))
    assert {row["node"] for row in rows} == {_odd(folder)} and float(rows[0]["familywise"]) < 0.05
    target = tmp_path / "map.html"
    assert run.invoke(fleet, ["compare", str(folder), "-o", str(target)]).exit_code == 0
    page = target.read_text()
    reader = _Reader()
    reader.feed(page)
    assert "script" not in reader.tags and page.index(_odd(folder)) < page.index("Nodes that stand out")
    strong = [cell for cell in reader.cells if cell in ("up3", "up4", "down3", "down4")]
    assert len(strong) == len(document["marks"])
    again = run.invoke(fleet, ["compare", str(folder), "-o", str(target)])
    assert isinstance(again.exception, UsageError) and "exists" in str(again.exception)


def test_names_from_files_are_shown_and_never_obeyed(tmp_path: Path) -> None:
    for node in range(5):
        evil = "<script>alert(1)</script>\x1b[2J"
        put(tmp_path / f"n{node}.json", [number(f"latency.{evil}", 4.0)], node=f"{evil}{node}")
    for form in ("html", "table", "csv"):
        out = CliRunner().invoke(fleet, ["compare", str(tmp_path), "--format", form]).stdout
        assert "\x1b" not in out
        assert form != "html" or "<script" not in out
