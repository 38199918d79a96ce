"""What runs on a node: one scenario in a process of its own, while the worker beside it only waits.

Requests and replies are plain dictionaries. Nothing is left on the node's disk. The process waits where another one
measures, as every measurement does.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
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
        with _quiet_worker():
            reply = _run(_command(request), float(request["limit_seconds"]))
    except OSError as error:
        reply = {"error": f"{error.strerror or error}"}
    return {**reply, "seconds": time.monotonic() - begin, "engine_cpu_seconds": time.process_time() - own}


def _command(request: Mapping[str, Any]) -> list[str]:
    command = [sys.executable, "-m", "setebench", str(request["scenario"]), "--format", "json", "--quiet"]
    command += ["--machine", str(request["machine"]), "--seed", str(request["seed"])]
    return [*command, "--fast"] if request["fast"] else command


def _run(command: list[str], limit: float) -> dict[str, Any]:
    """In a session of its own, so that all that it starts can be ended with it; and it ends with the worker."""
    with subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", _ENDED_WITH_PARENT, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired as error:
            _end(process)
            return {"error": f"not done after {limit:g} seconds{_last_line(error.stderr, '')}"}
        except BaseException:
            _end(process)
            raise
    if process.returncode != 0:
        return {"error": f"exit status {process.returncode}{_last_line(errors, ': no message')}"}
    return {"answer": output}


def _last_line(errors: bytes | None, otherwise: str) -> str:
    lines = (errors or b"").decode(errors="replace").strip().splitlines()
    return f": {lines[-1][-_LONGEST_REASON:]}" if lines else otherwise


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


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
