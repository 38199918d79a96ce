"""What a format is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from setebench.export.source import Source


class Writer(Protocol):
    """Makes the text of a format from a result."""

    def __call__(self, source: Source) -> str:
        """The whole file. `source` gives findings as values."""
        ...


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its name on the command line, one line about it, and what writes it."""

    name: str
    title: str
    write: Writer
