"""A Dask cluster for sites that have none: a scheduler here, and one worker on each node, by `srun` or `ssh`, which go
on as long as the worker does.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from setebench import files
from setebench.errors import SetebenchError, UsageError

LONELY_SECONDS = 120  # a worker that finds no scheduler for so long ends, so that none is left on a node
LEAVE_SECONDS = 10  # how long workers may take to close, which they do in a fraction of a second
USABLE = ("idle", "planned", "mixed", "allocated", "mix", "alloc", "completing", "comp")
"""States of Slurm's nodes; jobs wait for what is in use. Others are down."""

# A worker that waits takes no CPU time: no profiler, no look at its memory, a heartbeat twice a second.
_QUIET = ("WORKER__PROFILE__ENABLED=False", "ADMIN__TICK__INTERVAL=10s", "ADMIN__SYSTEM_MONITOR__INTERVAL=60s")

Started = Callable[[], str | None]
"""None while a node's worker may still come; then why it won't."""


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """Names of nodes, and the command here that runs a command on one of them."""

    names: tuple[str, ...]
    on: Callable[[str, Sequence[str]], list[str]]


def by_slurm(partition: str = "") -> Nodes:
    """The nodes of a partition, or of Slurm's default one, that are not down; each has a job for itself."""
    for program in ("sinfo", "srun"):
        if shutil.which(program) is None:
            raise UsageError(f"--slurm needs Slurm's commands, and there is no {program} here")
    chosen = ["--partition", partition] if partition else []
    listed = subprocess.run(
        ["sinfo", "--noheader", "--Node", "--format=%N %T %P", *chosen], capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        raise SetebenchError(f"sinfo: {' '.join(listed.stderr.split())}")
    fields = [line.split() for line in listed.stdout.splitlines() if len(line.split()) == 3]
    # without --partition sinfo lists all of them, though jobs go to the default one, which it marks with a star
    states = {node: state for node, state, name in fields if partition or name.endswith("*")}
    usable = [node for node, state in states.items() if state.lower().rstrip("*~#!%$@^-+") in USABLE]

    def on(node: str, command: Sequence[str]) -> list[str]:
        # --exclusive gives all CPUs, but no more memory than the site's default for a job; 0 is all of it
        options = [f"--nodelist={node}", "--nodes=1", "--ntasks=1", "--exclusive", "--mem=0", "--cpu-bind=none"]
        return ["srun", *options, f"--job-name=setebench-{node}", *chosen, *command]

    return Nodes(names=tuple(usable), on=on)


def by_ssh(path: Path) -> Nodes:
    """Hosts of a file, one a line, what follows a # left out; keys must be set up, nothing is asked."""
    if shutil.which("ssh") is None:
        raise UsageError("--hosts needs ssh, and there is none here")
    try:
        lines = files.read_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"can't read {str(path)!r}: {error}") from error
    hosts = [host for line in lines if (host := line.partition("#")[0].strip())]
    for host in hosts:
        if host.startswith("-") or any(each.isspace() for each in host):
            raise UsageError(f"{str(path)!r}: {host!r} is no name of a host")

    def on(node: str, command: Sequence[str]) -> list[str]:
        # with the terminal that it asks for, the end of ssh is that of the worker too
        return ["ssh", "-tt", "-o", "BatchMode=yes", "--", node, f"exec {shlex.join(command)}"]

    return Nodes(names=tuple(dict.fromkeys(hosts)), on=on)


@contextmanager
def cluster(nodes: Nodes, host: str | None) -> Iterator[tuple[str, dict[str, Started]]]:
    """The address of a scheduler in this process, and the nodes on which workers were started, by their names.

    `host` is the name or address of this computer that nodes can reach. Raises `UsageError` where Dask is not
    installed."""
    with ExitStack() as stack:
        processes: list[subprocess.Popen[bytes]] = []
        started: dict[str, Started] = {}
        stack.callback(_end, processes)  # behind the end of the scheduler, which asks its workers to close
        address = stack.enter_context(_scheduler(host))
        for node in nodes.names:
            said = tempfile.TemporaryFile()  # noqa: SIM115
            process = subprocess.Popen(
                nodes.on(node, worker_command(address, node)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )
            processes.append(process)
            started[node] = partial(_ended, process, said)
        yield address, started


def _ended(process: subprocess.Popen[bytes], said: Any) -> str | None:
    if process.poll() is None:
        return None
    said.seek(0)
    lines = said.read().decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), f"exit status {process.returncode}")
    return f"its worker has ended: {last}"


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    until = time.monotonic() + LEAVE_SECONDS
    for end in (subprocess.Popen.terminate, subprocess.Popen.kill):
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(until - time.monotonic(), 0))
        until = time.monotonic() + LEAVE_SECONDS
        for process in processes:
            end(process)
    for process in processes:
        process.wait()


def worker_command(address: str, node: str) -> list[str]:
    """What a node runs: a worker with one thread, no process that watches it, no web page."""
    settings = ["env", *(f"DASK_DISTRIBUTED__{each}" for each in _QUIET)]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--name", node, "--nthreads", "1"]
    worker += ["--no-nanny", "--no-dashboard", "--memory-limit", "0", "--death-timeout", str(LONELY_SECONDS)]
    return [*settings, *worker]


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
    options: dict[str, Any] = {"host": host or os.uname().nodename, "dashboard_address": None}
    if security.require_encryption:
        options |= {"protocol": "tls://", "security": security}
    try:
        opened = begin(n_workers=0, processes=True, silence_logs=40, **options)
    except (OSError, RuntimeError, ValueError) as error:
        raise SetebenchError(f"no Dask scheduler can be started on {options['host']!r}: {error}") from error
    with opened:
        yield str(opened.scheduler_address)
