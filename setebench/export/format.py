"""What a format is: rows of the other tool's names with values, and a file in which they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from setebench.export.source import Source
from setebench.export.values import Known, Open, Row, Scalar, Value


@dataclass(slots=True)
class Sheet:
    """Values under the other tool's names for them, in the order in which they came, and what had to be left out, with
    the reason. Of a name that comes twice the first counts."""

    values: dict[str, Value] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def put(self, key: str, known: Known) -> None:
        """Enter a value under `key`, or why it is left out."""
        if isinstance(known, Open):
            self.left_out.setdefault(key, f"{known.parameter}: {known.reason}")
        else:
            self.values.setdefault(key, known)

    def get(self, key: str, otherwise: Scalar = "") -> Scalar:
        """What was entered."""
        return self.values[key].value if key in self.values else otherwise

    def lines(self, mark: str, template: str) -> Iterator[str]:
        """Each value (`{key}`, `{value}`) below its comment."""
        for key, each in self.values.items():
            yield from (f"{mark} {each.comment}", template.format(key=key, value=each.value))

    def missing(self, mark: str) -> Iterator[str]:
        """Lines that name what was left out, each behind the comment mark."""
        yield from (f"{mark} left out: {key} ({reason})" for key, reason in self.left_out.items())

    def parts(self) -> dict[str, Sheet]:
        """Sheets by the first words of the names."""
        found: dict[str, Sheet] = {}
        for kind in ("values", "left_out"):
            for key, each in getattr(self, kind).items():
                part, _, name = key.partition(" ")
                getattr(found.setdefault(part, Sheet()), kind)[name] = each
        return found

    def nested(self, member: Callable[[str, Value], object] = lambda _, each: each.value) -> dict[str, Any]:
        """The values (what `member` makes of path and value) by their names as paths, `a.b.c`."""
        root: dict[str, Any] = {}
        for path, each in self.values.items():
            *tables, name = path.split(".")
            node = root
            for table in tables:
                node = node.setdefault(table, {})
            node[name] = member(path, each)
        return root

    def provenance(self, about: Iterable[str]) -> dict[str, object]:
        """For formats without comments: by key where the value comes from, and what was left out."""
        names = {"value": "value", "unit": "unit", "origin": "origin", "low": "low", "high": "high"}
        names |= {"from": "parameters", "why": "why"}
        values = {key: {name: getattr(each, own) for name, own in names.items()} for key, each in self.values.items()}
        return {"about": [line.strip() for line in about], "values": values, "left_out": self.left_out}


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
        sheet = Sheet()
        for key, known in self.rows(source):
            sheet.put(key, known)
        return "\n".join(self.lines(source, sheet)) + "\n"


def commented(
    name: str, mark: str, title: str, rows: Callable[[Source], Iterable[Row]], body: Callable[[Sheet], Iterable[str]]
) -> Format:
    """A format with comments: what it is, its body, and what was left out."""

    def lines(source: Source, sheet: Sheet) -> Iterator[str]:
        return iter((*source.heading(mark, title), *body(sheet), *sheet.missing(mark)))

    return Format(name, title, rows, lines)
