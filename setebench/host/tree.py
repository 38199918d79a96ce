"""Reads small system files below a root directory, so that a recorded machine can stand in for the one at hand.

What is missing reads as None. What is there but makes no sense reads as None too, and is listed in `Tree.problems`, so
that nobody mistakes unknown for zero.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from itertools import groupby, islice
from pathlib import Path
from typing import TypeVar

from setebench import files

T = TypeVar("T")
MOST_CPUS = 8192
"""The largest number of CPUs that an x86-64 Linux kernel can be built for; a longer list is a malformed one."""
CHUNK_BYTES = 1 << 16  # proc/sys allocates as much as is to be read, and refuses where that is too much
MOST_CHUNKS = 256
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
_SIZE = re.compile(r"(\d{1,15})\s*([KMG]?)(?:i?B)?", re.ASCII | re.IGNORECASE)
_SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30}


class Tree:
    """Files below `root`, addressed by relative path; `problems` collects what could not be made sense of."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.problems: list[str] = []

    def text(self, path: str) -> str | None:
        """The file's text without surrounding blanks, None where there is no such file or it may not be read.

        Control characters are dropped and foreign ones become "?": what a recorded tree says ends up on a
        terminal.
        """
        try:
            with files.opened(self.root / path) as file:
                raw = b"".join(islice(iter(lambda: file.read(CHUNK_BYTES), b""), MOST_CHUNKS))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self.problems.append(f"{path}: {error.strerror or type(error).__name__}")
            return None
        decoded = raw.decode("ascii", errors="replace").replace("\N{REPLACEMENT CHARACTER}", "?")
        return "".join(char for char in decoded if char in "\n\t" or char.isprintable()).strip()

    def value(self, path: str, parse: Callable[[str], T | None]) -> T | None:
        """What `parse` makes of the file's text; a ValueError of it becomes a problem and None."""
        text = self.text(path)
        return None if text is None else self.parsed(path, text, parse)

    def parsed(self, what: str, text: str, parse: Callable[[str], T | None]) -> T | None:
        """What `parse` makes of `text`; a ValueError of it becomes a problem of `what`, and None."""
        try:
            return parse(text)
        except ValueError as error:
            self.problems.append(f"{what}: {error}")
            return None

    def fields(self, path: str) -> dict[str, str]:
        """The "key: value" lines of a file of /proc, of which there may be none."""
        return parse_fields(self.text(path) or "")

    def field(self, path: str, key: str, parse: Callable[[str], T | None]) -> T | None:
        """What `parse` makes of one of these values; None where it isn't there."""
        text = self.fields(path).get(key)
        return None if text is None else self.parsed(f"{path} {key}", text, parse)

    def names(self, path: str, pattern: str) -> list[str] | None:
        """Names in a directory that match `pattern` in full, sorted; None where there is no such directory."""
        try:
            return sorted(name for name in os.listdir(self.root / path) if re.fullmatch(pattern, name))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self.problems.append(f"{path}: {error.strerror or type(error).__name__}")
            return None

    def exists(self, path: str) -> bool | None:
        """Whether there is such a file; None where its directory is not there, so that nothing is known."""
        place = self.root / path
        return place.exists() if place.parent.is_dir() else None


def shown(text: str) -> str:
    """`text` as an error message quotes it: short, on one line."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def parse_fields(text: str) -> dict[str, str]:
    """The "key: value" lines of a text; lines of another form are left out."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, colon, value in pairs if colon}


def parse_number(text: str) -> int:
    """A decimal integer. Raises ValueError for anything else."""
    if not re.fullmatch(r"-?\d{1,20}", text.strip(), re.ASCII):
        raise ValueError(f"not a number: {shown(text)}")
    return int(text)


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """The CPUs of a kernel list such as "0-3,8,10-11", sorted; the kernel writes none as "" or "(null)".

    Raises ValueError for a malformed list, a range that runs backwards, or a CPU number that no kernel has.
    """
    stripped = text.strip()
    if stripped in ("", "(null)"):
        return ()
    cpus: set[int] = set()
    for part in stripped.split(","):
        match = _RANGE.fullmatch(part.strip())
        if not match:
            raise ValueError(f"not a CPU list: {shown(stripped)}")
        first = int(match[1])
        last = int(match[2] or first)
        if not first <= last < MOST_CPUS:
            raise ValueError(f"no such CPU range: {shown(part.strip())}")
        cpus.update(range(first, last + 1))
    return tuple(sorted(cpus))


def parse_size(text: str) -> int:
    """Bytes of "32K", "2048 kB", "1G" or a plain number; K is 1024. Raises ValueError for anything else."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError(f"not a size: {shown(text)}")
    return int(match[1]) << _SHIFTS[match[2].upper()]


def parse_choice(text: str) -> str:
    """The chosen word of a list such as "always [madvise] never". Raises ValueError where none is chosen."""
    match = re.search(r"\[([\w+-]+)\]", text)
    if not match:
        raise ValueError(f"no choice marked: {shown(text)}")
    return match[1]


def format_cpu_list(cpus: tuple[int, ...]) -> str:
    """The inverse of `parse_cpu_list`: "0-3,8"; "none" for no CPU."""
    texts = []
    for _, group in groupby(enumerate(sorted(set(cpus))), key=lambda pair: pair[1] - pair[0]):
        run = [cpu for _, cpu in group]
        texts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ",".join(texts) or "none"
