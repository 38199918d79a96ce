"""Machine files written: a machine as TOML that loads back equal, and a commented template for a new file."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any

import msgspec

from setebench.sim import spec
from setebench.sim.spec.fields import PREFETCHERS, Field, TableType, allowed, kind_of, table_fields

WIDTH = 118
HEAD = """\
# A simulated memory system for setebench. All cycles are core cycles; latencies are totals, load to use.
# A field that is left out has the value here, but where another default is named. Rules across fields are in
# docs/machine-files.md.

"""


def dump(machine: spec.Machine) -> str:
    """`machine` as TOML text with every field, defaults included, which `loader.parse` makes an equal machine of."""
    return "\n".join(_table(machine, "", None)).strip() + "\n"


def template(machine: spec.Machine, name: str) -> str:
    """A commented machine file to start from: `machine` under a new name, and examples of every prefetcher, of another
    memory node and of a PMU. Every field of every table is explained in it."""
    renamed = msgspec.structs.replace(machine, name=name, description="describe your machine here")
    explained: set[TableType] = set()
    lines = [HEAD + "\n".join(_table(renamed, "", explained)).strip(), ""]
    lines.append("# What a machine may have as well, hardware prefetchers among it: take the comment signs away.")
    fault = spec.Pmu(events={"l1d_fill": (spec.Fault(kind="scaled", amount=2.0),)})
    examples = [("remote_memory", spec.RemoteMemory()), ("pmu", fault)]
    for path, value in [*examples, *(("prefetchers", example(kind)) for kind in PREFETCHERS)]:
        lines += [f"#{line}" for line in _table(value, path, explained)]
    return "\n".join(lines) + "\n"


def example(table: TableType) -> Any:
    """A prefetcher of this kind with its default values, at the level where the kind is usual."""
    second = (spec.LinePair, spec.Streamer, spec.UpDown, spec.StreamBuffer, spec.BestOffset, spec.FeedbackStream)
    level = 2 if table in second else 1
    return table(level=level, fills=f"l{level}")


def _table(value: msgspec.Struct, path: str, explained: set[TableType] | None) -> Iterator[str]:
    """The lines of one table: header, plain fields, then the tables inside it, as TOML wants it. Kinds of table that
    are not in `explained` yet are explained where it is given."""
    table = type(value)
    explains = explained is not None and table not in explained
    if path:
        yield from ("", f"[[{path}]]" if kind_of(table) or isinstance(value, spec.Level | spec.Fault) else f"[{path}]")
    if explains and path:
        yield from comment(" ".join((table.__doc__ or "").split()))
    if kind_of(table):
        yield f'kind = "{kind_of(table)}"'
    if explained is not None:
        explained.add(table)
    inner = []
    for field in table_fields(table).values():
        own = getattr(value, field.name)
        if explains:
            yield from comment(f"{field.name}: {field.meaning} ({allowed(field)}{_default(field, own)})")
        if isinstance(own, msgspec.Struct | dict) or (own and isinstance(own, tuple) and _are_tables(own)):
            inner.append((f"{path}.{field.name}".lstrip("."), own))
        elif own is not None:
            yield from _assignment(field.name, own)
    for name, own in inner:
        yield from _inner(own, name, explained)


def _are_tables(values: tuple[Any, ...]) -> bool:
    return isinstance(values[0], msgspec.Struct)


def _default(field: Field, value: Any) -> str:
    if field.required:
        return "; must be given"
    plain = isinstance(field.default, bool | int | float | str)
    return f"; default {literal(field.default)}" if plain and value != field.default else ""


def _inner(value: Any, path: str, explained: set[TableType] | None) -> Iterator[str]:
    """A table, a list of tables, or a dictionary."""
    if isinstance(value, msgspec.Struct):
        yield from _table(value, path, explained)
    elif isinstance(value, tuple):
        for element in value:
            yield from _table(element, path, explained)
    else:
        yield from ("", f"[{path}]")
        tables = {key: own for key, own in value.items() if own and isinstance(own, msgspec.Struct | tuple)}
        for key in (key for key in value if key not in tables):
            yield from _assignment(key, value[key])
        for key, own in tables.items():
            yield from _inner(own, f"{path}.{key}", explained)


def _assignment(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, tuple) and len(value) > 4 and isinstance(value[0], tuple):
        yield f"{name} = ["
        yield from (f"    {literal(row)}," for row in value)
        yield "]"
    else:
        yield f"{name} = {literal(value)}"


def literal(value: Any) -> str:
    """A plain value as TOML, whose basic strings escape as JSON's do, and DEL as well."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return f"[{', '.join(map(literal, value))}]" if isinstance(value, tuple) else repr(value)


def comment(text: str) -> Iterator[str]:
    """Text as lines of comment."""
    yield from (f"# {line}" for line in textwrap.wrap(text, WIDTH))
