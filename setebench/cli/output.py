"""Where a document goes, and in which form."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

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
    ".markdown": "markdown",
    ".tex": "latex",
    ".txt": "table",
    ".html": "html",
    ".htm": "html",
}
STANDARD_OUTPUT = "-"


def form_of(path: Path, forms: Sequence[str]) -> str:
    """The form that a file's extension names, of these. Raises `UsageError` where it names none."""
    form = FORM_OF_EXTENSION.get(path.suffix.lower())
    if form is None or form not in forms:
        extensions = ", ".join(each for each, name in FORM_OF_EXTENSION.items() if each and name in forms)
        raise UsageError(f"the extension of {str(path)!r} names no form; add --format, or use {extensions}")
    return form


@dataclass(frozen=True, slots=True)
class Output:
    """A form, and the file it is written to; standard output without one."""

    form: str
    path: Path | None
    force: bool = False

    @classmethod
    def choose(cls, file: str | None, form: str | None, force: bool) -> Output:
        """What `-o FILE --format FORM --force` say. Without a form the file's extension names it.

        Raises `UsageError` for an extension that names none."""
        path = None if file is None else file_or_none(Path(file))
        if path is None:
            return cls(form or "table", None, force)
        return cls(form or form_of(path, ("json", "csv", "markdown", "latex", "table")), path, force)

    def check(self) -> None:
        """Raise `UsageError` now for a file, or a standard output, that couldn't be written later."""
        if self.path is not None:
            store.check_target(self.path, self.force)
        elif sys.stdout is None:  # as Python has it where the caller closed the descriptor
            raise UsageError("standard output is closed; use -o FILE")

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

    def deliver(self, document: Document, references: Sequence[Reference] = ()) -> None:
        """Print or write the document. Raises `UsageError`, or `SetebenchError` where standard output takes no more."""
        if self.path is None and self.form in ("table", "overview"):
            print_for_people(lambda **how: render(document, self.form, references=references, **how))
        else:
            target_of(self.path, self.force)(render(document, self.form, references=references).encode())


def file_or_none(path: Path | None) -> Path | None:
    """The file that `-o` names: none, for standard output, where that is `-` as in other commands."""
    return None if path is not None and str(path) == STANDARD_OUTPUT else path


def target_of(path: Path | None, force: bool) -> Callable[[bytes], None]:
    """What writes to the file that `-o` names, or prints where that is `-` or none. Raises `UsageError` now for what
    couldn't be written later."""
    path = file_or_none(path)
    if path is None:
        return print_text
    store.check_target(path, force)
    return partial(store.write, path, force=force)


def print_for_people(table: Callable[..., str]) -> None:
    """Print a table, which `table(width=..., colour=...)` makes, as the terminal can show it."""
    width = terminal_width()
    text = table() if width is None else table(width=width, colour=not plain_terminal())
    encoding = sys.stdout.encoding or "utf-8"
    print_text(text.encode() if encoding.lower().replace("-", "").startswith("utf") else ascii_only(text).encode())


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
