"""What a format is: rows of the other tool's names with values, and a file in which they are written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
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

    def parts(self) -> defaultdict[str, Sheet]:
        """The values in sheets by the first words of the names."""
        found: defaultdict[str, Sheet] = defaultdict(Sheet)
        for key, each in self.values.items():
            part, _, name = key.partition(" ")
            found[part].values[name] = each
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
        values = {key: asdict(each) for key, each in self.values.items()}
        return {"about": [line.strip() for line in about], "values": values, "left_out": self.left_out}


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its name on the command line, one line about it, what it takes of a result, the lines of the file, and
    the mark of comments, with which the file begins and ends; empty where these lines say all that themselves."""

    name: str
    title: str
    rows: Callable[[Source], Iterable[Row]]
    lines: Callable[[Source, Sheet], Iterable[str]]
    mark: str = ""

    def write(self, source: Source) -> str:
        """The whole file. A level of which it takes nothing is named."""
        sheet = Sheet()
        for key, known in self.rows(source):
            sheet.put(key, known)
        taken = " ".join([*sheet.left_out.values(), *(" ".join(each.parameters) for each in sheet.values.values())])
        for level in source.levels:
            if f"cache.l{level}." not in taken:
                sheet.put(f"L{level}", Open(f"cache.l{level}", "this format has no place for that level"))
        lines = self.lines(source, sheet)
        if self.mark:
            lines = (*source.heading(self.mark, self.title), *lines, *sheet.missing(self.mark))
        return "\n".join(lines) + "\n"
