from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from small_machines import file, small

from setebench import store
from setebench.cli.main import setebench
from setebench.probe.notation import parse
from setebench.results import Document
from setebench.sim.files.dump import dump
from setebench.sim.files.loader import load
from setebench.sim.truth.document import truth_document
from setebench.truth.twin import twin_of_file
from setebench.truth.verify.check import Request, Verified, opened_twin, surroundings, verify
from setebench.truth.verify.document import as_document
from setebench.truth.verify.families import FAMILIES, ROUND, Surroundings, drawn

__all__ = ["file"]  # a fixture


def surroundings_of(name: str) -> Surroundings:
    machine = load(name)
    with closing(opened_twin(machine, 1)) as model:
        return surroundings(machine, model, model)


def truth_of_small() -> Document:
    return truth_document(small(), "small", datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture(scope="module")
def exact(file: Path) -> Verified:
    request = Request(machine=f"sim:{file}", minutes=None, trials=70)
    return verify(twin_of_file(dump(small()), "twin.toml"), request)


@pytest.mark.parametrize("name", ["plain", "sandybridge", "zen-like", "knc"])
def test_trials_are_the_same_for_the_same_seed_and_can_be_written(name: str) -> None:
    around = surroundings_of(name)
    trials = drawn(3, range(len(ROUND)), around)
    assert trials == drawn(3, range(len(ROUND)), around)
    assert {trial.family for trial in trials.values()} == set(FAMILIES)
    assert all(parse(trial.shown()).intervals >= 1 and trial.units >= 1 for trial in trials.values())


def test_an_exact_twin_agrees_as_the_machine_with_itself(exact: Verified) -> None:
    assert not exact.contradicted
    found = as_document(exact, truth_of_small())
    own, ceiling = (float(found[f"verify.all.{name}"].value) for name in ("agreement", "ceiling"))  # type: ignore[arg-type]
    assert own >= 0.97 * ceiling and ceiling > 90


def test_what_the_system_says_is_the_baseline(exact: Verified) -> None:
    """Of a table that measured nothing: sizes that the operating system gives, and defaults for all else."""
    document = truth_of_small()
    sizes = msgspec.structs.replace(
        document, findings=[each for each in document.findings if "cache." in each.parameter]
    )
    plain, system = (as_document(exact, document, each)["verify.all.defaults"].value for each in (None, sizes))
    assert system > plain  # type: ignore[operator]


def test_characterize_ends_with_what_its_table_predicts(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("setebench.cli.characterize.MINUTES", 0.05)
    target = tmp_path / "out.json"
    words = ["--machine", f"sim:{file}", "--fast", "-q", "--only", "latency", "--verify", "-o", str(target)]
    result = CliRunner().invoke(setebench, ["characterize", *words])
    assert result.exit_code == 0, result.output
    saved = store.load(target)
    assert 0 < float(saved["verify.all.agreement"].value) <= 100 and saved["latency.l1"].value  # type: ignore[arg-type]
    assert saved.evidence["verify"]["headline"] in " ".join(result.output.split())


def test_the_command_ends_with_3_where_the_twin_is_contradicted(file: Path, tmp_path: Path) -> None:
    result, twin, target = tmp_path / "result.json", tmp_path / "twin.toml", tmp_path / "checked.json"
    result.write_bytes(store.dumps(truth_of_small()))
    twin.write_text(dump(msgspec.structs.replace(small(), prefetchers=())))
    common = ["verify", str(result), "--machine", f"sim:{file}", "-q", "--exit-code", "--probes"]
    wrong = CliRunner().invoke(setebench, [*common, "60", "--twin", str(twin), "-o", str(target)])
    assert wrong.exit_code == 3, wrong.output
    found = json.loads(target.read_text())
    assert found["evidence"]["verify"]["worst"] and found["settings"]["scenario"] == "verify"
    assert CliRunner().invoke(setebench, ["verify", str(result), "--machine", "sim:nothing"]).exit_code == 2
