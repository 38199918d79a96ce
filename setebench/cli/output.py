"""Where a document goes, and in which form."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from setebench import store
from setebench.errors import SetebenchError, UsageError
from setebench.report.sections import Reference
from setebench.report.table import render
from setebench.report.text import ascii_only
from setebench.results import Document

FORM_OF_EXTENSION = {
    "": "json",
    ".json": "json",
    ".csv": "csv",
    ".md": "markdown",
    ".tex": "latex",
    ".txt": "table",
    ".html": "html",
}
FORMS = ("json", "csv", "markdown", "latex", "table")
FOR_PEOPLE = ("table", "overview")
STANDARD_OUTPUT = "-"


@dataclass(frozen=True, slots=True)
class Output:
    """A form, and the file it is written to; standard output without one."""

    form: str
    path: Path | None
    force: bool = False

    @classmethod
    def choose(
        cls, file: str | Path | None, form: str | None, force: bool, forms: Sequence[str] = FORMS, usual: str = "table"
    ) -> Output:
        """What `-o FILE --format FORM --force` say. Without a form the file's extension names one of `forms`; on
        standard output it is the `usual` one. Raises `UsageError` for an extension that names none, and as `check`."""
        path = None if file is None else file_or_none(Path(file))
        if form is None and path is not None:
            usual = FORM_OF_EXTENSION.get(path.suffix.lower(), "")
            if usual not in forms:
                known = ", ".join(each for each, name in FORM_OF_EXTENSION.items() if each and name in forms)
                raise UsageError(f"the extension of {str(path)!r} names no form; add --format, or use {known}")
        made = cls(form or usual, path, force)
        made.check()
        return made

    def check(self) -> None:
        """Raise `UsageError` now for a file, or a standard output, that couldn't be written later."""
        if self.path is not None:
            store.check_target(self.path, self.force)
        elif sys.stdout is None:  # as Python has it where the caller closed the descriptor
            raise UsageError("standard output is closed; use -o FILE")

    def write(self, data: bytes) -> None:
        """Write to the file, or print. Raises `UsageError`, or `SetebenchError` where standard output takes no more."""
        if self.path is None:
            print_text(data)
        else:
            store.write(self.path, data, self.force)

    def show(self, text: str) -> None:
        """Write a text; of a form for people, where it is printed, as the terminal can show it. Raises as `write`."""
        printed = self.path is None and self.form in FOR_PEOPLE
        encoding = (sys.stdout.encoding or "utf-8").lower() if printed else "utf-8"
        self.write((text if encoding.startswith("utf") else ascii_only(text)).encode())

    def deliver(self, document: Document, references: Sequence[Reference] = ()) -> None:
        """Print or write the document, in a form for people as wide as the terminal. Raises as `write`."""
        width = terminal_width() if self.path is None and self.form in FOR_PEOPLE else None
        how: Any = {} if width is None else {"width": width, "colour": not plain_terminal()}
        self.show(render(document, self.form, references=references, **how))

    def deliver_beside(self, text: str) -> None:
        """Write a text about a program, to standard error without a file: standard output is the program's."""
        if self.path is not None:
            store.write(self.path, text.encode(), self.force)
            return
        try:
            click.echo(text, err=True, nl=False)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise SetebenchError(f"can't write to standard error: {error.strerror or error}") from error


def file_or_none(path: Path | None) -> Path | None:
    """The file that `-o` names: none, for standard output, where that is `-` as in other commands."""
    return None if path is not None and str(path) == STANDARD_OUTPUT else path


def target_of(path: Path | None, force: bool) -> Callable[[bytes], None]:
    """What writes to the file that `-o` names, or prints where that is `-` or none. Raises `UsageError` now for what
    couldn't be written later."""
    output = Output("", file_or_none(path), force)
    output.check()
    return output.write


def terminal_width() -> int | None:
    """Columns of the terminal; None where standard output is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def plain_terminal() -> bool:
    """Whether the terminal takes text only (an editor's shell): colours and cleared lines would litter it."""
    return os.environ.get("TERM", "").lower() in ("dumb", "unknown")


def print_text(data: bytes) -> None:
    """Write to standard output and see that it got there. A broken pipe is left to click, which ends quietly."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        with suppress(OSError):  # what is buffered goes nowhere, or Python would try again at exit and complain anew
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SetebenchError(f"can't write to standard output: {error.strerror or error}") from error
