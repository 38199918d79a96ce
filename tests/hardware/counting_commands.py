"""What the tests of counting programs share: a program that marks regions, and `setebench counters stat` run on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from setebench.native.perf import _perf
from setebench.native.perf.attributes import USER_ONLY, Attributes, Software, Type

STAT = [sys.executable, "-m", "setebench", "counters", "stat"]
SOURCE = Path(__file__).with_name("marked_program.c")
STARTING = 300
"""Page faults of a small program's start, at most: some 60 to 120 with the C library."""


@cache
def _refused() -> str:
    event = Attributes(type=Type.SOFTWARE, config=Software.PAGE_FAULTS, flags=USER_ONLY)
    try:
        os.close(_perf.open_event(event))
    except OSError as error:
        return f"this kernel lets this user open no events at all ({error.strerror})"
    return ""


def skip_without_events() -> None:
    """Skip where not even page faults may be counted (perf_event_paranoid 3, a container's seccomp filter)."""
    if _refused():
        pytest.skip(_refused())


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """Standard error as JSON."""
        loaded: dict[str, Any] = json.loads(self.err)
        return loaded

    @property
    def run(self) -> dict[str, Any]:
        """The first run of the document."""
        first: dict[str, Any] = self.document["runs"][0]
        return first

    def count(self, name: str) -> int:
        """A count of the first run."""
        value = self.run["counts"][name]["value"]
        assert isinstance(value, int)
        return value


def stat(*arguments: str, text: str = "") -> Ended:
    """Run `setebench counters stat` with these arguments and this standard input."""
    ended = subprocess.run([*STAT, *arguments], input=text, capture_output=True, text=True, timeout=60)
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def faults(*command: str) -> Ended:
    """Page faults of a program, as JSON."""
    ended = stat("-e", "page_fault", "--format", "json", "--", *command)
    assert ended.status == 0, ended.err
    return ended


def compile_marked(folder: Path, *, compiler: tuple[str, ...] = ("gcc", "-std=gnu11")) -> str:
    """The path of the compiled program. The header has to be free of warnings."""
    program = folder / "marked"
    include = str(files("setebench") / "include")
    strict = ["-O1", "-Wall", "-Wextra", "-Wshadow", "-pedantic", "-Werror", "-pthread", "-I", include]
    subprocess.run([*compiler, *strict, str(SOURCE), "-o", str(program)], check=True, timeout=60)
    return str(program)
