"""The same question again and again: contradictions, what honest intervals promise, and a series that goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from documents import make_document
from scenario_files import EARLY, MACHINE, Run, Write, runs, with_modules

from setebench.campaign.series import DISJOINT, parameters, totals
from setebench.results import Document, Finding


def documents(*findings: Finding) -> list[Document]:
    return [make_document([each]) for each in findings]


def number(value: float, half: float | None = None, **more: Any) -> Finding:
    bounds = {} if half is None else {"low": value - half, "high": value + half}
    return Finding(parameter="p", value=value, unit="cycles", **bounds, **more)


def test_honest_intervals_are_apart_as_often_as_promised() -> None:
    """And intervals of half the width, much more often; the spread says by how much they are too narrow."""
    rng = np.random.default_rng(1)
    honest = [number(float(value), 1.96) for value in rng.normal(100, 1, 300)]
    found = parameters(documents(*honest))["p"]
    assert found["interval_pairs"] == 300 * 299 / 2
    assert found["interval_contradictions"] / found["interval_pairs"] == pytest.approx(DISJOINT, abs=0.003)
    assert totals({"p": found})["expected_interval_contradictions"] == pytest.approx(DISJOINT * found["interval_pairs"])
    assert found["spread"] == pytest.approx(1.0, abs=0.1)
    narrow = parameters(documents(*(number(each.value, 0.98) for each in honest)))["p"]
    assert narrow["interval_contradictions"] > 10 * found["interval_contradictions"]
    assert narrow["spread"] == pytest.approx(2.0, abs=0.2)


# -- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def run(scenario_folder: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """On a scenario whose first run finds another value than the others."""
    text = EARLY.replace('value=26.0, unit="ticks"', 'value=26.0 + (context.seed == 5), unit="ticks"')
    folder = scenario_folder(only=text.replace('name="early"', 'name="only"'))
    monkeypatch.setenv("PYTHONPATH", with_modules(folder)["PYTHONPATH"])
    monkeypatch.chdir(tmp_path)
    return runs("repeat", "-q", "--seed", "5", "--scenario", "only", "--dir", "kept", machine=MACHINE)


def test_a_series_goes_on_and_contradictions_are_counted(run: Run) -> None:
    assert run("-n", "2").exit_code == 0
    first = Path("kept/here/only.run-1.json")
    before = first.stat().st_mtime_ns
    done = run("-n", "3", "--format", "json")
    assert done.exit_code == 0, done.output
    assert first.stat().st_mtime_ns == before, "what was done is not done again"
    document = json.loads(done.stdout)
    assert [each["seed"] for each in document["runs"]] == [5, 6, 7]
    assert document["plan"]["seed"] == 5 and document["plan"]["scenario"] == "only"
    assert document["parameters"]["latency.l1"]["answered"] == 3 and document["totals"]["contradictions"] == 2
    shown = run("-n", "3")
    rows = {line.split()[0]: line.split() for line in shown.stdout.splitlines() if line.strip()}
    assert rows["clock.step"][1:8] == ["3", "of", "3", "0", "2", "of", "3"]
    assert rows["latency.l1"][5:8] == ["0", "of", "3"]
    assert rows["mshr.l1.demand"][1:4] == ["0", "of", "3"]
    assert "2 of 3 pairs of other answers contradict" in shown.stdout


def test_a_folder_of_another_plan_is_refused(run: Run) -> None:
    assert run("-n", "2").exit_code == 0
    other = run("-n", "2", "--fast")
    assert other.exit_code == 2 and "begun with another fast: False, not True" in other.stderr
    silent = run("-n", "2", machine="native")
    assert silent.exit_code == 2 and "begun with another machine" in silent.stderr
