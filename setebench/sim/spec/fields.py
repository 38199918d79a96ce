"""What the fields of a machine file mean and which values they may take: the one source of checks and templates.

Meanings are the comments beside the fields in `setebench/sim/spec/__init__.py`, read from its source, so that schema
and documentation can't drift apart; what they may be is in `limits.py`, because a comment can't be executed.
"""

from __future__ import annotations

import ast
import functools
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

import msgspec

from setebench.sim import spec
from setebench.sim.spec.limits import LIMITS, UNLIMITED, Limit, Table

SUPPLEMENTS: dict[tuple[str, str], str] = {
    ("VectorExtra", "bytes16"): "for a load of 16 bytes",
    ("VectorExtra", "bytes32"): "for a load of 32 bytes",
    ("VectorExtra", "bytes64"): "for a load of 64 bytes",
    ("Core", "cores"): "number of cores",
    ("Core", "vector_load_extra"): "what vector loads take longer",
    ("Level", "ways"): "lines per set",
    ("Level", "replacement"): "which line of a full set leaves",
    ("Tlb", "l1_4k"): "level 1, for 4 KiB pages",
    ("Tlb", "l2_4k"): "level 2, for 4 KiB pages",
    ("Tlb", "l1_2m"): "level 1, for 2 MiB pages",
    ("Tlb", "l2_2m"): "level 2, for 2 MiB pages",
    ("Memory", "page_fault_2m_cycles"): "the same for a 2 MiB page",
    ("Prefetcher", "trained_by"): "what trains it; l1_prefetcher, requests of level-1 prefetchers, only at level 2",
    ("Streamer", "directions"): "which runs it follows",
    ("Stride", "max_stride_bytes"): "larger strides are not followed",
    ("Stride", "directions"): "which strides it follows",
    ("Stride", "indexed_by"): "what selects the entry an access trains",
    ("Region", "ip_bits"): "low bits of the instruction address that distinguish keys",
    ("Machine", "name"): "short name",
    ("Machine", "description"): "one line for people",
    ("Machine", "line_size_bytes"): "cache line, of all levels",
    ("Machine", "clock"): "the time-stamp counter",
    ("Machine", "noise"): "disturbances by the system around",
    ("Machine", "core"): "cores and pipelines",
    ("Machine", "tlb"): "data TLBs",
    ("Machine", "memory"): "main memory and pages",
    ("Machine", "remote_memory"): "another socket's memory; a machine without the table has one memory node",
    ("Machine", "software_prefetch"): "software prefetches",
    ("Machine", "prefetchers"): "hardware prefetchers, one of a kind per level",
    ("Machine", "coherence"): "several cores",
    ("Machine", "pmu"): "events that can be counted; a machine without the table counts none",
    ("Fault", "kind"): "what is wrong",
}
"""Meanings for fields whose comment in the schema is missing or gives only the range."""

PREFETCHERS: tuple[Table, ...] = typing.get_args(spec.AnyPrefetcher)


@dataclass(frozen=True)
class Field:
    """One field of a table. `default` is `msgspec.NODEFAULT` for fields that every file must give."""

    name: str
    type: Any
    default: Any
    meaning: str
    limit: Limit

    @property
    def required(self) -> bool:
        """True for a field without a default."""
        return self.default is msgspec.NODEFAULT


@functools.cache
def table_fields(table: Table) -> dict[str, Field]:
    """The fields of a table in their order in the schema, by name."""
    hints = typing.get_type_hints(table, include_extras=True)
    found = {}
    for field in msgspec.structs.fields(table):
        default = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        name = field.name
        found[name] = Field(name, _present(hints[name]), default, _meaning(table, name), _limit(table, name))
    return found


def _present(kind: Any) -> Any:
    """The type of a field's value where it is there: a table that a file may leave out is None otherwise."""
    others = [each for each in typing.get_args(kind) if each is not types.NoneType]
    return others[0] if is_union(kind) and len(others) == 1 else kind


def kind_of(table: Table) -> str | None:
    """The value of `kind` that selects this table, None for a table that has no kinds."""
    config = table.__struct_config__
    return str(config.tag) if config.tag is not None and config.tag_field == "kind" else None


def _limit(table: Table, name: str) -> Limit:
    for base in table.__mro__:
        if name in LIMITS.get(base, {}):
            return LIMITS[base][name]
    return UNLIMITED


def _meaning(table: Table, name: str) -> str:
    comments = _comments()
    for base in table.__mro__:
        comment = (SUPPLEMENTS.get((base.__name__, name), ""), comments.get((base.__name__, name), ""))
        if any(comment):
            return "; ".join(part for part in comment if part).replace("True", "true").replace("False", "false")
    return ""


@functools.cache
def _comments() -> dict[tuple[str, str], str]:
    """Comments of the schema by class and field: the one behind a field, and the lines of comment below it."""
    found = {}
    for file in ("__init__.py", "prefetchers.py", "published.py", "pmu.py"):
        source = files("setebench.sim.spec").joinpath(file).read_text(encoding="utf-8")
        lines = source.splitlines()
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef):
                for name, first, end in _spans(node):
                    found[node.name, name] = " ".join(_comment_lines(lines, first, end))
    return found


def _spans(node: ast.ClassDef) -> Iterator[tuple[str, int, int]]:
    """(field name, index of its last source line, index where the next statement starts) of each annotated field."""
    for index, statement in enumerate(node.body):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            last = (statement.end_lineno or statement.lineno) - 1
            following = node.body[index + 1 : index + 2]
            end = following[0].lineno - 1 if following else (node.end_lineno or 0) + 20
            yield statement.target.id, last, end


def _comment_lines(lines: list[str], first: int, end: int) -> Iterator[str]:
    _code, mark, comment = lines[first].partition("  # ")
    if mark:
        yield comment.strip()
    for line in lines[first + 1 : end]:
        if not line.strip().startswith("#"):
            return
        yield line.strip().removeprefix("#").strip()


# -- types -----------------------------------------------------------------------------------------------------------


def is_table(kind: Any) -> bool:
    """True for a class of the schema."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def is_union(kind: Any) -> bool:
    """True for a choice between tables by their `kind`."""
    return typing.get_origin(kind) in (types.UnionType, typing.Union)


def literals(kind: Any) -> tuple[Any, ...]:
    """The values of a Literal type, () for any other type."""
    return typing.get_args(kind) if typing.get_origin(kind) is Literal else ()


def allowed(field: Field) -> str:
    """The values a field may take, in words."""
    return describe(field.type, field.limit)


def describe(kind: Any, limit: Limit) -> str:
    """The values of type `kind` within `limit`, in words."""
    if kind is bool:
        return "true or false"
    if kind is str:
        return f"text of {limit.least} to {limit.most} characters"
    if literals(kind) or (limit.choices and kind in (int, float)):
        return "one of " + ", ".join(_toml_word(choice) for choice in literals(kind) or limit.choices)
    if kind in (int, float):
        return _range(kind, limit)
    return _describe_container(kind, limit)


def _range(kind: Any, limit: Limit) -> str:
    noun = "whole number" if kind is int else "number"
    prefix = f"power of two, {noun}" if limit.power_of_two else noun
    return f"{prefix} from {limit.low:.15g} to {limit.high:.15g}"


def _describe_container(kind: Any, limit: Limit) -> str:
    if is_table(kind):
        return "a table"
    if is_union(kind):
        return "a table with a kind"
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is dict:
        inner = describe(arguments[1], limit)
        article = "" if inner.startswith("a ") else "a "
        each = "" if inner == "a table" else f", each {article}{inner}"
        return f"a table with keys of {', '.join(limit.keys)}{each}"
    inner = describe(arguments[0], limit)
    count = f"{limit.least} to {limit.most}" if limit.least else f"at most {limit.most}"
    return f"a list of {count}, each {inner}"


def _toml_word(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
