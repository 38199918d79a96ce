"""Commands in a sandbox that refuses system calls, or on a system that lacks something, compiled at first use."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

SOURCES = Path(__file__).parent
CALLS = {"clone3": 435, "madvise": 28, "sched_getaffinity": 204, "sched_setaffinity": 203}
"""Numbers of system calls on x86-64."""


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="setebench-sandbox-")


@cache
def _sandbox() -> str:
    program = f"{_folder().name}/sandbox"
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-o", program, str(SOURCES / "sandbox.c")], check=True)
    if subprocess.run([program, "--", "true"], check=False).returncode == 125:
        pytest.skip("this system lets nobody filter system calls (seccomp)")
    return program


def refused(*what: str) -> list[str]:
    """Words in front of a command: these system calls, or `code`, are refused to it."""
    return [_sandbox(), *(str(CALLS.get(each, each)) for each in what), "--"]


@cache
def without(what: str) -> list[str]:
    """Words in front of a command: on a system without this (see refusing.c)."""
    library = f"{_folder().name}/{what}.so"
    source = str(SOURCES / "refusing.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wall", "-Werror", f"-D{what}", "-o", library, source], check=True)
    return ["env", f"LD_PRELOAD={library}"]


def setebench(front: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program behind these words."""
    line = [*front, sys.executable, "-m", "setebench", *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=400, check=False)


def error_of(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that says why a command could not be run."""
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert len(lines) == 1 and done.stderr.splitlines()[-1] == lines[0], done.stderr
    return lines[0]
