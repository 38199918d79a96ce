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
}


STANDARD_OUTPUT = "-"


@dataclass(frozen=True, slots=True)
class Output:
    """A form, and the file it is written to; standard output without one."""

    form: str
    path: Path | None
    force: bool = False

    @classmethod
    def choose(cls, file: str | None, form: str | None, force: bool) -> Output:
        """What `-o FILE --format FORM --force` ask for. Without a form the file's extension names it.

        Raises `UsageError` for an extension that names none."""
        if file is None or file == STANDARD_OUTPUT:
            return cls(form or "table", None, force)
        path = Path(file)
        chosen = form or FORM_OF_EXTENSION.get(path.suffix.lower())
        if chosen is None:
            known = ", ".join(filter(None, FORM_OF_EXTENSION))
            raise UsageError(f"the extension of {file!r} names no form; add --format, or use {known}")
        return cls(chosen, path, force)

    def check(self) -> None:
        """Raise `UsageError` now for a file, or a standard output, that couldn't be written later."""
        if self.path is not None:
            store.check_target(self.path, self.force)
        elif sys.stdout is None:  # as Python has it where the caller closed the descriptor
            raise UsageError("standard output is closed; use -o FILE")

    def deliver(self, document: Document, references: Sequence[Reference] = ()) -> None:
        """Print or write the document. Raises `UsageError`, or `SetebenchError` where standard output takes no more."""
        if self.path is not None:
            store.write(self.path, render(document, self.form, references=references).encode(), self.force)
        elif self.form in ("table", "overview"):
            print_for_people(lambda **look: render(document, self.form, references=references, **look))
        else:
            print_text(render(document, self.form, references=references).encode())


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
    look = {"width": shutil.get_terminal_size().columns, "colour": not plain_terminal()} if sys.stdout.isatty() else {}
    text = table(**look)
    encoding = sys.stdout.encoding or "utf-8"
    print_text(text.encode() if encoding.lower().replace("-", "").startswith("utf") else ascii_only(text).encode())


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
        _drop_standard_output()
        raise SetebenchError(f"can't write to standard output: {error.strerror or error}") from error


def _drop_standard_output() -> None:
    """Let what is still buffered go nowhere, or Python would try again at exit and complain about it once more."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
