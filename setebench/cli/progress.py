"""Progress on standard error: written when a scenario reports it, never by a thread or a timer of its own.

A redrawing thread would wake up in the middle of a measurement and take cache, GIL and clock frequency with it.
"""

from __future__ import annotations

import logging
import shutil
import sys
import time
from types import TracebackType

from setebench.cli.output import plain_terminal
from setebench.text import visible

LINE_SECONDS = 10.0
"""Where lines stay, in a log, one comes no sooner behind another one, but the first of each part (`[2/14] ...`)."""


def quieten_matplotlib() -> None:
    """Keep its notes on a home that it can't write to, of no use to anybody here, out of standard error."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)


class Progress:
    """One line that is overwritten on a terminal, a line now and then elsewhere; with `verbose` a line each, with
    times."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self._quiet = quiet or sys.stderr is None  # as Python has it where the caller closed the descriptor
        self._verbose = verbose
        self._begin = time.monotonic()
        self._overwrite = not self._quiet and not verbose and sys.stderr.isatty() and not plain_terminal()
        self._drawn = False
        self._part, self._due = "", self._begin

    def __call__(self, message: str) -> None:
        """Write what is done next."""
        part, now = message.partition("]")[0] if message.startswith("[") else "", time.monotonic()
        if self._quiet or not (self._overwrite or self._verbose or part != self._part or now >= self._due):
            return
        self._part, self._due = part, now + LINE_SECONDS
        text = visible(message)
        if self._overwrite:
            self._draw(text)
        else:
            self._line(f"[{time.monotonic() - self._begin:7.2f} s] {text}" if self._verbose else text)

    def detail(self, message: str) -> None:
        """Write what only --verbose shows."""
        if self._verbose:
            self(message)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def take_over(self) -> None:
        """A line that another process drew and left there is this one's to remove."""
        self._drawn = self._overwrite

    def close(self) -> None:
        """Remove the line that is on the terminal."""
        if self._drawn:
            self._write("\r\x1b[K")
            self._drawn = False

    def result(self, message: str) -> None:
        """A line that stays, after the last step."""
        self.close()
        if not self._quiet:
            self._line(visible(message))

    def _draw(self, text: str) -> None:
        self._write("\r\x1b[K" + text[: shutil.get_terminal_size().columns - 1])
        self._drawn = True

    def _line(self, text: str) -> None:
        self._write(text + "\n")

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
