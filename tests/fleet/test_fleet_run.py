"""`fleet run`: four workers with a simulated machine each, and what dead, slow and lying nodes cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fleets import number, put, tiny

from setebench.cli.fleet import fleet
from setebench.errors import UsageError
from setebench.fleet import engine, launch, measure
from setebench.fleet.comparison import compare
from setebench.fleet.plan import Folder, Job, Plan
from setebench.sim.compiled import prepare
from setebench.sim.files.dump import dump

distributed = pytest.importorskip("distributed", reason="setebench[cluster] is not installed")
pytestmark = pytest.mark.long(20)


# -- real measurements, on real workers -------------------------------------------------------------------------------


FAKE_SSH = """#!/bin/sh
# in place of ssh: the last argument is the command, the one before it the host, each with a folder of its own
for last; do host=$command; command=$last; done
mkdir -p "{folder}/$host"
TMPDIR="{folder}/$host" exec sh -c "$command"
"""


def test_the_degraded_one_of_four_nodes_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare()  # else each node would compile the simulator
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ssh").write_text(FAKE_SSH.format(folder=tmp_path / "hosts"))
    (programs / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "hosts.txt").write_text("n1\nn2  # a comment\nn3\nn4\n")
    for name in ("n1", "n2", "n3", "n4"):
        (tmp_path / f"{name}.toml").write_text(dump(tiny(375.0 if name == "n3" else 250.0)))
    command = ["run", "--hosts", str(tmp_path / "hosts.txt"), "-o", str(tmp_path / "out"), "--scenario", "latency"]
    command += ["--machine", f"sim:{tmp_path}/{{node}}.toml", "--fast", "--scheduler-host", "127.0.0.1"]
    result = CliRunner().invoke(fleet, command, catch_exceptions=False)
    assert result.exit_code == 0 and "4 answers of 4 nodes" in result.stderr
    found = compare([tmp_path / "out"])
    assert found.nodes == ["n1", "n2", "n3", "n4"]
    assert {mark.node for mark in found.alarms} == {"n3"}
    assert "latency.memory" in {mark.parameter for mark in found.alarms}
    assert all(mark.parameter.startswith("latency.memory") for mark in found.marks)
    document = json.loads((tmp_path / "out/n3/latency.run-1.json").read_text())
    assert document["settings"]["node"] == "n3" and document["settings"]["seed"] == 1


# -- workers in this process, whose measurements are small programs ---------------------------------------------------

SAYS: dict[str, str] = {
    "good": "",
    "garbage": "print('[1, 2')",
    "other": "print('{\"schema\": 1}')",
    "fails": "import sys; sys.exit('Error: no such register')",
    "slow": "import time; time.sleep(60)",
}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a machine's name says is what its measurement does."""
    put(tmp_path / "document.json", [number("latency.l1", 4.0)])
    good = f"print(open({str(tmp_path / 'document.json')!r}).read())"

    def command(request: dict[str, Any]) -> list[str]:
        return [sys.executable, "-S", "-c", SAYS[str(request["machine"]).rpartition(":")[2]] or good]

    monkeypatch.setattr(measure, "_command", command)
    monkeypatch.setattr(engine, "POLL_SECONDS", 0.1)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.fixture
def cluster(program: None) -> Iterator[Any]:
    """Three workers, with numbers for names."""
    options = {"processes": False, "dashboard_address": None, "protocol": "inproc://", "threads_per_worker": 1}
    with distributed.LocalCluster(n_workers=3, **options) as opened:
        yield opened


MANNER = engine.Manner(by_worker=True, limit_seconds=20)


def carried_out(
    cluster: Any, folder: Path, machine: str, manner: engine.Manner = MANNER, runs: int = 1
) -> tuple[engine.Tally, list[str]]:
    problems: list[str] = []
    plan = Plan(machine=machine, scenarios=("latency",), runs=runs)
    with engine.connected(cluster.scheduler_address) as client:
        listener = engine.Listener(problem=problems.append)
        return engine.carry_out(client, Folder.open(folder, plan), manner, listener), problems


def test_results_come_and_are_not_asked_again(cluster: Any, tmp_path: Path) -> None:
    tally, problems = carried_out(cluster, tmp_path / "out", "is:good", runs=2)
    assert (tally.kept, tally.failed, problems) == (6, 0, [])
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["0", "1", "2", "plan.json"]
    (tmp_path / "out/1/latency.run-2.json").unlink()
    tally, problems = carried_out(cluster, tmp_path / "out", "is:good", runs=2)
    assert (tally.kept, problems) == (1, [])
    assert compare([tmp_path / "out"]).runs == 6


@pytest.mark.parametrize(
    ("machine", "line"),
    [
        ("garbage", "the answer is no result"),
        ("other", "the answer is no result"),
        ("fails", "exit status 1: Error: no such register"),
        ("slow", "not done after 0.5 seconds"),
    ],
)
def test_each_failure_costs_its_node_a_line(cluster: Any, tmp_path: Path, machine: str, line: str) -> None:
    SAYS["0"] = SAYS[machine]
    SAYS["1"] = SAYS["2"] = ""
    manner = msgspec_like(MANNER, limit_seconds=0.5 if machine == "slow" else 20)
    tally, problems = carried_out(cluster, tmp_path / "out", "is:{node}", manner)
    assert (tally.kept, tally.failed) == (2, 1)
    (problem,) = problems
    assert problem.startswith("0: latency, run 1: ") and line in problem and "\n" not in problem


def msgspec_like(manner: engine.Manner, **changes: Any) -> engine.Manner:
    """The manner with other fields."""
    from dataclasses import replace

    return replace(manner, **changes)


# -- plans, and starting workers --------------------------------------------------------------------------------------


def test_a_worker_that_dies_costs_itself(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SAYS["0"] = SAYS["slow"]
    SAYS["1"] = SAYS["2"] = ""
    closed = []
    kept = Folder.keep

    def keep(folder: Folder, job: Job, answer: bytes) -> None:
        kept(folder, job, answer)
        if not closed:
            closed.append(cluster.workers[0].address)
            cluster.sync(cluster.scheduler.remove_worker, address=closed[0], stimulus_id="test")

    monkeypatch.setattr(Folder, "keep", keep)
    tally, problems = carried_out(cluster, tmp_path / "out", "is:{node}", msgspec_like(MANNER, limit_seconds=3))
    assert closed and (tally.kept, tally.failed) == (2, 1)
    assert problems == ["0: latency, run 1: its worker has gone"]


def test_a_folder_of_another_plan_is_refused(tmp_path: Path) -> None:
    Folder.open(tmp_path / "out", Plan(seed=1))
    Folder.open(tmp_path / "out", Plan(seed=1, runs=5))
    with pytest.raises(UsageError, match="begun with another seed: 1, not 2"):
        Folder.open(tmp_path / "out", Plan(seed=2))
    (tmp_path / "used").mkdir()
    (tmp_path / "used/file").write_text("x")
    with pytest.raises(UsageError, match="holds other files"):
        Folder.open(tmp_path / "used", Plan())


SLEEPER = """
import os, time


def here(cpu, seed):
    open(os.path.join(os.environ["TMPDIR"], "pid"), "w").write(str(os.getpid()))
    time.sleep(120)
"""


def test_a_worker_that_is_killed_takes_its_measurement_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real worker, with a measurement that would last two minutes."""
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    started: list[subprocess.Popen[bytes]] = []

    class Here:
        nodes = ("n1",)

        def start(self, node: str, command: Sequence[str]) -> None:
            started.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))

        def stop(self) -> None:
            started[0].wait(20)

    def kill_when_measuring() -> int:
        until = time.monotonic() + 60
        while time.monotonic() < until and not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text()):
            time.sleep(0.05)
        started[0].kill()
        return int((tmp_path / "pid").read_text())

    problems: list[str] = []
    manner = engine.Manner(expected=Here.nodes, wait_seconds=60)
    folder = Folder.open(tmp_path / "out", Plan(machine="sleeper:here", scenarios=("latency",)))
    with launch.cluster(Here(), "127.0.0.1", problems.append) as address, engine.connected(address) as client:
        with ThreadPoolExecutor(1) as thread:
            killing = thread.submit(kill_when_measuring)
            tally = engine.carry_out(client, folder, manner, engine.Listener(problem=problems.append))
        measured = killing.result()
    assert tally.failed == 1 and problems == ["n1: latency, run 1: its worker has gone"]
    until = time.monotonic() + 20
    while Path(f"/proc/{measured}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{measured}").exists()
