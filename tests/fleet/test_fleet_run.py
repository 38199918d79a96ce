"""`fleet run`: workers with a machine each, and what dead, slow and lying nodes cost."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fleets import tiny

from setebench.cli.fleet import fleet
from setebench.errors import SetebenchError
from setebench.fleet.comparison import compare
from setebench.sim.compiled import prepare
from setebench.sim.files.dump import dump

distributed = pytest.importorskip("distributed", reason="setebench[cluster] is not installed")
pytestmark = pytest.mark.long(20)


# -- workers by ssh ---------------------------------------------------------------------------------------------------


FAKE_SSH = """#!/bin/sh
# in place of ssh: the last argument is the command, the one before it the host, each with a folder of its own
for last; do host=$command; command=$last; done
mkdir -p "{folder}/$host"
TMPDIR="{folder}/$host" exec sh -c "$command"
"""


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where hosts n1 to n4 are named in hosts.txt."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ssh").write_text(FAKE_SSH.format(folder=tmp_path / "hosts"))
    (programs / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "hosts.txt").write_text("n1\nn2  # a comment\nn3\nn4\n")
    return tmp_path


def test_the_degraded_one_of_four_nodes_is_named(ssh: Path) -> None:
    prepare()  # else each node would compile the simulator
    tmp_path = ssh
    for name in ("n1", "n2", "n3", "n4"):
        (tmp_path / f"{name}.toml").write_text(dump(tiny(375.0 if name == "n3" else 250.0)))
    command = ["run", "--hosts", str(tmp_path / "hosts.txt"), "-o", str(tmp_path / "out"), "--scenario", "latency"]
    command += ["--machine", f"sim:{tmp_path}/{{node}}.toml", "--fast"]
    result = CliRunner().invoke(fleet, command, catch_exceptions=False)
    assert result.exit_code == 0 and "4 answers of 4 nodes" in result.stderr
    found = compare([tmp_path / "out"])
    assert found.nodes == ["n1", "n2", "n3", "n4"]
    assert {mark.node for mark in found.alarms} == {"n3"}
    assert "latency.memory" in {mark.parameter for mark in found.alarms}
    assert all(mark.parameter.startswith("latency.memory") for mark in found.marks)
    document = json.loads((tmp_path / "out/n3/latency.run-1.json").read_text())
    assert document["settings"]["node"] == "n3" and document["settings"]["seed"] == 1


FAKE_SRUN = """#!/bin/sh
# in place of srun: its options have one dash or two, and the command follows them
while case "$1" in -*) true ;; *) false ;; esac; do case "$1" in --partition) shift ;; esac; shift; done
exec "$@"
"""
FAKE_SINFO = "#!/bin/sh\nprintf 'n1 idle all*\\nn2 down all*\\nn3 mixed all*\\nn4 idle spare\\n'\n"


def test_slurm_runs_a_job_on_each_node_of_the_default_partition_that_is_up(ssh: Path) -> None:
    prepare()
    for name, text in (("srun", FAKE_SRUN), ("sinfo", FAKE_SINFO)):
        (ssh / "bin" / name).write_text(text)
        (ssh / "bin" / name).chmod(0o755)
    (ssh / "tiny.toml").write_text(dump(tiny(250.0)))
    result = run(ssh, "--slurm", "--machine", f"sim:{ssh}/tiny.toml")
    assert result.exit_code == 0 and "2 answers of 2 nodes" in result.stderr, result.output
    assert sorted(path.name for path in (ssh / "out").iterdir()) == ["n1", "n3", "plan.json"]


def test_a_host_that_refuses_costs_a_line_at_once(ssh: Path) -> None:
    (ssh / "bin/ssh").write_text("#!/bin/sh\necho 'Permission denied (publickey).' >&2; exit 255\n")
    result = run(ssh, "--hosts", str(ssh / "hosts.txt"))
    assert isinstance(result.exception, SetebenchError) and "4 answers are missing" in str(result.exception)
    assert result.stderr.count("latency, run 1: exit status 255: Permission denied (publickey).") == 4


# -- a cluster that is there ------------------------------------------------------------------------------------------

MACHINES = """
import os, sys, time

from setebench.errors import SetebenchError
from setebench.machine import open_machine


def good(cpu, seed):
    return open_machine(os.environ["TINY"], cpu=cpu, seed=seed)


def garbage(cpu, seed):
    os.write(1, b"[1, 2")
    os._exit(0)


def fails(cpu, seed):
    raise SetebenchError("no such register")


def slow(cpu, seed):
    open(os.path.join(os.environ["TMPDIR"], "pid"), "w").write(str(os.getpid()))
    time.sleep(120)


node_1 = node_2 = good
node_0 = globals()[os.environ["FIRST"]]
"""


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Measurements find the machines above; FIRST is that of node 0."""
    prepare()
    (tmp_path / "machines.py").write_text(MACHINES)
    (tmp_path / "tiny.toml").write_text(dump(tiny(250.0)))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("TINY", f"sim:{tmp_path / 'tiny.toml'}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("FIRST", "good")
    return monkeypatch


@pytest.fixture
def cluster(machines: pytest.MonkeyPatch) -> Iterator[Any]:
    """Three workers, with numbers for names."""
    options = {"processes": False, "dashboard_address": None, "protocol": "tcp://", "threads_per_worker": 1}
    with distributed.LocalCluster(n_workers=3, **options) as opened:
        yield opened


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(fleet, ["run", "-o", str(folder / "out"), "--scenario", "latency", "--fast", *arguments])


def on(cluster: Any, folder: Path, *arguments: str) -> Result:
    place = ("--on", cluster.scheduler_address, "--workers-are-nodes", "--machine", "machines:node_{node}")
    return run(folder, *place, *arguments)


def test_results_come_and_are_not_asked_again(cluster: Any, tmp_path: Path) -> None:
    result = on(cluster, tmp_path, "--runs", "2", "--at-once", "2")
    assert result.exit_code == 0 and "6 answers of 3 nodes" in result.stderr, result.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["0", "1", "2", "plan.json"]
    (tmp_path / "out/1/latency.run-2.json").unlink()
    assert "1 answers of 3 nodes" in on(cluster, tmp_path, "--runs", "2").stderr
    assert compare([tmp_path / "out"]).runs == 6
    refused = on(cluster, tmp_path, "--seed", "2")
    assert refused.exit_code and "begun with another seed: 1, not 2" in str(refused.exception)


@pytest.mark.parametrize(("machine", "line"), [("garbage", "the answer is no result"), ("fails", "no such register")])
def test_each_failure_costs_its_node_a_line(
    cluster: Any, machines: pytest.MonkeyPatch, tmp_path: Path, machine: str, line: str
) -> None:
    machines.setenv("FIRST", machine)
    result = on(cluster, tmp_path)
    assert "2 answers of 3 nodes" in result.stderr and "1 answers are missing" in str(result.exception)
    (problem,) = [each for each in result.stderr.splitlines() if each.startswith("0: ") and each.count(":") > 1]
    assert problem.startswith("0: latency, run 1: ") and line in problem


def test_a_worker_that_is_killed_costs_itself_and_ends_its_measurement(
    machines: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Real workers, one of which has a measurement that would last two minutes."""
    machines.setenv("FIRST", "slow")
    with distributed.LocalCluster(n_workers=2, processes=True, dashboard_address=None) as opened:

        def kill_when_measuring() -> int:
            until = time.monotonic() + 60
            while time.monotonic() < until and not (tmp_path / "pid").exists():
                time.sleep(0.05)
            time.sleep(0.2)
            os.kill(opened.workers[0].pid, signal.SIGKILL)
            return int((tmp_path / "pid").read_text())

        with ThreadPoolExecutor(1) as thread:
            killing = thread.submit(kill_when_measuring)
            result = on(opened, tmp_path)
        measured = killing.result()
    assert "1 answers of" in result.stderr and "0: latency, run 1: its worker has gone" in result.stderr
    until = time.monotonic() + 20
    while Path(f"/proc/{measured}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{measured}").exists()


def test_no_scheduler_is_one_line(tmp_path: Path) -> None:
    result = run(tmp_path, "--on", "tcp://127.0.0.1:9")
    assert "no Dask scheduler can be reached" in str(result.exception)
