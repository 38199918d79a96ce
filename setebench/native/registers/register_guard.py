"""A process that puts model-specific registers back when the one that changed them lets go or is gone.

Run by its path, so that nothing but the standard library is imported. It inherits the open files of the registers, and
with them their locks, reads one line of JSON from its standard input (`files`: descriptor to value; `register`) and
answers `ready`. When its input ends, it writes the values back and ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from typing import TextIO

READY = "ready"


def write_register(descriptor: int, register: int, value: int) -> None:
    """Write 8 bytes at the register's number, as the kernel's msr device takes them. Raises OSError where refused."""
    written = os.pwrite(descriptor, value.to_bytes(8, "little"), register)
    if written != 8:
        raise OSError(f"{written} of 8 bytes written")


def guard(tasks: TextIO, answers: TextIO) -> None:
    """Wait until `tasks` ends, and put all registers back."""
    # an interrupt from the terminal and a polite end are for the other process; when that goes, the input ends
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    task = json.loads(tasks.readline())
    answers.write(READY + "\n")
    answers.flush()
    tasks.read()
    for descriptor, value in task["files"].items():
        with suppress(OSError):  # the others are still put back; the other process reads all of them, if it is there
            write_register(int(descriptor), task["register"], value)


if __name__ == "__main__":
    guard(sys.stdin, sys.stdout)
