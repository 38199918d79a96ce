"""Progress on standard error: written when a scenario reports it, never by a thread or a timer of its own.

A redrawing thread would wake up in the middle of a measurement and take cache, GIL and clock frequency with it.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import click

from setebench.cli.output import plain_terminal
from setebench.errors import INTERRUPTED, reason
from setebench.text import visible

LINE_SECONDS = 10.0
"""Where lines stay, in a log, one comes no sooner behind another one, but the first of each part (`[2/14] ...`)."""


def quieten_matplotlib() -> None:
    """Keep its notes on a home that it can't write to, of no use to anybody here, out of standard error, and a window
    system that MPLBACKEND names, which it may not know, out of what only writes files."""
    os.environ["MPLBACKEND"] = "agg"
    logging.getLogger("matplotlib").setLevel(logging.ERROR)


class Progress(AbstractContextManager["Progress"]):
    """One line that is overwritten on a terminal, a line now and then elsewhere."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet or sys.stderr is None  # as Python has it where the caller closed the descriptor
        self._overwrite = not self._quiet and sys.stderr.isatty() and not plain_terminal()
        self._drawn = False
        self._part, self._due = "", time.monotonic()

    def __call__(self, message: str) -> None:
        """Write what is done next."""
        part, now = message.partition("]")[0] if message.startswith("[") else "", time.monotonic()
        if self._quiet or not (self._overwrite or part != self._part or now >= self._due):
            return
        self._part, self._due = part, now + LINE_SECONDS
        if self._overwrite:
            self._write("\r\x1b[K" + visible(message)[: shutil.get_terminal_size().columns - 1])
            self._drawn = True
        else:
            self._write(visible(message) + "\n")

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the line that is on the terminal."""
        if self._drawn:
            self._write("\r\x1b[K")
            self._drawn = False

    def result(self, message: str, always: bool = False) -> None:
        """A line that stays, also where no progress is wanted if it is `always`."""
        self.close()
        if always or not self._quiet:
            click.echo(visible(message), err=True)

    @contextmanager
    def interruptible(self, what_next: Callable[[], str]) -> Iterator[None]:
        """Within the context Ctrl-C ends the command with status 130 and a line that says what to do next."""
        try:
            yield
        except KeyboardInterrupt:
            self.close()
            click.echo(f"\nInterrupted; {what_next()}", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None

    def failed(self, scenario: str, error: BaseException) -> None:
        """A line that stays: which scenario failed, and why."""
        self.result(f"{scenario} failed: {reason(error)}")

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
