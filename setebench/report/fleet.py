"""A comparison of many nodes as a table, JSON or CSV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from setebench import store
from setebench.report.text import csv_table, in_columns
from setebench.text import visible

if TYPE_CHECKING:  # report knows its records only; the comparison is the fleet's
    from setebench.fleet.comparison import Fleet, Mark, Parameter

SHOWN = 40
"""Marks, and reasons for what was left open, of a table; CSV and JSON have them all."""


def summary(fleet: Fleet) -> str:
    """One line: what was compared, and what stands out."""
    marked, alarms = ({mark.node for mark in marks} for marks in (fleet.marks, fleet.alarms))
    sure = f", {len(alarms):,} of them beyond any false alarm in the whole comparison" if marked else ""
    return (
        f"nodes: {len(fleet.nodes):,}, runs: {fleet.runs:,}, parameters: {len(fleet.parameters):,}; "
        f"nodes that stand out: {len(marked):,}{sure}"
    )


def _value(value: float | str, unit: str) -> str:
    text = value if isinstance(value, str) else f"{value:.5g}"
    return f"{text} {unit}".strip()


def _spread_text(value: float | None, centre: float | str) -> str:
    """A standard deviation, relative where there is something to be relative to."""
    if value is None or isinstance(centre, str):
        return "—"
    return f"{abs(value / centre):.2%}" if centre else f"{value:.3g}"


MARK_COLUMNS = ("node", "parameter", "value", "usual", "change", "false discoveries", "any false alarm")
PARAMETER_COLUMNS = ("parameter", "centre", "within nodes", "between nodes", "nodes")
OPEN_COLUMNS = ("parameter", "nodes", "reason")


def _mark_row(mark: Mark) -> list[str]:
    values = (_value(each, mark.unit) for each in (mark.value, mark.usual))
    change = "—" if mark.change is None else f"{mark.change:+.1%}"
    return [mark.node, mark.parameter, *values, change, f"{mark.q:.2g}", f"{mark.familywise:.2g}{' *' * mark.alarm}"]


def _parameter_row(each: Parameter) -> list[str]:
    spreads = [_spread_text(spread, each.centre) for spread in (each.within, each.between)]
    spreads[0] += "" if each.repeated or each.within is None else " (stated)"
    return [each.parameter, _value(each.centre, each.unit), *spreads, f"{each.nodes:,}"]


def _text(fleet: Fleet) -> str:
    """The summary, and a table of each part that has any rows."""
    left_open = sorted(fleet.open, key=lambda each: -each.count)
    parts: list[tuple[str, Sequence[str], list[list[str]]]] = [
        ("Nodes that stand out", MARK_COLUMNS, [*map(_mark_row, fleet.marks)]),
        ("Parameters", PARAMETER_COLUMNS, [*map(_parameter_row, fleet.parameters)]),
        ("Left open", OPEN_COLUMNS, [[each.parameter, each.nodes, each.reason] for each in left_open]),
    ]
    blocks = [summary(fleet), *map(visible, fleet.notes)]
    for heading, heads, rows in parts:
        most = len(rows) if heads is PARAMETER_COLUMNS else SHOWN
        more = f"\n… and {len(rows) - most:,} more (--format csv has all)" if len(rows) > most else ""
        if rows:
            blocks.append(f"{heading}\n{in_columns([[*map(visible, row)] for row in rows[:most]], heads)}{more}")
    return "\n\n".join(blocks) + "\n"


def _csv(fleet: Fleet) -> str:
    """The marks, in full precision."""
    columns = ("node", "parameter", "value", "usual", "unit", "change", "p", "q", "familywise", "alarm")
    return csv_table([columns, *([getattr(mark, name) for name in columns] for mark in fleet.marks)])


def _json(fleet: Fleet) -> str:
    marks = [{**store.plain(mark), "alarm": mark.alarm} for mark in fleet.marks]
    return store.pretty({"schema": 1, "summary": summary(fleet), **msgspec.structs.asdict(fleet), "marks": marks})


FORMS: dict[str, Callable[[Fleet], str]] = {"table": _text, "json": _json, "csv": _csv}
"""What makes text of a comparison of nodes, by form; it ends with a newline."""
