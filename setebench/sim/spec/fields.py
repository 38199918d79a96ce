"""What the fields of a machine file may be, as their types say, for whoever fills them."""

from __future__ import annotations

import functools
import typing
from typing import Any, Literal, NamedTuple

import msgspec

from setebench.sim import spec

TableType = type[msgspec.Struct]
PREFETCHERS: tuple[TableType, ...] = typing.get_args(spec.AnyPrefetcher)


RENAMED = {(spec.Stride, "entries"): "streams", (spec.Region, "active_regions"): "streams"}
"""Fields that findings call something else than their name without the unit."""


class Field(NamedTuple):
    """One field of a table. `default` is `msgspec.NODEFAULT` for fields that every file must give; `limits` has the
    range of a number, or how many characters, elements or keys there may be."""

    type: Any
    default: Any
    limits: tuple[float | None, float | None]


@functools.cache
def table_fields(table: TableType) -> dict[str, Field]:
    """The fields of a table in their order in the schema, by name."""
    hints, found = typing.get_type_hints(table, include_extras=True), dict[str, Field]()
    for field in msgspec.structs.fields(table):
        kind, meta, *_ = typing.get_args(hints[field.name])  # the first note on a type has its limits
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        limits = (meta.min_length, meta.max_length) if meta.ge is None else (meta.ge, meta.le)
        found[field.name] = Field(kind, default, limits)
    return found


def finding_names(kind: TableType) -> dict[str, str]:
    """The fields of a kind of prefetcher by the names that findings have for them."""
    return {RENAMED.get((kind, name), name.removesuffix("_bytes")): name for name in table_fields(kind)}


def kind_of(table: TableType) -> str | None:
    """The value of `kind` that selects this table, None for a table that has no kinds."""
    config = table.__struct_config__
    return str(config.tag) if config.tag is not None and config.tag_field == "kind" else None


def literals(kind: Any) -> tuple[Any, ...]:
    """The values of a Literal type, () for any other type."""
    return typing.get_args(kind) if typing.get_origin(kind) is Literal else ()
