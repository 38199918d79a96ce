"""`setebench counters list`: what can be counted here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from setebench import store
from setebench.cli.options import forms_options
from setebench.cli.output import Output
from setebench.report.text import in_columns

FORMS = ("table", "json")
SCHEMA = 1
Row = dict[str, Any]


@click.command("list")
@click.option("--all", "everything", is_flag=True, help="Also the events of PMUs that the kernel names.")
@forms_options(FORMS)
def list_roles(everything: bool, **values: Any) -> None:
    """List what can be counted here. Each role has its meaning, unit and event, or why it can't be.

    Nothing is counted. That an event can be counted doesn't say that it counts what its role says.
    """
    target = Output.choose(values, FORMS)
    rows = _rows(everything)
    target.write(_json(rows) if target.form == "json" else _table(rows))


def _rows(everything: bool) -> list[Row]:
    """What there is to count; `reason` says why it can't be counted here."""
    from setebench.native.perf.encode import Resolver

    return [
        {
            "name": each.name,
            "meaning": meaning,
            "unit": each.unit,
            "scope": str(each.scope),
            "event": each.event,
            "countable": not each.reason,
            "reason": each.reason,
        }
        for each, meaning in Resolver().offers(everything)
    ]


def _table(rows: Sequence[Row]) -> str:
    """Names, units, and events or the number of a reason, which stands below: most roles share one."""
    reasons = list(dict.fromkeys(row["reason"] for row in rows if row["reason"]))
    numbers = {reason: f"[{number}]" for number, reason in enumerate(reasons, 1)}
    cells = [(row["name"], row["unit"], numbers.get(row["reason"]) or row["event"], row["meaning"]) for row in rows]
    below = "".join(f"{number} not here: {reason}\n" for reason, number in numbers.items())
    return in_columns(cells, ("name", "unit", "event", "meaning")) + "\n" + (f"\n{below}" if below else "")


def _json(rows: Sequence[Row]) -> str:
    document = {"schema": SCHEMA, "kind": "counters list", "tool": store.this_tool(), "events": rows}
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"
