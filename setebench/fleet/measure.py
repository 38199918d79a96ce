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
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from setebench import store

_LONGEST_REASON = 400

_ENDED_WITH_PARENT = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"
"""A program that runs another in its place, which the kernel kills when its parent ends (PR_SET_PDEATHSIG, 1): a node
whose worker has died goes on measuring for nobody otherwise."""


def describe() -> dict[str, Any]:
    """The node's name, and its version of this package."""
    return {"host": socket.gethostname(), "version": store.this_tool().version}


def measure(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run what is requested; `answer` is a result as JSON, or `error` why there is none. `seconds` passed meanwhile,
    and the worker took `engine_cpu_seconds` of CPU time beside the measurement."""
    begin, own = time.monotonic(), time.process_time()
    command = [sys.executable, "-m", "setebench", str(request["scenario"]), "--format", "json", "--quiet"]
    command += ["--machine", str(request["machine"]), "--seed", str(request["seed"])]
    command += ["--fast"] if request["fast"] else []
    try:
        reply = _run(command, float(request["limit_seconds"]))
    except OSError as error:
        reply = {"error": f"{error.strerror or error}"}
    return {**reply, "seconds": time.monotonic() - begin, "engine_cpu_seconds": time.process_time() - own}


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
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return {"error": f"not done after {limit:g} seconds{_last_line(error.stderr, '')}"}
    if process.returncode != 0:
        return {"error": f"exit status {process.returncode}{_last_line(errors, ': no message')}"}
    return {"answer": output}


def _last_line(errors: bytes | None, otherwise: str) -> str:
    lines = (errors or b"").decode(errors="replace").strip().splitlines()
    return f": {lines[-1][-_LONGEST_REASON:]}" if lines else otherwise
