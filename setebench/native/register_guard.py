"""A process that puts model-specific registers back when the one that changed them is gone, whatever ended it.

Run by its path, so that nothing but the standard library is imported. It inherits the open files of the registers, and
with them their locks, reads one line of JSON from its standard input (`files`: descriptor to value; `register`) and
answers `ready`. Then it waits. The line `done` lets it go; an end of the input without that line means that the other
process died, and it writes the values back.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TextIO

READY, DONE = "ready", "done"


def write_register(descriptor: int, register: int, value: int) -> None:
    """Write 8 bytes at the register's number, as the kernel's msr device takes them. Raises OSError where refused."""
    written = os.pwrite(descriptor, value.to_bytes(8, "little"), register)
    if written != 8:
        raise OSError(f"{written} of 8 bytes written")


def guard(tasks: TextIO, answers: TextIO) -> int:
    """Wait, and put registers back if `tasks` ends without the line that lets go; the exit status."""
    # an interrupt from the terminal and a polite end are for the other process; when that goes, the input ends
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    task = json.loads(tasks.readline())
    answers.write(READY + "\n")
    answers.flush()
    if tasks.readline().strip() == DONE:
        return 0
    failed = 0
    for descriptor, value in task["files"].items():
        try:
            write_register(int(descriptor), task["register"], value)
        except OSError:
            failed = 1  # the others are still put back; nobody is left to report it to
    return failed


if __name__ == "__main__":
    sys.exit(guard(sys.stdin, sys.stdout))
