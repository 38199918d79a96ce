"""Machine files written: a machine as TOML that loads back equal, and a commented template for a new file."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any

import msgspec

from setebench.sim import spec
from setebench.sim.spec.fields import PREFETCHERS, Field, allowed, is_table, kind_of, table_fields
from setebench.sim.spec.limits import Table

WIDTH = 118


def dump(machine: spec.Machine, *, comments: bool = False) -> str:
    """`machine` as TOML text with every field, defaults included; `loader.parse` turns it back into an equal machine.

    With `comments` each field of each kind of table is explained where it stands first.
    """
    return "\n".join(_Writer(comments).table(machine, "")).strip() + "\n"


def template(machine: spec.Machine, name: str) -> str:
    """A commented machine file to start from: `machine` under a new name, and examples of every prefetcher, of another
    memory node and of a PMU. Every field of every table is explained in it."""
    renamed = msgspec.structs.replace(machine, name=name, description="describe your machine here")
    head = (
        "# A simulated memory system for setebench. All cycles are core cycles; latencies are totals, load to use.",
        "# A field that is left out has the value here, but where another default is named. Rules across fields are in",
        "# docs/machine-files.md.",
        "",
    )
    return "\n".join(head) + dump(renamed, comments=True) + "\n" + "\n".join(_examples()) + "\n"


def _examples() -> Iterator[str]:
    yield "# What a machine may have as well: take the comment signs away."
    fault = spec.Pmu(events={"l1d_fill": (spec.Fault(kind="scaled", amount=2.0),)})
    yield from _example(spec.RemoteMemory(), "remote_memory")
    yield from _example(fault, "pmu")
    yield from (f"#{line}" for line in _explained(spec.Fault))
    yield ""
    yield "# Hardware prefetchers: take the comment signs away from those that the machine has."
    for table in PREFETCHERS:
        yield from _example(example(table), "prefetchers")


def _example(value: msgspec.Struct, path: str) -> Iterator[str]:
    for line in _Writer(comments=True).table(value, path):
        yield f"#{line}" if line else "#"


def _explained(table: Table) -> Iterator[str]:
    """What a table within a line is, and its fields."""
    yield from _comment(summary(table))
    for field in table_fields(table).values():
        yield from _comment(f"{field.name}: {field.meaning} ({allowed(field)})")


def summary(table: Table) -> str:
    """What a table is, on one line."""
    return " ".join((table.__doc__ or "").split())


AT_LEVEL_ONE = (
    spec.NextLine,
    spec.Stride,
    spec.Region,
    spec.SpatialPattern,
    spec.ReferencePrediction,
    spec.LocalDeltas,
    spec.InstructionClasses,
    spec.NextPage,
)
"""Kinds that are usual at level 1; the others are at level 2."""


def example(table: Table) -> Any:
    """A prefetcher of this kind with its default values, at the level where the kind is usual."""
    level = 1 if table in AT_LEVEL_ONE else 2
    return table(level=level, fills=f"l{level}")


class _Writer:
    """Writes tables; remembers which kinds of table it has explained."""

    def __init__(self, comments: bool) -> None:
        self._comments = comments
        self._explained: set[Table] = set()

    def table(self, value: msgspec.Struct, path: str) -> Iterator[str]:
        """The lines of one table: header, plain fields, then the tables inside it, as TOML wants it."""
        table = type(value)
        explain = self._comments and table not in self._explained
        self._explained.add(table)
        kind = kind_of(table)
        if path:
            yield ""
            yield f"[[{path}]]" if path in ("levels", "prefetchers") else f"[{path}]"
            yield from _comment(summary(table)) if explain else ()
        if kind:
            yield f'kind = "{kind}"'
        inner = []
        for field in table_fields(table).values():
            if getattr(value, field.name) is None:
                if explain:
                    yield from _comment(f"{field.name}, left out here: {field.meaning} ({allowed(field)})")
            elif _holds_tables(field, getattr(value, field.name)):
                inner.append(field)
            else:
                yield from self._plain(field, getattr(value, field.name), explain)
        for field in inner:
            note = f"{field.meaning} ({allowed(field)})" if explain else ""
            yield from self._inner(getattr(value, field.name), f"{path}.{field.name}" if path else field.name, note)

    def _plain(self, field: Field, value: Any, explain: bool) -> Iterator[str]:
        if explain:
            left_out = "must be given" if field.required else f"default {literal(field.default)}"
            yield from _comment(
                f"{field.meaning} ({allowed(field)}{'' if value == field.default else f'; {left_out}'})"
            )
        yield from _assignment(field.name, value)

    def _inner(self, value: Any, path: str, note: str) -> Iterator[str]:
        if isinstance(value, msgspec.Struct):
            yield from self.table(value, path)
        elif isinstance(value, tuple):
            yield ""
            yield from _comment(note) if note else ()
            for element in value:
                yield from self.table(element, path)
        else:
            yield from self._dictionary(value, path, note)

    def _dictionary(self, value: dict[str, Any], path: str, note: str) -> Iterator[str]:
        yield ""
        yield f"[{path}]"
        yield from _comment(note) if note else ()
        for key, inner in value.items():
            if isinstance(inner, msgspec.Struct):
                yield from self.table(inner, f"{path}.{key}")
            else:
                yield from _assignment(key, inner)


def _holds_tables(field: Field, value: Any) -> bool:
    if is_table(field.type) or isinstance(value, dict):
        return True
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], msgspec.Struct)


def _assignment(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        yield f"{name} = ["
        yield from (f"    {literal(row)}," for row in value)
        yield "]"
    else:
        yield f"{name} = {literal(value)}"


def literal(value: Any) -> str:
    """A plain value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # TOML's basic strings escape as JSON's do, and DEL as well
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, msgspec.Struct):
        return f"{{{', '.join(_inline(value))}}}"
    if isinstance(value, tuple):
        return f"[{', '.join(literal(element) for element in value)}]"
    return repr(value)


def _inline(value: msgspec.Struct) -> Iterator[str]:
    """The fields of an inline table, but for those with their default."""
    for field in table_fields(type(value)).values():
        own = getattr(value, field.name)
        if own != field.default:
            yield f"{field.name} = {literal(own)}"


def _comment(text: str) -> Iterator[str]:
    yield from (f"# {line}" for line in textwrap.wrap(text, WIDTH))
