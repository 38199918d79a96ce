"""What a format is: rows of the other tool's names with values, and lines in which they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from setebench.export.source import Source
from setebench.export.values import Row, Sheet


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its name on the command line, one line about it, what it takes of a result, and the lines of the
    file."""

    name: str
    title: str
    rows: Callable[[Source], Iterable[Row]]
    lines: Callable[[Source, Sheet], Iterable[str]]

    def write(self, source: Source) -> str:
        """The whole file."""
        return "\n".join(self.lines(source, Sheet.of(self.rows(source)))) + "\n"
