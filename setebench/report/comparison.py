"""A comparison as a table, Markdown, CSV or JSON: first what differs, then what agrees, then what can't be decided."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from setebench import store
from setebench.compare import Agreement, Comparison, Row
from setebench.compare import agreement as agreement_of
from setebench.report.numbers import interval_text, value_text
from setebench.report.text import csv_table, in_columns, markdown_text
from setebench.results import Finding, Outcome
from setebench.text import visible

_HEADINGS = {
    Agreement.DIFFERS: "Findings that differ",
    Agreement.SAME: "Findings that agree",
    Agreement.OPEN: "Findings that can't be compared",
}
_LONGEST_SETTING = 60
_COLUMNS = ("value", "unit", "low", "high", "outcome")


def render(comparison: Comparison, form: str) -> str:
    """The comparison in one of `FORMS`, ending with a newline."""
    return _RENDERERS[form](comparison)


def _summary(comparison: Comparison) -> str:
    """One line with the counts."""
    differ, agree, left = (len(comparison.of(agreement)) for agreement in _HEADINGS)
    names = " against ".join(map(visible, comparison.names))
    return f"{names}: {differ} findings differ, {agree} agree, {left} can't be compared"


def _cell(finding: Finding | None) -> str:
    """One finding in a row: its value and interval, or why there is none."""
    if finding is None:
        return "not reported"
    if finding.value is None:
        return finding.outcome.replace("_", " ")
    text = f"{value_text(finding)} {interval_text(finding)}".rstrip()
    return f"{text} (absent)" if finding.outcome is Outcome.ABSENT else text


def _cells(row: Row) -> list[str]:
    """The findings of a row; where there are more than two, those that differ from the first are marked."""
    first, *others = row.findings
    marked = [len(others) > 1 and agreement_of(first, other) is Agreement.DIFFERS for other in others]
    return [_cell(first), *("≠ " * mark + _cell(other) for mark, other in zip(marked, others, strict=True))]


def _setting(value: Any) -> str:
    if value is None:
        return "—"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_SETTING else f"{text[: _LONGEST_SETTING - 1]}…"


def _blocks(comparison: Comparison, block: str, escaped: Callable[[str], str]) -> str:
    """The counts, and a table of each part that has any rows."""
    settings = [[setting.name, *map(_setting, setting.values)] for setting in comparison.settings]
    parts = [("Settings and machines that differ", "setting", settings)]
    for agreement, heading in _HEADINGS.items():
        parts.append((heading, "parameter", [[row.parameter, *_cells(row)] for row in comparison.of(agreement)]))
    blocks = [escaped(_summary(comparison))]
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


def _json(comparison: Comparison) -> str:
    rows = [
        {"parameter": row.parameter, "agreement": str(row.agreement), "findings": row.findings}
        for row in comparison.rows
    ]
    document = {"schema": 1, "names": comparison.names, "settings": comparison.settings, "rows": rows}
    return json.dumps(store.plain(document), ensure_ascii=False, indent=1) + "\n"


_RENDERERS: dict[str, Callable[[Comparison], str]] = {
    "table": lambda comparison: _blocks(comparison, "{}\n{}", str),
    "markdown": lambda comparison: _blocks(comparison, "## {}\n\n{}", markdown_text),
    "csv": _csv,
    "json": _json,
}
FORMS = tuple(_RENDERERS)
"""The forms of a comparison."""
