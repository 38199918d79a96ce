"""Where the fields of a machine file come from: an optional table `[origins]` that the simulator does not read.

A twin of a measured machine says there of each field whether it was measured, bounded or assumed.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from setebench.errors import UsageError
from setebench.sim.spec.table import Table

TABLE = "origins"
Kind = Literal["measured", "bounded", "assumed", "fitted"]
Path = tuple[str | int, ...]
"""A field as keys and list indices."""


class Origin(Table, frozen=True, kw_only=True):
    """Of one field: how its value came about. `low` and `high` bound numbers, in the field's unit, at 95 % where it
    was measured; `parameters` are the findings behind it; `why` is the method, or the reason for assuming."""

    origin: Kind
    low: float | None = None
    high: float | None = None
    parameters: tuple[str, ...] = ()
    why: str = ""


def take_origins(data: dict[str, Any], file: str) -> dict[str, Origin]:
    """Take the table out of a parsed machine file: origins by field, as `levels[0].ways`. Raises `UsageError`."""
    found = data.pop(TABLE, {})
    try:
        return msgspec.convert(found, dict[str, Origin])
    except msgspec.ValidationError as error:
        raise UsageError(f"{file}: [{TABLE}]: {error}") from error


def field_name(path: Path) -> str:
    """The path of keys and indices as origins name it: `levels[0].ways`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
