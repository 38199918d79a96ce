"""A comparison of many nodes as a table, JSON or CSV."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from setebench import store
from setebench.report.text import csv_table, in_columns
from setebench.text import visible

if TYPE_CHECKING:  # report knows its records only; the comparison is the fleet's
    from setebench.fleet.comparison import Fleet, Mark, Parameter

SHOWN_MARKS = 40
"""Marks of a table; CSV and JSON have them all."""

SHOWN_REASONS = 30
"""Lines of what was left open."""

_NEVER = 10.0
"""A change of a parameter, as a fraction, that is none of the same thing any more."""


def render(fleet: Fleet, form: str) -> str:
    """The comparison in one of `FORMS`, ending with a newline."""
    return _RENDERERS[form](fleet)


def summary(fleet: Fleet) -> str:
    """One line: what was compared, and what stands out."""
    nodes = list(dict.fromkeys(mark.node for mark in fleet.marks))
    alarms = len({mark.node for mark in fleet.alarms})
    out = f"{_count(len(nodes), 'node stands', 'nodes stand')} out" if nodes else "no node stands out"
    sure = f", {_count(alarms, 'of them', 'of them')} beyond any false alarm in the whole comparison" if nodes else ""
    return (
        f"{_count(len(fleet.nodes), 'node', 'nodes')}, {_count(fleet.runs, 'run', 'runs')}, "
        f"{_count(len(fleet.parameters), 'parameter', 'parameters')}: {out}{sure}"
    )


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _value(value: float | str | None, unit: str = "") -> str:
    if value is None:
        return "—"
    text = value if isinstance(value, str) else f"{value:.5g}"
    return f"{text} {unit}".strip()


def _spread_text(value: float | None, centre: float | str) -> str:
    """A standard deviation, relative where there is something to be relative to."""
    if value is None or isinstance(centre, str):
        return "—"
    if centre and abs(value / centre) >= _NEVER:
        return "never"
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


def _tables(fleet: Fleet) -> list[tuple[str, Sequence[str], list[list[str]], int]]:
    """Heading, columns and rows of each part that has any, and how many rows are not shown."""
    marks = [_mark_row(mark) for mark in fleet.marks[:SHOWN_MARKS]]
    left_open = sorted(fleet.open, key=lambda each: -each.count)
    reasons = [[each.parameter, each.nodes, each.reason] for each in left_open[:SHOWN_REASONS]]
    parts = [
        ("Nodes that stand out", MARK_COLUMNS, marks, len(fleet.marks) - len(marks)),
        ("Parameters", PARAMETER_COLUMNS, [_parameter_row(each) for each in fleet.parameters], 0),
        ("Left open", OPEN_COLUMNS, reasons, len(left_open) - len(reasons)),
    ]
    shown = ((heading, columns, [[*map(visible, row)] for row in rows], more) for heading, columns, rows, more in parts)
    return [part for part in shown if part[2]]


def _text(fleet: Fleet) -> str:
    blocks = [summary(fleet)]
    blocks += [visible(note) for note in fleet.notes]
    for heading, heads, rows, more in _tables(fleet):
        blocks.append(
            f"{heading}\n{in_columns(rows, heads)}" + (f"\n… and {more:,} more (--format csv has all)" if more else "")
        )
    return "\n\n".join(blocks) + "\n"


def _csv(fleet: Fleet) -> str:
    """The marks, in full precision."""
    columns = ("node", "parameter", "value", "usual", "unit", "change", "p", "q", "familywise", "alarm")
    return csv_table([columns, *([getattr(mark, name) for name in columns] for mark in fleet.marks)])


def _json(fleet: Fleet) -> str:
    kept = ("nodes", "runs", "tests", "parameters", "open", "notes")
    document: dict[str, Any] = {"schema": 1, "summary": summary(fleet), **{each: getattr(fleet, each) for each in kept}}
    document["marks"] = [{**store.plain(mark), "alarm": mark.alarm} for mark in fleet.marks]
    return json.dumps(store.plain(document), ensure_ascii=False, indent=1) + "\n"


_RENDERERS: dict[str, Callable[[Fleet], str]] = {"table": _text, "json": _json, "csv": _csv}
FORMS = tuple(_RENDERERS)
"""The forms of a comparison of nodes."""
