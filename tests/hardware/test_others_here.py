"""What other programs do on this computer meanwhile is counted."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from setebench.core.native import NativeMachine
from setebench.host.activity import wanted_seconds
from setebench.host.tree import Tree
from setebench.measure.others import Others

SECONDS = 1.5


def test_a_program_that_never_rests_is_counted(native: NativeMachine) -> None:
    """Even beside others it takes, or is denied, a good part of a CPU."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as program:
        try:
            others = Others(native)
            time.sleep(SECONDS)
            busy = others.busy_cpus()
        finally:
            program.kill()
    assert busy is not None
    assert busy > 0.3


def test_what_this_process_does_itself_is_not_counted(native: NativeMachine) -> None:
    """Of all the time that the kernel counts, its own is taken off; it counts in ticks of some milliseconds."""
    tree = Tree(Path("/"))
    wanted, own, others = wanted_seconds(tree), time.process_time(), Others(native)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        pass
    busy, own_after, wanted_after = others.busy_cpus(), time.process_time(), wanted_seconds(tree)
    assert None not in (wanted, wanted_after, busy)
    assert own_after - own > 0.1  # even where others leave it little
    assert busy * SECONDS < (wanted_after - wanted) - (own_after - own) + 0.2 * SECONDS  # type: ignore[operator]
