"""What runs on a node: one scenario in a process of its own, while the worker beside it only waits.

Requests and replies are plain dictionaries. Nothing is left on the node's disk; one measurement runs at a time there,
whoever asked for it.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from setebench import store

_LONGEST_REASON = 400

_ENDED_WITH_PARENT = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"
"""A program that runs another in its place, which the kernel kills when its parent ends (PR_SET_PDEATHSIG, 1): a node
whose worker has died goes on measuring for nobody otherwise."""


def describe() -> dict[str, Any]:
    """The node's name, how busy it is (load of the last minute per CPU), and its version of this package."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return {"host": socket.gethostname(), "load": load, "version": store.this_tool().version}


def measure(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run what is asked; `answer` is a result as JSON, or `error` why there is none. `seconds` passed meanwhile, and
    the worker took `engine_cpu_seconds` of CPU time beside the measurement."""
    begin, own = time.monotonic(), time.process_time()
    try:
        with _alone(str(request.get("slot", ""))) as lock, _quiet_worker():
            reply = _run(_command(request), float(request["limit_seconds"]), lock)
    except BlockingIOError:
        reply = {"error": "another measurement is running on this node; it is asked again when the run is resumed"}
    except OSError as error:
        reply = {"error": f"{error.strerror or error}"}
    return {**reply, "seconds": time.monotonic() - begin, "engine_cpu_seconds": time.process_time() - own}


def _command(request: Mapping[str, Any]) -> list[str]:
    command = [sys.executable, "-m", "setebench", str(request["scenario"]), "--format", "json", "--quiet"]
    command += ["--machine", str(request["machine"]), "--seed", str(request["seed"])]
    return [*command, "--fast"] if request["fast"] else command


def _run(command: list[str], limit: float, lock: int) -> dict[str, Any]:
    """In a session of its own, so that all that it starts can be ended with it; and it ends with the worker. It holds
    the lock too, until it has."""
    with subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", _ENDED_WITH_PARENT, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=(lock,),
    ) as process:
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            _end(process)
            return {"error": f"not done after {limit:g} seconds"}
        except BaseException:
            _end(process)
            raise
    if process.returncode != 0:
        lines = errors.decode(errors="replace").strip().splitlines()
        last = lines[-1] if lines else "no message"
        return {"error": f"exit status {process.returncode}: {last[-_LONGEST_REASON:]}"}
    return {"answer": output}


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def _alone(slot: str) -> Iterator[int]:
    """Holds the node's lock: its file descriptor. Raises BlockingIOError where another run measures there. `slot` says
    nodes of one computer apart, where workers are taken for nodes."""
    path = os.path.join(tempfile.gettempdir(), f"setebench-fleet-{os.getuid()}{slot and '-' + slot}.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor
    finally:
        os.close(descriptor)


KEPT = ("heartbeat", "keep-alive")
"""What a worker must go on doing, or the scheduler takes it for dead: about twice a second, a message."""


@contextmanager
def _quiet_worker() -> Iterator[None]:
    """Stops what else the worker does again and again, while something is measured: it samples its stack, reads its
    memory, and wakes fifty times a second to see whether it still does."""
    stopped = []
    with suppress(ImportError, ValueError):  # ValueError: not within a Dask worker
        from distributed import get_worker

        worker: Any = get_worker()
        callbacks = [each for name, each in worker.periodic_callbacks.items() if name not in KEPT]
        stopped = [(worker.loop, each) for each in callbacks if each.is_running()]
    for loop, callback in stopped:
        loop.add_callback(callback.stop)
    try:
        yield
    finally:
        for loop, callback in stopped:
            loop.add_callback(callback.start)
