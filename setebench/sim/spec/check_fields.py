"""Checks of a machine file field by field: known names, types, ranges. Works on the plain data of the TOML parser."""

from __future__ import annotations

import datetime
import difflib
import math
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from setebench.sim import spec
from setebench.sim.files.toml_lines import Path
from setebench.sim.spec.fields import Field, allowed, describe, is_table, is_union, kind_of, literals, table_fields
from setebench.sim.spec.limits import Limit, Table


@dataclass(frozen=True)
class Problem:
    """What is wrong, and where: a path of keys and list indices. `missing` marks fields that are not there at all:
    often a misspelt name, so what is there and wrong is reported first."""

    path: Path
    message: str
    missing: bool = False

    @property
    def name(self) -> str:
        """The path for people: `levels[0].ways`."""
        text = ""
        for part in self.path:
            text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
        return _clip(text)


def field_problems(data: dict[str, Any]) -> list[Problem]:
    """Everything wrong with single fields of a parsed machine file, in no particular order."""
    return list(_table(data, spec.Machine, ()))


def _table(data: dict[str, Any], table: Table, path: Path) -> Iterator[Problem]:
    fields = table_fields(table)
    known = set(fields) | ({"kind"} if kind_of(table) else set())
    for key in data:
        if key not in known:
            yield Problem((*path, key), f"unknown field{_similar(key, known)}; allowed: {', '.join(sorted(known))}")
    for name, field in fields.items():
        if name in data:
            yield from _value(data[name], field.type, field, (*path, name))
        elif field.required:
            yield Problem(path, f"the field {name} is missing; it is {allowed(field)}", missing=True)


def _similar(key: str, known: set[str]) -> str:
    close = difflib.get_close_matches(key[:40], known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _value(value: Any, kind: Any, field: Field, path: Path) -> Iterator[Problem]:
    if is_table(kind):
        yield from _expect_table(value, kind, path)
    elif is_union(kind):
        yield from _tagged(value, typing.get_args(kind), path)
    elif typing.get_origin(kind) is tuple:
        yield from _list(value, typing.get_args(kind)[0], field, path)
    elif typing.get_origin(kind) is dict:
        yield from _dictionary(value, typing.get_args(kind)[1], field, path)
    else:
        yield from _scalar(value, kind, field.limit, path)


def _expect_table(value: Any, table: Table, path: Path) -> Iterator[Problem]:
    if isinstance(value, dict):
        yield from _table(value, table, path)
    else:
        yield Problem(path, f"must be a table, not {_type_name(value)}")


def _tagged(value: Any, tables: tuple[Table, ...], path: Path) -> Iterator[Problem]:
    kinds = {kind_of(table): table for table in tables}
    choices = ", ".join(f'"{kind}"' for kind in kinds)
    if not isinstance(value, dict):
        yield Problem(path, f"must be a table, not {_type_name(value)}")
    elif "kind" not in value:
        yield Problem(path, f"the field kind is missing; it is one of {choices}")
    elif not isinstance(value["kind"], str) or value["kind"] not in kinds:
        yield Problem((*path, "kind"), f"{_shown(value['kind'])} is not allowed; allowed: one of {choices}")
    else:
        yield from _table(value, kinds[value["kind"]], path)


def _list(value: Any, kind: Any, field: Field, path: Path) -> Iterator[Problem]:
    limit = field.limit
    if not isinstance(value, list):
        yield Problem(path, f"must be a list, not {_type_name(value)}; allowed: {describe(tuple[kind, ...], limit)}")
        return
    if not limit.least <= len(value) <= limit.most:
        yield Problem(path, f"{len(value)} elements; allowed: {describe(tuple[kind, ...], limit)}")
        return
    for index, element in enumerate(value):
        yield from _value(element, kind, field, (*path, index))
    if _names_set(kind, limit) and len({str(element) for element in value}) != len(value):
        yield Problem(path, "an element stands there twice")


def _names_set(kind: Any, limit: Limit) -> bool:
    """True for lists that stand for a set of choices."""
    return bool(literals(kind) or limit.choices)


def _dictionary(value: Any, kind: Any, field: Field, path: Path) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield Problem(path, f"must be {allowed(field)}, not {_type_name(value)}")
        return
    if len(value) < field.limit.least:
        yield Problem(path, f"is empty; allowed: {allowed(field)}")
    for key, inner in value.items():
        if key in field.limit.keys:
            yield from _value(inner, kind, field, (*path, key))
        else:
            yield Problem((*path, key), f"unknown key; allowed: {', '.join(field.limit.keys)}")


def _scalar(value: Any, kind: Any, limit: Limit, path: Path) -> Iterator[Problem]:
    if not _has_type(value, kind):
        yield Problem(path, f"must be {describe(kind, limit)}, not {_type_name(value)}")
    elif not _within(value, kind, limit):
        yield Problem(path, f"{_shown(value)} is not allowed; allowed: {describe(kind, limit)}")


def _has_type(value: Any, kind: Any) -> bool:
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, int | float)
    if literals(kind):
        return type(value) in {type(choice) for choice in literals(kind)}
    return isinstance(value, kind)


def _within(value: Any, kind: Any, limit: Limit) -> bool:
    choices = literals(kind) or limit.choices
    if choices:
        return value in choices
    if isinstance(value, str):
        return limit.least <= len(value) <= limit.most and value.isprintable()
    if isinstance(value, bool):
        return True
    return _number_within(value, limit)


def _number_within(value: float, limit: Limit) -> bool:
    if isinstance(value, float) and not math.isfinite(value):
        return False
    below = limit.low is not None and value < limit.low
    above = limit.high is not None and value > limit.high
    if below or above:
        return False
    return not limit.power_of_two or (int(value) & (int(value) - 1)) == 0


_TYPE_NAMES: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number with a fraction",
    str: "text",
    list: "a list",
    dict: "a table",
    datetime.datetime: "a date",
    datetime.date: "a date",
    datetime.time: "a time",
}


def _type_name(value: Any) -> str:
    return _TYPE_NAMES[type(value)]


def _shown(value: Any) -> str:
    """A value for a message, short whatever it is. A number of thousands of digits can't even be printed."""
    if isinstance(value, int) and value.bit_length() > 200:
        return "a number of more than 60 digits"
    return _clip(f'"{value}"' if isinstance(value, str) else str(value))


def _clip(text: str) -> str:
    printable = "".join(character if character.isprintable() else "?" for character in text)
    return printable if len(printable) <= 80 else printable[:77] + "..."
