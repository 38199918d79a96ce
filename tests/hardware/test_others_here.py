"""What other programs do on this computer meanwhile is counted, where its kernel counts at all."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from setebench.host.activity import wanted_seconds
from setebench.host.tree import Tree
from setebench.native.machine import NativeMachine

SECONDS = 1.5
TICKS_SECONDS = 0.3
"""More than what is counted in ticks may differ by."""


def others(native: NativeMachine) -> float:
    counted = native.busy_time()
    if counted is None:
        pytest.skip("the kernel doesn't report how busy the CPUs are")
    return counted.others


def test_a_program_that_never_rests_is_counted(native: NativeMachine) -> None:
    """All that it took of a CPU, however little others left it."""
    before = others(native)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as program:
        time.sleep(SECONDS)
        program.kill()
        _, _, used = os.wait4(program.pid, 0)
        program.returncode = 0  # it has been waited for
    after = others(native)
    assert used.ru_utime > 0.1
    assert after - before > used.ru_utime - TICKS_SECONDS


def test_what_this_process_does_itself_is_not_counted(native: NativeMachine) -> None:
    """Of all the time that the kernel counts, its own is taken off."""
    tree = Tree(Path("/"))
    wanted, own, before = wanted_seconds(tree), time.process_time(), others(native)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        pass
    taken, own = others(native) - before, time.process_time() - own
    wanted_then = wanted_seconds(tree)
    assert wanted is not None and wanted_then is not None
    assert own > 0.1  # even where others leave it little
    assert taken < max(wanted_then[0] - wanted[0] - own, 0.0) + TICKS_SECONDS
