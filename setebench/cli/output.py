"""Where a document goes, and in which form; and progress on standard error: written when a scenario reports it, never
by a thread or a timer of its own.

A redrawing thread would wake up in the middle of a measurement and take cache, GIL and clock frequency with it.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import click

from setebench import store
from setebench.errors import INTERRUPTED, SetebenchError, UsageError, reason
from setebench.report.table import FORMS, TERMINAL, render
from setebench.results import Document
from setebench.text import visible

FORM_OF_EXTENSION = {
    "": "json",
    ".json": "json",
    ".csv": "csv",
    ".md": "markdown",
    ".tex": "latex",
    ".txt": "table",
}
STANDARD_OUTPUT = Path("-")


@dataclass(frozen=True, slots=True)
class Output:
    """A form, and the file it is written to; standard output without one."""

    form: str
    path: Path | None = None
    force: bool = False

    @classmethod
    def choose(cls, values: Mapping[str, Any], forms: Collection[str] = FORMS) -> Output:
        """What `-o FILE --format FORM --force` say; a FILE of `-` is standard output. Without a form the file's
        extension names one of `forms`; of a command that has one form only none is said. Raises `UsageError` for an
        extension that names none, and as `check`."""
        path, form = values["output"], values.get("form", "")
        path = None if path == STANDARD_OUTPUT else path
        if form is None:
            form = "table" if path is None else FORM_OF_EXTENSION.get(path.suffix.lower(), "")
            if path is not None and form not in forms:
                raise UsageError(f"the extension of {str(path)!r} names no form; add --format")
        made = cls(form, path, values["force"])
        made.check()
        return made

    def check(self) -> None:
        """Raise `UsageError` now for a file, or a standard output, that couldn't be written later."""
        if self.path is not None:
            store.check_target(self.path, self.force)
        elif sys.stdout is None:  # as Python has it where the caller closed the descriptor
            raise UsageError("standard output is closed; use -o FILE")

    @property
    def _printed(self) -> bool:
        """Whether it is for a person at a terminal, or before a pager."""
        return self.path is None and self.form in TERMINAL

    def write(self, text: str | bytes) -> None:
        """Write to the file, or print, what is for people as the terminal can show it. Raises `UsageError`, or
        `SetebenchError` where standard output takes no more."""
        if self.path is None:
            print_text(text, (sys.stdout.encoding if self._printed else None) or "utf-8")
        else:
            store.write(self.path, text.encode() if isinstance(text, str) else text, self.force)

    def deliver(self, document: Document, references: Mapping[str, Document] | None = None) -> None:
        """Print or write the document, in a form for people as wide as the terminal. Raises as `write`."""
        how: dict[str, Any] = {}
        if self._printed and sys.stdout.isatty():
            how = {"width": shutil.get_terminal_size().columns, "colour": not plain_terminal()}
        self.write(render(document, self.form, references=references, **how))

    def deliver_beside(self, text: str) -> None:
        """Write a text about a program, to standard error without a file: standard output is the program's."""
        if self.path is None:
            print_text(text, stream=sys.stderr)
        else:
            self.write(text)


def plain_terminal() -> bool:
    """Whether the terminal takes text only (an editor's shell): colours and cleared lines would litter it."""
    return os.environ.get("TERM", "").lower() in ("dumb", "unknown")


def print_text(text: str | bytes, encoding: str = "utf-8", stream: TextIO | None = None) -> None:
    """Write to standard output, or another stream, and see that it got there. A broken pipe is left to click, which
    ends quietly."""
    stream = stream or sys.stdout
    try:
        stream.flush()
        stream.buffer.write(text.encode(encoding, "replace") if isinstance(text, str) else text)
        stream.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        with suppress(OSError):  # what is buffered goes nowhere, or Python would try again at exit and complain anew
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        name = "standard error" if stream is sys.stderr else "standard output"
        raise SetebenchError(f"can't write to {name}: {error.strerror or error}") from error


# -- progress ---------------------------------------------------------------------------------------------------------


LINE_SECONDS = 10.0
"""Where lines stay, in a log, one comes no sooner behind another one, but the first of each part (`[2/14] ...`)."""


def quieten_matplotlib() -> None:
    """Keep its notes on a home that it can't write to, of no use to anybody here, out of standard error, and a window
    system that MPLBACKEND names, which it may not know, out of what only writes files."""
    os.environ["MPLBACKEND"] = "agg"
    logging.getLogger("matplotlib").setLevel(logging.ERROR)


class Progress(AbstractContextManager["Progress"]):
    """One line that is overwritten on a terminal, a line now and then elsewhere. Where `what_next` says what to
    do then, Ctrl-C within the context ends the command with status 130 and that line."""

    def __init__(self, quiet: bool = False, what_next: Callable[[], str] | None = None) -> None:
        self._what_next = what_next
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

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()
        if isinstance(error, KeyboardInterrupt) and self._what_next is not None:
            click.echo(f"\nInterrupted; {self._what_next()}", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None

    def close(self) -> None:
        """Remove the line that is on the terminal."""
        if self._drawn:
            self._write("\r\x1b[K")
            self._drawn = False

    def problem(self, message: str) -> None:
        """A line that stays, also where no progress is wanted."""
        self.close()
        click.echo(visible(message), err=True)

    def result(self, message: str) -> None:
        """A line that stays."""
        if not self._quiet:
            self.problem(message)

    def failed(self, scenario: str, error: BaseException) -> None:
        """A line that stays: which scenario failed, and why."""
        self.result(f"{scenario} failed: {reason(error)}")

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
