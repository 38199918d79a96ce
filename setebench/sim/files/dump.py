"""Machine files written: a machine as TOML that loads back equal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from setebench.sim import spec
from setebench.sim.files.origins import Path
from setebench.sim.spec.fields import kind_of


def dump(machine: spec.Machine) -> str:
    """`machine` as TOML text with every field, defaults included, which `loader.parse` makes an equal machine of."""
    return "\n".join(_table(machine, ())).strip() + "\n"


def _table(value: Any, path: Path) -> Iterator[str]:
    """The lines of one table: header, plain fields, then the tables inside it, as TOML wants it."""
    own = value if isinstance(value, dict) else {name: getattr(value, name) for name in value.__struct_fields__}
    if path:
        name = ".".join(part for part in path if isinstance(part, str))
        yield from ("", f"[[{name}]]" if isinstance(path[-1], int) else f"[{name}]")
    if isinstance(value, msgspec.Struct) and (kind := kind_of(type(value))):
        yield f'kind = "{kind}"'
    inner: list[tuple[Path, Any]] = []
    for name, each in own.items():
        if isinstance(each, msgspec.Struct | dict):
            inner.append(((*path, name), each))
        elif isinstance(each, tuple) and each and isinstance(each[0], msgspec.Struct):
            inner += [((*path, name, number), one) for number, one in enumerate(each)]
        elif each is not None:
            yield f"{name} = {literal(each)}"
    for place, each in inner:
        yield from _table(each, place)


def literal(value: Any) -> str:
    """A plain value as TOML, whose basic strings escape as JSON's do, and DEL as well."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return "[\n" + "".join(f"    {literal(row)},\n" for row in value) + "]"
    return f"[{', '.join(map(literal, value))}]" if isinstance(value, tuple) else repr(value)
