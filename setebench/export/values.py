"""A value on its way to another tool: what it is in that tool's unit, how sure, and by which way it came about. And
what a format is: rows of that tool's names with values, and a file in which they are written."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from setebench.export.source import Source

Scalar = float | int | bool | str
Rounding = Callable[[float], float | int]


class Origin(StrEnum):
    """How far a value can be trusted, the surest first."""

    MEASURED = "measured"
    AT_LEAST = "at least"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Value:
    """What another tool is given. `low` and `high` bound numbers at 95 %, in `unit`; `why` is the method of
    measuring, or the reason for assuming; `parameters` are the findings behind it."""

    value: Scalar
    unit: str
    origin: Origin
    why: str
    low: float | None = None
    high: float | None = None
    parameters: tuple[str, ...] = ()

    @property
    def comment(self) -> str:
        """Origin, interval, parameters and method, on one line."""
        parts = [str(self.origin)]
        if self.low is not None or self.high is not None:
            parts.append(f"95 % in [{_end(self.low)}, {_end(self.high)}] {self.unit}".rstrip())
        parts += ["from " + ", ".join(self.parameters)] if self.parameters else []
        return "; ".join([*parts, self.why] if self.why else parts)


@dataclass(frozen=True, slots=True)
class Open:
    """What a result does not settle, and why."""

    parameter: str
    reason: str


Known = Value | Open
Row = tuple[str, Known]
"""A name of the other tool's, and what it is given for it."""


def assumed(value: Scalar, unit: str, why: str) -> Value:
    """A value that nobody measured; `why` must say where it is from."""
    return Value(value, unit, Origin.ASSUMED, why)


def with_assumption(known: Known, why: str) -> Known:
    """`known` where it rests on an assumption as well: no surer than assumed, its interval kept."""
    if isinstance(known, Open):
        return known
    whys = (why, "rests on a lower bound" if known.origin is Origin.AT_LEAST else "", known.why)
    return replace(known, origin=Origin.ASSUMED, why="; ".join(filter(None, whys)))


def reworded(known: Known, word: Callable[[Scalar], Scalar]) -> Known:
    """`known` in the other tool's words, which have neither unit nor interval."""
    return known if isinstance(known, Open) else replace(known, value=word(known.value), unit="", low=None, high=None)


def exact(known: Known) -> Known:
    """`known` where it is more than a lower bound, for what would take a bound for the value."""
    if isinstance(known, Value) and known.origin is Origin.AT_LEAST:
        return Open(known.parameters[0], f"only a lower bound is known, {known.value} {known.unit}".rstrip())
    return known


def derived(
    rule: Callable[..., float], unit: str, inputs: Sequence[Known], how: str = "", rounding: Rounding = round
) -> Known:
    """`rule` of the inputs' values, rounded. The interval spans the rule at all corners of the inputs' intervals,
    which bounds it for rules that are monotone in every input. A bound is passed on by rules of one input, which all
    grow with it, and leaves those of several open: they may fall with it."""
    values: list[Value] = []
    for each in inputs if len(inputs) == 1 else map(exact, inputs):
        if isinstance(each, Open):
            return each
        values.append(each)
    names = tuple(dict.fromkeys(name for each in values for name in each.parameters))
    corners = ([end for end in (each.value, each.low, each.high) if end is not None] for each in values)
    try:
        rounded = rounding(rule(*(each.value for each in values)))
        ends = [rule(*corner) for corner in itertools.product(*corners)]
    except (ArithmeticError, ValueError):
        return Open(", ".join(names), f"no number of {unit} follows from these values")
    low, high = (min(ends), max(ends)) if len(ends) > 1 else (None, None)
    high = None if any(each.origin is Origin.AT_LEAST for each in values) else high  # a bound has no other end
    whys = [why for why in (how, *dict.fromkeys(each.why for each in values)) if why]
    origin = max((each.origin for each in values), key=tuple(Origin).index)
    return Value(rounded, unit, origin, "; ".join(whys), low, high, names)


def _end(end: float | None) -> str:
    return "-" if end is None else f"{end:.4g}" if abs(end) < 1e4 else f"{end:.0f}"


# -- formats -----------------------------------------------------------------------------------------------------------


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
