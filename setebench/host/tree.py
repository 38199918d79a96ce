"""Reads small system files below a root directory, so that a recorded machine can stand in for the one at hand.

What is missing reads as None. What is there but makes no sense reads as None too, and is listed in `Tree.problems`, so
that nobody mistakes unknown for zero.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_SHIFTS = {"K": 10, "M": 20, "G": 30}


class Tree:
    """Files below `root`, addressed by relative path; `problems` collects what could not be made sense of."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.problems: list[str] = []

    def text(self, path: str) -> str | None:
        """The file's text without surrounding blanks, None where there is no such file or it may not be read. What
        can't be printed is left out: the text ends up on terminals."""
        raw = self._found(path, Path.read_bytes)
        return None if raw is None else re.sub(rb"[^\n\t -~]", b"", raw).decode().strip()

    def names(self, path: str, pattern: str) -> list[str] | None:
        """Names in a directory that match `pattern` in full, sorted; None where there is no such directory."""
        found = self._found(path, os.listdir)
        return None if found is None else sorted(name for name in found if re.fullmatch(pattern, name))

    def _found(self, path: str, read: Callable[[Path], T]) -> T | None:
        try:
            return read(self.root / path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self.problems.append(f"{path}: {error.strerror or type(error).__name__}")
            return None

    def value(self, path: str, parse: Callable[[str], T | None]) -> T | None:
        """What `parse` makes of the file's text; a ValueError of it becomes a problem and None."""
        return self.parsed(path, self.text(path), parse)

    def parsed(self, what: str, text: str | None, parse: Callable[[str], T | None]) -> T | None:
        """What `parse` makes of a text, if there is one; a ValueError of it becomes a problem of `what`, and None."""
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            self.problems.append(f"{what}: {error}")
            return None

    def fields(self, path: str) -> dict[str, str]:
        """The "key: value" lines of a file of /proc, of which there may be none."""
        return parse_fields(self.text(path) or "")

    def field(self, path: str, key: str, parse: Callable[[str], T | None]) -> T | None:
        """What `parse` makes of one of these values; None where it isn't there."""
        return self.parsed(f"{path} {key}", self.fields(path).get(key), parse)

    def exists(self, path: str) -> bool:
        """Whether there is such a file or directory."""
        return os.path.exists(self.root / path)


def parse_fields(text: str) -> dict[str, str]:
    """The "key: value" lines of a text; lines of another form are left out."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, colon, value in pairs if colon}


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """The CPUs of a kernel list such as "0-3,8,10-11", sorted; the kernel writes none as "" or "(null)". Raises
    ValueError for another text."""
    cpus: set[int] = set()
    for part in text.split(",") if text.strip() not in ("", "(null)") else ():
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(cpus))


def parse_size(text: str) -> int:
    """Bytes of "32K", "2048 kB", "1G" or a plain number; K is 1024. Raises ValueError for anything else."""
    number = reading(r"^(\d+)\s*[KMG]?B?$", int)(text.strip().upper())
    return number << _SHIFTS.get(text.strip().upper().rstrip("B")[-1:], 0)


def reading(pattern: str, kind: Callable[[str], T]) -> Callable[[str], T]:
    """What makes of a text the `kind` of thing that the pattern's group finds in it. Raises ValueError for none."""

    def parse(text: str) -> T:
        found = re.search(pattern, text, re.MULTILINE)
        if not found:
            raise ValueError(f"not understood: {text[:80]!r}")
        return kind(found[1])

    return parse
