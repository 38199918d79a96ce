"""A Dask cluster of our own, for sites that have none: a scheduler here, and one worker on each node, started through
Slurm or SSH. Each node is asked by its name, since any identical job could land on any node.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from setebench import files
from setebench.errors import SetebenchError, UsageError

PROBLEM_SECONDS = 30.0
"""How long a command of Slurm may take."""

LONELY_SECONDS = 120
"""A worker that finds no scheduler for so long ends, so that none is left on a node."""

USABLE = ("idle", "planned", "mixed", "allocated", "mix", "alloc", "completing", "comp")
"""States of Slurm's nodes, those to be asked first in front; jobs wait for what is in use, or kept free for a job of
higher priority (planned). Others are down."""

LEAVE_SECONDS = 5.0
"""How long workers may take to close, which they do in a fraction of a second, before their jobs are cancelled."""


class Starter(Protocol):
    """A way to start workers: the nodes, and how each gets its worker. `stop` ends all that it started."""

    nodes: tuple[str, ...]

    def start(self, node: str, command: Sequence[str]) -> None:
        """Start that node's worker. Raises `SetebenchError` where it can't be."""

    def stop(self) -> None:
        """End all workers that were started."""


class Slurm:
    """A job for each node of a partition, or of Slurm's default one, which has the node for itself."""

    def __init__(self, partition: str = "") -> None:
        self._partition = ["--partition", partition] if partition else []
        for program in ("sinfo", "sbatch", "scancel"):
            if shutil.which(program) is None:
                raise UsageError(f"--slurm needs Slurm's commands, and there is no {program} here")
        self._jobs: list[str] = []
        self.nodes = tuple(self._listed())

    def _listed(self) -> Iterator[str]:
        """Nodes that are not down, idle ones first."""
        text = _output(["sinfo", "--noheader", "--Node", "--format=%N %T %P", *self._partition])
        fields = [line.split() for line in text.splitlines() if len(line.split()) == 3]
        # without --partition sinfo lists all of them, though jobs go to the default one, which it marks with a star
        states = {node: state for node, state, name in fields if self._partition or name.endswith("*")}
        usable = {node: _plain(state) for node, state in states.items() if _plain(state) in USABLE}
        return iter(sorted(usable, key=lambda node: USABLE.index(usable[node])))

    def start(self, node: str, command: Sequence[str]) -> None:
        """Submit the job of that node."""
        options = ["--parsable", f"--nodelist={node}", "--nodes=1", "--ntasks=1", "--exclusive", "--no-requeue"]
        # --exclusive gives all CPUs, but no more memory than the site's default for a job; 0 is all of it
        options += ["--mem=0", f"--job-name=setebench-{node}", "--output=/dev/null", *self._partition]
        text = _output(["sbatch", *options, f"--wrap=exec {shlex.join(command)}"])
        self._jobs.append(text.strip().partition(";")[0])

    def stop(self) -> None:
        """End all jobs. Workers are asked to close while their scheduler is there: one that loses it while it closes
        may hang, and its node is then held until Slurm kills it (KillWait, 30 s or more). A second signal, that of
        the cancelled job, ends it at once."""
        if self._jobs:
            with suppress(SetebenchError):
                _output(["scancel", "--batch", "--signal=TERM", "--state=RUNNING", *self._jobs])
                self._await_end()
            with suppress(SetebenchError):
                _output(["scancel", *self._jobs])

    def _await_end(self) -> None:
        """Until none of the jobs runs, or for as long as they may take."""
        until = time.monotonic() + LEAVE_SECONDS
        running = ["squeue", "--noheader", "--states=RUNNING", f"--jobs={','.join(self._jobs)}"]
        while time.monotonic() < until and _output(running).strip():
            time.sleep(0.2)


def _plain(state: str) -> str:
    """A state without the marks that Slurm appends: idle~, mixed*."""
    return state.lower().rstrip("*~#!%$@^-+")


class Ssh:
    """A worker by SSH on every host of a list; keys must be set up, nothing is asked."""

    def __init__(self, hosts: Sequence[str]) -> None:
        if shutil.which("ssh") is None:
            raise UsageError("--hosts needs ssh, and there is none here")
        self.nodes = tuple(dict.fromkeys(hosts))
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, node: str, command: Sequence[str]) -> None:
        """Start ssh, which goes on as long as the worker does: with the terminal that it asks for, its end is that of
        the worker too."""
        whole = ["ssh", "-tt", "-o", "BatchMode=yes", "--", node, f"exec {shlex.join(command)}"]
        quiet = subprocess.DEVNULL
        self._started.append(subprocess.Popen(whole, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True))

    def stop(self) -> None:
        """End all of them."""
        for process in self._started:
            process.terminate()
        for process in self._started:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def hosts_in(path: Path) -> list[str]:
    """Names of hosts, one a line; what follows a # is left out. Raises `UsageError`."""
    try:
        lines = files.read_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"can't read {str(path)!r}: {error}") from error
    hosts = [host for line in lines if (host := line.partition("#")[0].strip())]
    for host in hosts:
        if host.startswith("-") or any(each.isspace() for each in host):
            raise UsageError(f"{str(path)!r}: {host!r} is no name of a host")
    if not hosts:
        raise UsageError(f"{str(path)!r} names no host")
    return hosts


@contextmanager
def cluster(starter: Starter, host: str | None, problem: Callable[[str], None]) -> Iterator[str]:
    """The address of a scheduler in this process whose workers are started on all nodes of `starter`, by their names.

    `host` is the name or address of this computer that nodes can reach. A node whose worker can't be started costs a
    line. Raises `UsageError` where Dask is not installed."""
    with _scheduler(host) as address:
        try:
            for node in starter.nodes:
                try:
                    starter.start(node, worker_command(address, node))
                except SetebenchError as error:
                    problem(f"{node}: no worker could be started: {error}")
            yield address
        finally:
            starter.stop()


def worker_command(address: str, node: str) -> list[str]:
    """What a node runs: a worker with one thread, no process that watches it, no web page, no profiler."""
    settings = ["env", "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED=False"]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--name", node, "--nthreads", "1"]
    return [*settings, *worker, "--no-nanny", "--no-dashboard", "--death-timeout", str(LONELY_SECONDS)]


@contextmanager
def _scheduler(host: str | None) -> Iterator[str]:
    """With TLS where Dask's own configuration asks for it (distributed.comm.require-encryption)."""
    try:
        from distributed import LocalCluster, Security
    except ImportError as error:
        raise UsageError("measuring a fleet needs Dask: pip install 'setebench[cluster]'") from error
    begin: Any = LocalCluster
    secured: Any = Security
    security = secured()
    options: Mapping[str, Any] = {"host": host or os.uname().nodename, "dashboard_address": None}
    if security.require_encryption:
        options = {**options, "protocol": "tls://", "security": security}
    try:
        opened = begin(n_workers=0, processes=True, silence_logs=40, **options)
    except (OSError, RuntimeError, ValueError) as error:
        raise SetebenchError(f"no Dask scheduler can be started on {options['host']!r}: {error}") from error
    with opened:
        yield str(opened.scheduler_address)


def _output(command: list[str]) -> str:
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PROBLEM_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetebenchError(f"{command[0]}: {error}") from error
    if ended.returncode != 0:
        raise SetebenchError(f"{command[0]}: {' '.join(ended.stderr.split()) or f'exit status {ended.returncode}'}")
    return ended.stdout
