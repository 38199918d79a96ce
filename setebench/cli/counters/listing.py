"""`setebench counters list`: what can be counted here."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from setebench import store
from setebench.cli.output import Output, print_text
from setebench.errors import UsageError
from setebench.report.text import csv_table

FORMS = ("table", "json", "csv")
SCHEMA = 1
TEXT_WIDTH = 100
"""Of reasons below the table, in columns."""

Row = dict[str, Any]


@click.command("list")
@click.option("--all", "everything", is_flag=True, help="Also the events of PMUs that the kernel names.")
@click.option(
    "--format", "form", type=click.Choice(FORMS), help="Form of the list.  [default: table, or by FILE's extension]"
)
@click.option("-o", "--output", metavar="FILE", help="Write to FILE instead of standard output (-).")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def list_roles(everything: bool, form: str | None, output: str | None, force: bool) -> None:
    """List every role with its meaning and unit, whether it can be counted here, by which event, or why not.

    Nothing is counted. That an event can be counted doesn't say that it counts what its role says.
    """
    target = Output.choose(output, form, force)
    if target.form not in FORMS:
        raise UsageError(f"the list has no form {target.form!r}; use {', '.join(FORMS)}")
    target.check()
    text = _FORMS[target.form](_rows(everything)).encode()
    if target.path is None:
        print_text(text)
    else:
        store.write(target.path, text, target.force)


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
    cells = [(row["name"], row["unit"], numbers.get(row["reason"], row["event"]), row["meaning"]) for row in rows]
    widths = [max(map(len, column), default=0) for column in zip(*cells, strict=True)]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    below = [
        textwrap.fill(f"{number} not here: {reason}", TEXT_WIDTH, subsequent_indent="    ", break_on_hyphens=False)
        for reason, number in numbers.items()
    ]
    return "".join(f"{line}\n" for line in [*lines, *([""] if below else []), *below])


def _json(rows: Sequence[Row]) -> str:
    document = {"schema": SCHEMA, "kind": "counters list", "tool": store.this_tool(), "events": rows}
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


def _csv(rows: Sequence[Row]) -> str:
    said = [{**row, "countable": "yes" if row["countable"] else "no"} for row in rows]
    return csv_table([rows[0].keys(), *(each.values() for each in said)])


_FORMS = {"table": _table, "json": _json, "csv": _csv}
