"""Measuring many nodes: a thread for each has it measure one thing after the other, in a process of its own.

Slurm's `srun`, ssh or a worker of a Dask cluster begins that process. A node that is slow, dead or answers nonsense
costs itself.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from setebench import files
from setebench.errors import SetebenchError, UsageError
from setebench.fleet.reading import SAFE, Folder, Job

LOOK_SECONDS = 1.0  # time between two looks whether a Dask worker is still there
END_SECONDS = 10.0  # how long a process may take to end
USABLE = ("idle", "planned", "mixed", "allocated", "mix", "alloc", "completing", "comp")
"""States of Slurm's nodes; jobs wait for what is in use. Others are down."""

_PR_SET_PDEATHSIG = 1
Perform = Callable[[str, Sequence[str], float], bytes]


class NoAnswerError(Exception):
    """Why a node returned nothing."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Names of nodes, and what runs a command on one of them within so many seconds and returns its output. Raises
    `NoAnswerError`."""

    nodes: tuple[str, ...]
    perform: Perform


@dataclass(kw_only=True)
class Run:
    """One run over all nodes, at most `at_once` at a time, each scenario for at most `limit_seconds`. `progress`
    is called with what is done next, `problem` with what went wrong."""

    place: Place
    folder: Folder
    progress: Callable[[str], None]
    problem: Callable[[str], None]
    limit_seconds: float = 86400.0
    at_once: int = 1
    stop: threading.Event = field(default_factory=threading.Event)

    def carry_out(self) -> list[bool]:
        """Have every node measure what it has not answered yet; whether it did, for each answer."""
        with ThreadPoolExecutor(self.at_once) as pool:
            try:
                futures = [pool.submit(self._serve, node) for node in self.place.nodes]
                return [kept for future in as_completed(futures) for kept in future.result()]
            except BaseException:
                self.stop.set()
                for process in list(_running):
                    _end(process)
                raise

    def _serve(self, node: str) -> list[bool]:
        left = [job for job in self.folder.jobs(node) if not self.folder.file(job).exists()]
        return [self._measure(job) for job in left if not self.stop.is_set()]

    def _measure(self, job: Job) -> bool:
        self.progress(str(job))
        try:
            command = [sys.executable, "-m", "setebench", *self.folder.arguments(job)]
            answer = self.place.perform(job.node, command, self.limit_seconds)
            self.folder.keep(job, answer[max(answer.find(b"{"), 0) :])  # a terminal's lines may come before
        except (NoAnswerError, UsageError) as error:
            self.problem(f"{job}: {error}")
            return False
        self.progress(f"{job}: done")
        return True


# -- processes --------------------------------------------------------------------------------------------------------

_running: set[subprocess.Popen[bytes]] = set()


def perform(command: Sequence[str], seconds: float) -> bytes:
    """The output of a command here, which has a session of its own, so that all that it starts ends with it. Raises
    `NoAnswerError`."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # else a node whose worker has died goes on measuring for nobody
    die = partial(ctypes.CDLL(None).prctl, _PR_SET_PDEATHSIG, signal.SIGKILL)
    with subprocess.Popen(command, start_new_session=True, preexec_fn=die, **pipes) as process:  # type: ignore[call-overload]
        _running.add(process)
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as error:
            raise NoAnswerError(f"not done after {seconds:g} seconds{_last_line(error.stderr)}") from error
        finally:
            _end(process)
            _running.discard(process)
    if process.returncode != 0:
        raise NoAnswerError(f"exit status {process.returncode}{_last_line(errors or output)}")
    return bytes(output)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, number)
                process.wait(END_SECONDS)


def _last_line(text: bytes | None) -> str:
    lines = (text or b"").decode(errors="replace").strip().splitlines()
    return f": {lines[-1]}" if lines else ""


# -- places -----------------------------------------------------------------------------------------------------------


def by_slurm(partition: str) -> Place:
    """The nodes of a partition, or of Slurm's default one, that are not down; each measurement is a job that has its
    node alone, and waits for it for as long as it may take."""
    for program in ("sinfo", "srun"):
        if shutil.which(program) is None:
            raise UsageError(f"--slurm needs Slurm's commands, and there is no {program} here")
    chosen = ["--partition", partition] if partition else []
    command = ["sinfo", "--noheader", "--Node", "--format=%N %T %P", *chosen]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        raise SetebenchError(f"sinfo: {' '.join(listed.stderr.split())}")
    fields = [line.split() for line in listed.stdout.splitlines() if len(line.split()) == 3]
    # without --partition sinfo lists all of them, though jobs go to the default one, which it marks with a star
    states = {node: state for node, state, name in fields if partition or name.endswith("*")}
    usable = tuple(node for node, state in states.items() if state.lower().rstrip("*~#!%$@^-+") in USABLE)
    # --exclusive gives all CPUs, but no more memory than the site's default for a job; 0 is all of it
    options = ["--nodes=1", "--ntasks=1", "--exclusive", "--mem=0", "--cpu-bind=none", *chosen]

    def run(node: str, command: Sequence[str], seconds: float) -> bytes:
        own = [f"--immediate={max(1, round(seconds))}", f"--nodelist={node}", f"--job-name=setebench-{node}"]
        return perform(["srun", *options, *own, *command], 2 * seconds)

    return Place(nodes=usable, perform=run)


def by_ssh(path: Path) -> Place:
    """Hosts of a file, one a line, what follows a # left out; keys must be set up, ssh asks for nothing."""
    if shutil.which("ssh") is None:
        raise UsageError("--hosts needs ssh, and there is none here")
    try:
        lines = files.read_bytes(path).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"can't read {str(path)!r}: {error}") from error
    hosts = [host for line in lines if (host := line.partition("#")[0].strip())]
    for host in hosts:
        if not SAFE.fullmatch(host):
            raise UsageError(f"{str(path)!r}: {host!r} is no name of a host")

    def run(node: str, command: Sequence[str], seconds: float) -> bytes:
        # with the terminal that it asks for, the end of ssh is that of the command too
        ssh = ["ssh", "-tt", "-o", "BatchMode=yes", "--", node, f"exec {shlex.join(command)}"]
        return perform(ssh, seconds)

    return Place(nodes=tuple(dict.fromkeys(hosts)), perform=run)


@contextmanager
def by_dask(address: str, by_worker: bool, problem: Callable[[str], None]) -> Iterator[Place]:
    """The hosts of the workers of a Dask cluster, one worker of each; `by_worker`: each worker is a node, by its name.

    Raises what `connected` raises, and `SetebenchError` where there is no worker."""
    with connected(address) as client:
        names = {worker: str(each["name"]) for worker, each in _workers(client).items()}
        hosts = {} if by_worker else client.run(socket.gethostname)
        nodes: dict[str, str] = {}
        for worker, name in names.items():
            node = name if by_worker else str(hosts.get(worker))
            if not SAFE.fullmatch(node):
                problem(f"a worker at {worker} calls its node {node!r}, which can't be a file's name")
            else:
                nodes.setdefault(node, worker)
        if not nodes:
            raise SetebenchError("the cluster has no workers that could measure")
        yield Place(nodes=tuple(nodes), perform=lambda node, *rest: _by_worker(client, nodes[node], *rest))


def _workers(client: Any) -> dict[str, Any]:
    try:
        found = client.sync(partial(client.scheduler.identity, n_workers=-1))
    except (OSError, AttributeError) as error:  # a client that has lost its scheduler has none
        raise NoAnswerError("the Dask scheduler is gone") from error
    return dict(found["workers"])


def _by_worker(client: Any, worker: str, command: Sequence[str], seconds: float) -> bytes:
    """What that worker returns, and no other: a node is a question of its own."""
    there = {"workers": [worker], "allow_other_workers": False, "pure": False, "retries": 0}
    future = client.submit(_on_worker, list(command[1:]), seconds, **there)
    until = time.monotonic() + seconds + 60
    try:
        while not future.done():
            if worker not in _workers(client):
                raise NoAnswerError("its worker has gone")
            if time.monotonic() > until:
                raise NoAnswerError("it doesn't answer any more")
            with suppress(TimeoutError):
                future.result(LOOK_SECONDS)
        if future.status == "error":
            raise NoAnswerError(" ".join(str(future.exception()).split()))
        return bytes(future.result())
    finally:
        future.release()


def _on_worker(arguments: list[str], seconds: float) -> bytes:
    """In the worker's process, which only waits meanwhile."""
    return perform([sys.executable, *arguments], seconds)


# -- the one way to a Dask cluster, for what can run on one -----------------------------------------------------------


CONNECT_SECONDS = 10.0  # how long a scheduler may take to answer; one that is there does in milliseconds


def connected(address: str) -> Any:
    """A client of the cluster whose scheduler has that address, to be closed by the caller.

    Raises `UsageError` where Dask is not installed, `SetebenchError` where there is no scheduler."""
    try:
        from distributed import Client
    except ImportError as error:
        raise UsageError("--on needs Dask: pip install 'setebench[cluster]'") from error
    begin: Any = Client  # whose types depend on whether the extra is installed
    try:
        return begin(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        why = " ".join(str(error).split())
        raise SetebenchError(f"no Dask scheduler can be reached at {address!r}: {why}") from error
