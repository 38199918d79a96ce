"""A comparison as a table, Markdown, CSV or JSON: first what differs, then what agrees, then what can't be decided."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from setebench import store
from setebench.compare import Agreement, Comparison, Row
from setebench.compare import agreement as agreement_of
from setebench.report.text import csv_table, in_columns, interval_text, markdown_text, value_text
from setebench.results import Outcome
from setebench.text import visible

_HEADINGS = {
    Agreement.DIFFERS: "Findings that differ",
    Agreement.SAME: "Findings that agree",
    Agreement.OPEN: "Findings that can't be compared",
}
_COLUMNS = ("value", "unit", "low", "high", "outcome")


def _cells(row: Row) -> list[str]:
    """The findings of a row: value and interval, or why there is none; where there are more than two, those that differ
    from the first are marked. Versions of the method are named where they are not the same."""
    cells, versions = [], row.method_versions
    for finding in row.findings:
        text = "not reported" if finding is None else finding.outcome.replace("_", " ")
        if finding is not None and finding.value is not None:
            absent = "(absent)" if finding.outcome is Outcome.ABSENT else ""
            text = " ".join(filter(None, (value_text(finding), interval_text(finding), absent)))
        marked = len(row.findings) > 2 and agreement_of(row.findings[0], finding) is Agreement.DIFFERS
        method = f" (method {finding.method_version})" if finding is not None and len(versions) > 1 else ""
        cells.append("≠ " * marked + text + method)
    return cells


def _setting(value: Any) -> str:
    return "—" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _blocks(comparison: Comparison, block: str, escaped: Callable[[str], str]) -> str:
    """The counts, and a table of each part that has any rows."""
    differ, agree, left = (len(comparison.of(agreement)) for agreement in _HEADINGS)
    names = " against ".join(comparison.names)
    counts = f"{names}: {differ} findings differ, {agree} agree, {left} can't be compared"
    others = sum(len(row.method_versions) > 1 for row in comparison.rows)
    counts += f"; {others} were measured by different versions of a method" if others else ""
    blocks = [escaped(visible(counts))]
    settings = [[setting.name, *map(_setting, setting.values)] for setting in comparison.settings]
    parts = [("Machines, and settings that differ", "setting", settings)]
    for agreement, heading in _HEADINGS.items():
        parts.append((heading, "parameter", [[row.parameter, *_cells(row)] for row in comparison.of(agreement)]))
    for heading, first, rows in parts:
        if rows:
            head, *cells = [[escaped(visible(each)) for each in row] for row in ([first, *comparison.names], *rows)]
            blocks.append(block.format(heading, in_columns(cells, head, markdown=escaped is markdown_text)))
    return "\n\n".join(blocks) + "\n"


def _csv(comparison: Comparison) -> str:
    head = ["agreement", "parameter", *(f"{name} {column}" for name in comparison.names for column in _COLUMNS)]
    rows = [
        [row.agreement, row.parameter, *(getattr(each, column, None) for each in row.findings for column in _COLUMNS)]
        for row in comparison.rows
    ]
    return csv_table([head, *rows])


FORMS: dict[str, Callable[[Comparison], str]] = {
    "table": lambda comparison: _blocks(comparison, "{}\n{}", str),
    "markdown": lambda comparison: _blocks(comparison, "## {}\n\n{}", markdown_text),
    "csv": _csv,
    "json": lambda comparison: store.pretty({"schema": 1, **msgspec.structs.asdict(comparison)}),
}
"""What makes text of a comparison, by form; it ends with a newline."""
