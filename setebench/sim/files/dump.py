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
    kinds = [("prefetchers", example(kind)) for kind in PREFETCHERS]
    for path, value in [("remote_memory", spec.RemoteMemory()), ("pmu", fault), *kinds]:
        lines += [f"#{line}" for line in _table(value, path, explained)]
    return "\n".join(lines) + "\n"


def example(table: TableType) -> Any:
    """A prefetcher of this kind with its default values, at the level where the kind is usual."""
    second = (spec.LinePair, spec.Streamer, spec.UpDown, spec.StreamBuffer, spec.BestOffset, spec.FeedbackStream)
    level = 2 if table in second else 1
    return table(level=level, fills=f"l{level}")


def _table(value: Any, path: str, explained: set[TableType] | None, header: str = "[{}]") -> Iterator[str]:
    """The lines of one table: header, plain fields, then the tables inside it, as TOML wants it. Kinds of table that
    are not in `explained` yet are explained where it is given."""
    table = type(value)
    fields = table_fields(table) if issubclass(table, msgspec.Struct) else {}
    own = {name: getattr(value, name) for name in fields} if fields else value
    new = bool(fields) and explained is not None and table not in explained
    kind = kind_of(table) if fields else None
    if path:
        yield from ("", ("[[{}]]" if kind else header).format(path))
        if new:
            yield from _comment(table.__doc__ or "")
    if kind:
        yield f'kind = "{kind}"'
    if explained is not None:
        explained.add(table)
    for name, each in own.items():
        if new:
            yield from _comment(
                f"{name}: {fields[name].meaning} ({allowed(fields[name])}{_default(fields[name], each)})"
            )
        if not _tables(each) and each is not None:
            yield from _assignment(name, each)
    for name, each in own.items():
        several = isinstance(each, tuple)
        for inner in _tables(each):
            yield from _table(inner, f"{path}.{name}".lstrip("."), explained, "[[{}]]" if several else "[{}]")


def _tables(value: Any) -> tuple[Any, ...]:
    """The tables that a value is or holds."""
    if isinstance(value, tuple):
        return value if value and isinstance(value[0], msgspec.Struct) else ()
    return (value,) if isinstance(value, msgspec.Struct | dict) else ()


def _default(field: Field, value: Any) -> str:
    if field.default is msgspec.NODEFAULT:
        return "; must be given"
    plain = isinstance(field.default, bool | int | float | str)
    return f"; default {literal(field.default)}" if plain and value != field.default else ""


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


def _comment(text: str) -> Iterator[str]:
    yield from (f"# {line}" for line in textwrap.wrap(" ".join(text.split()), WIDTH))
