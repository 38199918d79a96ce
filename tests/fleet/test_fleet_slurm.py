"""Many nodes through a real Slurm: a controller and four nodes on this computer, on ports of their own."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner
from fleets import tiny

from setebench.cli.fleet import fleet
from setebench.fleet.comparison import Fleet, compare
from setebench.sim.compiled import prepare
from setebench.sim.files.dump import dump

pytestmark = pytest.mark.long(30)

PROGRAMS = ("slurmctld", "slurmd", "sinfo", "sbatch", "scancel", "squeue", "salloc", "srun")

NODES = ("n1", "n2", "n3", "n4")

ODD = "n3"

START_SECONDS = 30.0
"""How long nodes may take to become idle; they do within two seconds on a computer at rest."""

CPUS = 4
"""What nodes are said to have, whatever this computer has (config_overrides)."""

CONFIGURATION = """
ClusterName=setebench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
AuthType=auth/none
CredType=cred/none
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
DefMemPerCPU=100
TaskProlog={folder}/prolog.sh
{nodes}
PartitionName=spare Nodes=n4
PartitionName=all Nodes=n[1-4] Default=YES
PartitionName=some Nodes=n[1-2]
"""

NODE = "NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} RealMemory=1000"

PROLOG = """#!/bin/sh
# each node has its own folder for temporary files, as computers have
mkdir -p "{folder}/tmp/$SLURMD_NODENAME" && echo "export TMPDIR={folder}/tmp/$SLURMD_NODENAME"
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a machine for each node; Slurm's commands ask its own controller meanwhile."""
    # Debian has its daemons where only root looks for programs
    found = {name: shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") for name in PROGRAMS}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        pytest.skip(f"Slurm is not installed: there is no {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("slurm")
    _write_configuration(folder)
    for node in NODES:
        (folder / f"{node}.toml").write_text(dump(tiny(375.0 if node == ODD else 250.0)))
    daemons = [[str(found["slurmctld"]), "-D"], *([str(found["slurmd"]), "-D", "-N", node] for node in NODES)]
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        started = [_started(command, folder, stack) for command in daemons]
        _await_nodes(started, folder)
        prepare()  # else each node would compile the simulator
        yield folder


def _write_configuration(folder: Path) -> None:
    host, ports = socket.gethostname().partition(".")[0], _free_ports(1 + len(NODES))
    nodes = [
        NODE.format(node=node, host=host, port=port, cpus=CPUS) for node, port in zip(NODES, ports[1:], strict=True)
    ]
    user = pwd.getpwuid(os.getuid()).pw_name
    text = CONFIGURATION.format(folder=folder, host=host, user=user, controller=ports[0], nodes="\n".join(nodes))
    (folder / "slurm.conf").write_text(text)
    (folder / "prolog.sh").write_text(PROLOG.format(folder=folder))
    (folder / "prolog.sh").chmod(0o755)
    for name in ("state", *NODES):
        (folder / name).mkdir()


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _started(command: Sequence[str], folder: Path, stack: ExitStack) -> subprocess.Popen[bytes]:
    """A daemon that ends with `stack`."""
    with (folder / "daemons.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def end() -> None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    stack.callback(end)
    return process


def _await_nodes(started: Sequence[subprocess.Popen[bytes]], folder: Path) -> None:
    """Skips where this user can't have a Slurm: a daemon ends at once, or its nodes never come."""
    until = time.monotonic() + START_SECONDS
    while all(process.poll() is None for process in started) and time.monotonic() < until:
        if _states() == {(node, "idle") for node in NODES}:
            return
        time.sleep(0.2)
    fatal = [line for path in sorted(folder.glob("*.log")) for line in path.read_text().splitlines() if "fatal" in line]
    pytest.skip(f"Slurm can't be started by this user: {fatal[0] if fatal else f'nodes are {sorted(_states())}'}")


def _states() -> set[tuple[str, str]]:
    listed = subprocess.run(["sinfo", "-hN", "-o", "%N %T"], capture_output=True, text=True, timeout=60, check=False)
    return {(node, state) for node, _, state in (line.partition(" ") for line in listed.stdout.split("\n")) if node}


def _alone_is_named(found: Fleet) -> None:
    """That node, and nothing but the latency that was made larger."""
    assert found.nodes == list(NODES)
    assert {mark.node for mark in found.alarms} == {ODD}
    assert "latency.memory" in {mark.parameter for mark in found.alarms}
    assert all(mark.parameter.startswith("latency.memory") for mark in found.marks)


def test_the_degraded_one_of_four_nodes_is_named(slurm: Path) -> None:
    command = ["run", "--slurm", "-o", str(slurm / "out"), "--scenario", "latency", "--fast"]
    command += ["--machine", f"sim:{slurm}/{{node}}.toml"]
    result = CliRunner().invoke(fleet, command, catch_exceptions=False)
    assert result.exit_code == 0 and "4 answers of 4 nodes" in result.stderr
    _alone_is_named(compare([slurm / "out"]))
    left = subprocess.run(["squeue", "-h", "-o", "%j %T"], capture_output=True, text=True, check=True)
    assert "RUNNING" not in left.stdout and "PENDING" not in left.stdout
