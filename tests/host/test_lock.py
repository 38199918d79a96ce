"""One measurement at a time on a computer: who waits, who is refused, who need not wait."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from setebench.host import lock

PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
PYTHON = [sys.executable, "-c"]
MEASURES = """
import sys
from setebench.native.machine import NativeMachine
machine = NativeMachine()
print("measures", flush=True)
sys.stdin.readline()
machine.close()
print("closed", flush=True)
sys.stdin.readline()
"""


def started(*command: str) -> subprocess.Popen[str]:
    """As from another terminal, which knows nothing of what this process holds."""
    strange = {name: text for name, text in os.environ.items() if name not in (lock.HOLDER, lock.NO_WAIT)}
    return subprocess.Popen(command, text=True, env=strange, **PIPES)  # type: ignore[call-overload, no-any-return]


@contextmanager
def measuring() -> Iterator[subprocess.Popen[str]]:
    """A process that measures, until a line is written to it."""
    with started(*PYTHON, MEASURES) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "measures\n"
            yield process
        finally:
            process.kill()


def test_a_second_measurement_waits_for_the_first_and_says_so_in_one_line() -> None:
    with measuring() as first, started(sys.executable, "-m", "setebench", "doctor", "-q") as second:
        assert first.stdin is not None and first.stdout is not None and second.stderr is not None
        assert second.stderr.readline().startswith("waiting for the end of another measurement")
        time.sleep(0.5)
        assert second.poll() is None
        first.stdin.write("\n")
        first.stdin.flush()
        assert first.stdout.readline() == "closed\n"  # the process goes on, and its machine doesn't
        out, err = second.communicate(timeout=100)
        assert (second.returncode, err) == (0, "") and "clock" in out


@pytest.mark.parametrize(
    "command",
    [["latency"], ["characterize", "--only", "latency"], ["doctor", "-q"], ["counters", "validate"]],
    ids=lambda each: each[0],
)
def test_who_does_not_want_to_wait_is_refused_in_one_line(command: list[str]) -> None:
    with measuring(), started(sys.executable, "-m", "setebench", *command, "--no-wait") as second:
        out, err = second.communicate(timeout=60)
    assert (second.returncode, out) == (1, "")
    assert err == "Error: another measurement is running on this machine; try again later\n"


def test_what_a_measuring_process_starts_does_not_wait_for_it() -> None:
    inner = "from setebench.host import lock; lock.acquire(); print('inner')"
    outer = f"""
import os, subprocess, sys
from setebench.host import lock
for _ in range(2):
    lock.acquire()
for _ in range(2):
    subprocess.run([sys.executable, "-c", {inner!r}], timeout=30, check=True)
    if os.fork() == 0:
        lock.acquire()
        lock.release()
        lock.acquire()
        print("forked", flush=True)
        os._exit(0)
    os.wait()
    lock.release()
assert lock.HOLDER not in os.environ
"""
    with started(*PYTHON, outer) as process:
        out, err = process.communicate(timeout=120)
    assert out == "inner\nforked\n" * 2
    assert len(err.splitlines()) <= 1  # another test may be measuring when the outer one asks first


def test_without_a_lock_it_goes_on_and_says_so_once(tmp_path: Path) -> None:
    code = f"""
from setebench.host import lock
for _ in range(2):
    lock.acquire({str(tmp_path / "missing")!r})
print("measures")
"""
    with started(*PYTHON, code) as process:
        out, err = process.communicate(timeout=60)
    assert out == "measures\n"
    assert err.startswith("other measurements can't be kept away") and err.count("\n") == 1
