"""Sealed seeds, the hash they follow from, the log of sealed runs, files of answers, and another version beside."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scenario_files import Run, Write, runs

from setebench.score import Task, perform_all, seeds
from setebench.score.stream import log_path
from setebench.score.tasks import Answer, perform

ROOT = Path(__file__).resolve().parents[2]
TINY = """
def answer(context):
    {what}
    yield Finding(parameter="cache.l1.ways", value={value}, unit="ways")


SCENARIO = Scenario(name="tiny", summary="Says.", answer=answer, parameters=("cache.l1.ways",))
"""


def tiny(value: int | str = 8, what: str = "pass") -> str:
    return TINY.format(value=value, what=what)


# -- seeds ------------------------------------------------------------------------------------------------------------


def test_sealed_seeds_are_beyond_those_of_development_and_follow_from_both() -> None:
    drawn = seeds.sealed_seeds("a nonce", "ab12", 500)
    assert len(set(drawn)) == 500 and min(drawn) >= seeds.FIRST_SEALED
    assert drawn == seeds.sealed_seeds("a nonce", "ab12", 500)
    assert drawn[:7] == seeds.sealed_seeds("a nonce", "ab12", 7), "a longer run goes on where a shorter one ended"
    assert not set(drawn) & set(seeds.sealed_seeds("another", "ab12", 500))
    assert not set(drawn) & set(seeds.sealed_seeds("a nonce", "ab13", 500))


def test_the_hash_is_of_what_infers_and_of_nothing_that_only_carries(tmp_path: Path) -> None:
    """Of a copy of the sources, to whose files lines are added."""
    package, sources = tmp_path / "setebench", shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "setebench", package, ignore=sources)
    shutil.copytree(ROOT / "scenarios", package / "scenarios", ignore=sources)
    code = "from setebench.score import seeds; print(seeds.inference_hash(), seeds.simulator_hash())"

    def hashes(**added: str) -> list[str]:
        for room, text in added.items():
            (package / room).mkdir(exist_ok=True)
            with (package / room / "__init__.py").open("a") as file:
                file.write(text)
        command = [sys.executable, "-c", code]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split()

    inference, simulator = hashes()
    assert hashes(cli="A = 2\n", stats='\n\n"""Says."""\n# and remarks\n') == [inference, simulator]
    same, other = hashes(sim="A = 2\n")
    assert same == inference and other != simulator
    changed, same = hashes(newly_made="A = 2\n")
    assert changed != inference and same == other


# -- runs -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def score(own_state: None) -> Run:
    return runs("score", "-q", "--workers", "1")


def logged() -> list[dict[str, Any]]:
    return [json.loads(line) for line in log_path().read_text().splitlines()]


def test_a_sealed_run_is_shown_and_logged(score: Run, scenario_folder: Write) -> None:
    scenario_folder(tiny=tiny())
    done = score("--sealed", "of the judge", "--machines", "2", "--format", "json", "--scenario", "tiny")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    sealed = document["sealed"]
    assert sealed["seeds"] == seeds.sealed_seeds("of the judge", sealed["inference"], 2)
    assert document["machines"] == [f"random:{seed}" for seed in sealed["seeds"]], "no shipped machine among them"
    begun, ended = logged()
    assert (begun["event"], ended["event"]) == ("begun", "ended") and begun["run"] == ended["run"]
    assert (begun["nonce"], begun["machines"], begun["inference"]) == ("of the judge", 2, sealed["inference"])
    assert ended["totals"] == document["totals"] and sealed["log"] == str(log_path())
    table = score("--sealed", "of the judge", "--machines", "2", "--scenario", "tiny").output
    assert "sealed: nonce 'of the judge'" in table and str(log_path()) in table and len(logged()) == 4


def test_a_scenario_that_crashes_costs_its_own_rows_and_is_listed(score: Run, scenario_folder: Write) -> None:
    scenario_folder(tiny=tiny(99), broken=tiny(what="1 / 0").replace('"tiny"', '"broken"'))
    done = score("--machines", "2", "--no-presets", "--format", "json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    failures = document["failures"]
    crashed = [(each["scenario"], each["machine"], each["crashed"]) for each in failures]
    assert crashed == [("broken", "random:1", True), ("broken", "random:2", True)]
    assert failures[0]["reason"].startswith("ZeroDivisionError")
    assert document["totals"]["wrong"] == 2, "the other one still answered"


# -- files of answers -------------------------------------------------------------------------------------------------


def test_a_stopped_run_goes_on(score: Run, scenario_folder: Write, tmp_path: Path) -> None:
    """The third machine interrupts the first time; what was done is not run again, and half a line is dropped."""
    marks = tmp_path / "runs"
    stopping = f"""
    runs = {str(marks)!r}
    open(runs, "a").write("x")
    if open(runs).read() == "xxx": raise KeyboardInterrupt"""
    scenario_folder(tiny=tiny(what=stopping.strip()))
    stopped = score("--sealed", "n", "--machines", "4", "--scenario", "tiny", "--answers", "a.jsonl")
    assert stopped.exit_code == 130 and stopped.stderr.endswith("go on with: setebench score --resume a.jsonl\n")
    with open("a.jsonl", "ab") as file:
        file.write(b'{"line": "answer", "vers')
    done = score("--resume", "a.jsonl", "--format", "json")
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.stdout)["machines"]) == 4
    entries = logged()
    assert [each["event"] for each in entries] == ["begun", "stopped", "resumed", "ended"]
    assert entries[0]["inference"] == entries[2]["inference"] == json.loads(done.stdout)["inference"]
    assert marks.read_text() == "x" * 5, "two before, the third twice, one behind it"
    again = score("--resume", "a.jsonl", "--format", "json")
    assert again.stdout == done.stdout and marks.read_text() == "x" * 5


def test_another_inference_does_not_go_on(score: Run, scenario_folder: Write) -> None:
    scenario_folder(tiny=tiny(8))
    assert score("--machines", "1", "--no-presets", "--scenario", "tiny", "--answers", "a.jsonl").exit_code == 0
    assert "leave out --noise" in score("--resume", "a.jsonl", "--noise", "quiet").stderr
    assert "exists" in score("--machines", "1", "--no-presets", "--answers", "a.jsonl").stderr
    scenario_folder(tiny=tiny(9))
    seeds.inference_hash.cache_clear()
    done = score("--resume", "a.jsonl")
    assert done.exit_code == 2 and "another inference" in done.stderr


# -- processes --------------------------------------------------------------------------------------------------------


def tasks(count: int, scenario: str = "tiny") -> list[Task]:
    return [Task(machine="plain", scenarios=(scenario,), noise="quiet", seed=seed, fast=True) for seed in range(count)]


def test_a_worker_that_dies_loses_its_machine_s_turn_alone(scenario_folder: Write, tmp_path: Path) -> None:
    number = "__import__('numpy').int64(context.seed)"  # as some inference reports, and a file of results takes
    scenario_folder(tiny=tiny(number, "if context.seed == 1: import os; os.kill(os.getpid(), 9)\n    print(1)"))
    received: list[Answer] = []
    answers = perform_all(tasks(3), 2, received.append)
    assert [answer.lost for answer in answers] == [None, "its worker ended: SIGKILL", None]
    assert [answer.findings[0].value for answer in (answers[0], answers[2])] == [0, 2]
    assert len(received) == 3
    alone = perform(tasks(1)[0])
    assert (answers[0].findings, answers[0].truths) == (alone.findings, alone.truths)


def test_old_and_new_are_judged_on_the_same_machines(score: Run, scenario_folder: Write) -> None:
    """The old inference says three ways of every machine, the new one four."""
    scenario_folder(tiny=tiny(3))
    wanted = ("--sealed", "n", "--machines", "4", "--scenario", "tiny", "--answers", "old.jsonl", "--format", "json")
    old = json.loads(score(*wanted).stdout)
    scenario_folder(tiny=tiny(4))
    seeds.inference_hash.cache_clear()
    done = score("--against", "old.jsonl", "--answers", "new.jsonl", "--format", "json")
    assert done.exit_code == 0, done.output
    new = json.loads(done.stdout)
    assert new["machines"] == old["machines"] and "sealed" not in new, "they could be known"
    for name, value in (("old.jsonl", 3), ("new.jsonl", 4)):
        entries = [json.loads(line)["answer"] for line in Path(name).read_text().splitlines()[1:]]
        assert [each["findings"][0]["value"] for each in entries] == [value] * 4
    against = new["against"]
    assert against["difference"]["machines"] == 4 and against["totals"] == old["totals"]
    assert (against["inference"], against["nonce"], against["same_simulator"]) == (old["inference"], "n", True)
    assert against["inference"] != new["inference"]
    lines = Path("new.jsonl").read_bytes().splitlines(keepends=True)
    Path("part.jsonl").write_bytes(b"".join(lines[:3]))
    again = json.loads(score("--resume", "part.jsonl", "--format", "json").stdout)
    assert again["totals"] == new["totals"] and again["against"] == against
    assert "leave out --machines" in score("--against", "old.jsonl", "--machines", "2").stderr


def test_tasks_on_a_dask_cluster(scenario_folder: Write) -> None:
    distributed = pytest.importorskip("distributed", reason="setebench[cluster] is not installed")
    from setebench.score.tasks import perform_on

    scenario_folder(tiny=tiny("context.seed"))
    # in this process: what is tested is how tasks and answers travel, not Dask
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, protocol="inproc://"
    ) as cluster:
        answers = perform_on(cluster.scheduler_address, tasks(3), lambda _answer: None)
    assert [answer.findings[0].value for answer in answers] == [0, 1, 2]
