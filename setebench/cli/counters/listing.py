"""`setebench counters list`: what can be counted here."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

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


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One role, or one event that the kernel names: `reason` says why it can't be counted here."""

    name: str
    meaning: str
    unit: str
    scope: str
    event: str
    countable: bool
    reason: str = ""


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
    from setebench.native.perf.program.wanted import Resolver

    return [
        Row(
            name=each.wanted.name,
            meaning=each.meaning,
            unit=each.wanted.unit,
            scope=str(each.wanted.scope),
            event=each.wanted.event,
            countable=not each.reason,
            reason=each.reason,
        )
        for each in Resolver().offers(everything)
    ]


def _table(rows: Sequence[Row]) -> str:
    """Names, units, and events or the number of a reason, which stands below: most roles share one."""
    reasons = list(dict.fromkeys(row.reason for row in rows if row.reason))
    cells = [(row.name, row.unit, _how(row, reasons), row.meaning) for row in rows]
    widths = [max(map(len, column), default=0) for column in zip(*cells, strict=True)]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    below = [
        textwrap.fill(f"[{number}] not here: {reason}", TEXT_WIDTH, subsequent_indent="    ", break_on_hyphens=False)
        for number, reason in enumerate(reasons, 1)
    ]
    return "".join(f"{line}\n" for line in [*lines, *([""] if below else []), *below])


def _how(row: Row, reasons: Sequence[str]) -> str:
    return row.event if row.countable else f"[{reasons.index(row.reason) + 1}]"


def _json(rows: Sequence[Row]) -> str:
    document = {"schema": SCHEMA, "kind": "counters list", "tool": store.this_tool(), "events": list(rows)}
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


def _csv(rows: Sequence[Row]) -> str:
    told = ({**msgspec.structs.asdict(row), "countable": "yes" if row.countable else "no"} for row in rows)
    return csv_table([Row.__struct_fields__, *(each.values() for each in told)])


_FORMS = {"table": _table, "json": _json, "csv": _csv}
