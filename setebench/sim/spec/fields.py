"""What the fields of a machine file mean and may be, as their types say: for templates and for whoever fills them."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from setebench.sim import spec

TableType = type[msgspec.Struct]


def tables_in(kind: Any) -> Iterator[TableType]:
    """The tables that a type is made of: itself, those of a list or a dictionary, or those to choose from."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for inner in typing.get_args(kind):
        yield from tables_in(inner)


PREFETCHERS: tuple[TableType, ...] = tuple(tables_in(spec.AnyPrefetcher))


@dataclass(frozen=True)
class Field:
    """One field of a table. `default` is `msgspec.NODEFAULT` for fields that every file must give; `limits` has the
    range of a number, or how many characters, elements or keys there may be."""

    name: str
    type: Any
    default: Any
    meaning: str
    limits: tuple[float | None, float | None]


@functools.cache
def table_fields(table: TableType) -> dict[str, Field]:
    """The fields of a table in their order in the schema, by name."""
    hints = typing.get_type_hints(table, include_extras=True)
    return {field.name: _field(field, hints[field.name]) for field in msgspec.structs.fields(table)}


def _field(field: msgspec.structs.FieldInfo, annotated: Any) -> Field:
    kind, meta = typing.get_args(annotated)
    present = [each for each in typing.get_args(kind) if each is not types.NoneType]
    if types.NoneType in typing.get_args(kind):  # a table that may be left out
        (kind,) = present
    factory = field.default_factory
    default = field.default if factory is msgspec.NODEFAULT else factory()
    limits = (meta.min_length, meta.max_length) if meta.ge is None else (meta.ge, meta.le)
    return Field(field.name, kind, default, meta.description, limits)


def kind_of(table: TableType) -> str | None:
    """The value of `kind` that selects this table, None for a table that has no kinds."""
    config = table.__struct_config__
    return str(config.tag) if config.tag is not None and config.tag_field == "kind" else None


def literals(kind: Any) -> tuple[Any, ...]:
    """The values of a Literal type, () for any other type."""
    return typing.get_args(kind) if typing.get_origin(kind) is Literal else ()


def allowed(field: Field) -> str:
    """The values a field may take, in words."""
    kind, (low, high) = field.type, field.limits
    if literals(kind):
        return "one of " + ", ".join(f'"{word}"' if isinstance(word, str) else str(word) for word in literals(kind))
    if kind in (int, float):
        return f"{'whole number' if kind is int else 'number'} from {low:.15g} to {high:.15g}"
    many = "" if low is None else f" of {low} to {high}"
    if typing.get_origin(kind) is dict:
        return f"a table with keys of {', '.join(literals(typing.get_args(kind)[0]))}"
    names: dict[Any, str] = {bool: "true or false", str: f"text{many} characters", tuple: "a list" + many}
    return names.get(kind) or names.get(typing.get_origin(kind)) or "a table"
