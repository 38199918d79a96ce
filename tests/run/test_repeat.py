"""The same question again and again: contradictions, what honest intervals promise, and a series that goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from documents import make_document
from scenario_files import EARLY, LATE, MACHINE, Run, Write, runs, write_files

from setebench import registry, store
from setebench.campaign import steps_of
from setebench.campaign.series import DISJOINT, Series, SeriesPlan, parameters, totals
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
    assert found.interval_pairs == 300 * 299 / 2
    assert found.interval_contradictions / found.interval_pairs == pytest.approx(DISJOINT, abs=0.003)
    assert totals({"p": found})["expected_interval_contradictions"] == pytest.approx(DISJOINT * found.interval_pairs)
    assert found.spread == pytest.approx(1.0, abs=0.1)
    narrow = parameters(documents(*(number(each.value, 0.98) for each in honest)))["p"]
    assert narrow.interval_contradictions > 10 * found.interval_contradictions
    assert narrow.spread == pytest.approx(2.0, abs=0.2)


# -- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return runs("repeat", "-q", machine=MACHINE)


def test_a_series_that_was_stopped_goes_on(run: Run, scenario_folder: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario_folder(early=EARLY, late=LATE)
    asked: list[list[str]] = []

    def stopping(arguments: list[str]) -> int:
        """Run in this process; the second run of all is stopped after its first scenario."""
        asked.append(arguments)
        done = runs()(*arguments)
        file = Path(arguments[arguments.index("-o") + 1]) if "-o" in arguments else None
        if file is not None and len(asked) == 2:
            whole = store.load(file)
            steps = [*whole.evidence["steps"][:1], {**whole.evidence["steps"][1], "state": "pending"}]
            store.save(msgspec.structs.replace(whole, evidence={**whole.evidence, "steps": steps}), file, force=True)
            return 130
        return done.exit_code

    monkeypatch.setattr("setebench.cli.repeat._performed", stopping)
    stopped = run("-n", "3", "--seed", "5", "--dir", "kept")
    assert stopped.exit_code == 130
    assert stopped.stderr.endswith(f"go on with: setebench repeat -n 3 --dir kept --machine {MACHINE}\n")
    done = run("-n", "3", "--dir", "kept", "--format", "json")
    assert done.exit_code == 0, done.output
    assert ["--resume" in each for each in asked] == [False, False, True, False]
    document = json.loads(done.stdout)
    assert [each["seed"] for each in document["runs"]] == [5, 6, 7]
    assert document["plan"]["seed"] == 5 and document["plan"]["scenario"] == "characterize"
    assert document["parameters"]["latency.l1"]["answered"] == 3 and document["totals"]["contradictions"] == 0
    assert all(step.state == "done" for step in steps_of(store.load("kept/run-02.json")))
    assert len(asked) == 4 and run("-n", "2", "--dir", "kept").exit_code == 0 and len(asked) == 4


def test_code_that_a_folder_names_is_run_where_the_user_names_it_too(run: Run, scenario_folder: Write) -> None:
    scenario_folder(early=EARLY)
    Series(Path("kept"), SeriesPlan(machine=MACHINE))
    silent = run("--dir", "kept", machine=None)
    assert silent.exit_code == 2 and f"add --machine {MACHINE}" in silent.stderr


def test_runs_are_processes_of_their_own(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One scenario; its first run finds another value than the second, and the table says that they contradict."""
    text = EARLY.replace('value=26.0, unit="ticks"', 'value=26.0 + context.seed, unit="ticks"')
    monkeypatch.setenv("SETEBENCH_SCENARIO_PATH", str(tmp_path / "mine"))
    write_files(tmp_path / "mine", only=text.replace('name="early"', 'name="only"'))
    try:
        done = run("-n", "2", "--scenario", "only", "--dir", "kept")
    finally:
        registry.catalogue.cache_clear()
    assert done.exit_code == 0, done.output
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line.strip()}
    assert rows["clock.step"][1:8] == ["2", "of", "2", "0", "1", "of", "1"]
    assert rows["latency.l1"][5:8] == ["0", "of", "1"]
    assert rows["mshr.l1.demand"][1:4] == ["0", "of", "2"]
    assert "1 of 2 pairs" not in done.stdout and "1 of 1 pairs of other answers contradict" in done.stdout
