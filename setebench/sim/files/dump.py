"""Machine files written: a machine as TOML that loads back equal, and a commented template for a new file."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from setebench.sim import spec
from setebench.sim.files.origins import Path
from setebench.sim.spec.fields import PREFETCHERS, TableType, allowed, kind_of, table_fields

WIDTH = 118
HEAD = """\
# A simulated memory system for setebench. All cycles are core cycles; latencies are totals, load to use.
# A field that is left out has the value here, but where another default is named. Rules across fields are in
# docs/machine-files.md.

"""
Remark = Callable[[Path], str]
"""What to say in a comment above a table or a field; nothing for most."""


def dump(machine: spec.Machine, remark: Remark = lambda _: "") -> str:
    """`machine` as TOML text with every field, defaults included, which `loader.parse` makes an equal machine of."""
    return "\n".join(_table(machine, (), remark)).strip() + "\n"


def template(machine: spec.Machine, name: str) -> str:
    """A commented machine file to start from: `machine` under a new name, and examples of every prefetcher and of a
    PMU. Every field of every table is explained where it comes first."""
    renamed = msgspec.structs.replace(machine, name=name, description="describe your machine here")
    fault = spec.Pmu(events={"l1d_fill": (spec.Fault(kind="scaled", amount=2.0),)})
    said = dict(_explained(renamed, ()))

    def remark(path: Path) -> str:
        return said.get(path, "")

    lines = [HEAD + dump(renamed, remark)]
    lines.append("# What a machine may have as well, hardware prefetchers among it: take the comment signs away.")
    for path, value in [(("pmu",), fault), *((("prefetchers", 0), example(kind)) for kind in PREFETCHERS)]:
        said |= _explained(value, path)
        lines += [f"#{line}" for line in _table(value, path, remark)]
    return "\n".join(lines) + "\n"


def example(table: TableType) -> Any:
    """A prefetcher of this kind with its default values, at the level where the kind is usual."""
    second = (spec.LinePair, spec.Streamer, spec.UpDown, spec.StreamBuffer, spec.BestOffset, spec.FeedbackStream)
    level = 2 if table in second else 1
    return table(level=level, fills=f"l{level}")


def _explained(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """What tables and their fields mean and may be, by place; of a list of tables the first."""
    table: TableType = type(value)
    yield path, table.__doc__ or ""
    for name, field in table_fields(table).items():
        own, place = getattr(value, name), (*path, name)
        given = "; must be given" if field.default is msgspec.NODEFAULT else ""
        yield place, f"{name}: {field.meaning} ({allowed(field)}{given})"
        inside = [(place, own), *([((*place, 0), own[0])] if isinstance(own, tuple) and own else [])]
        inside += [((*place, key), each) for key, each in (own.items() if isinstance(own, dict) else ())]
        inside += [((*where, 0), each[0]) for where, each in inside[1:] if isinstance(each, tuple) and each]
        for where, each in inside:
            if isinstance(each, msgspec.Struct):
                yield from _explained(each, where)


def _table(value: Any, path: Path, remark: Remark) -> Iterator[str]:
    """The lines of one table: header, plain fields, then the tables inside it, as TOML wants it."""
    own = value if isinstance(value, dict) else {name: getattr(value, name) for name in value.__struct_fields__}
    if path:
        name = ".".join(part for part in path if isinstance(part, str))
        yield from ("", *_comment(remark(path)), f"[[{name}]]" if isinstance(path[-1], int) else f"[{name}]")
    if isinstance(value, msgspec.Struct) and (kind := kind_of(type(value))):
        yield f'kind = "{kind}"'
    inner: list[tuple[Path, Any]] = []
    for name, each in own.items():
        if isinstance(each, msgspec.Struct | dict):
            inner.append(((*path, name), each))
        elif isinstance(each, tuple) and each and isinstance(each[0], msgspec.Struct):
            inner += [((*path, name, number), one) for number, one in enumerate(each)]
        elif each is not None:
            yield from (*_comment(remark((*path, name))), f"{name} = {literal(each)}")
    for place, each in inner:
        yield from _table(each, place, remark)


def literal(value: Any) -> str:
    """A plain value as TOML, whose basic strings escape as JSON's do, and DEL as well."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple) and value and isinstance(value[0], tuple) and len(value) > 4:
        return "[\n" + "".join(f"    {literal(row)},\n" for row in value) + "]"
    return f"[{', '.join(map(literal, value))}]" if isinstance(value, tuple) else repr(value)


def _comment(text: str) -> Iterator[str]:
    yield from (f"# {line}" for line in textwrap.wrap(" ".join(text.split()), WIDTH))
