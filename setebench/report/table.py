"""Findings as a table: for a terminal, as CSV, Markdown or LaTeX; and as the JSON document itself.

The forms share their cells. Each escapes for itself, because what is special differs.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from setebench import store
from setebench.errors import UsageError
from setebench.report import numbers
from setebench.report.sections import Reference
from setebench.report.terminal import terminal_table
from setebench.report.text import latex_symbols, markdown_text, visible
from setebench.report.view import RIGHT_ALIGNED, View, title
from setebench.results import Document

_NATURAL_WIDTH = 100_000


def render(
    document: Document,
    form: str,
    *,
    width: int | None = None,
    colour: bool = False,
    references: Sequence[Reference] = (),
) -> str:
    """The document in one of `FORMS`, ending with a newline.

    `width` (columns) and `colour` are for the form `table` on a terminal; without a width nothing is folded. Tables
    get a column for each of `references`. Raises `UsageError` for an unknown form.
    """
    if form not in FORMS:
        raise UsageError(f"unknown form {form!r}; one of {', '.join(FORMS)}")
    view = View(document, references)
    return terminal_table(view, width or _NATURAL_WIDTH, colour) if form == "table" else FORMS[form](view)


# -- forms ---------------------------------------------------------------------------------------------------------


def _json(view: View) -> str:
    return store.dumps(view.document).decode()


def _csv(view: View) -> str:
    """Raw values in full precision, one unit per column: `value` is in `unit`, `value_ns` in ns."""
    ratio = view.ratio
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    nanoseconds = ["value_ns"] if ratio is not None else []
    names = [visible(reference.name) for reference in view.references]
    writer.writerow(["parameter", "value", "unit", "low", "high", *nanoseconds, "outcome", *names, "reason", "method"])
    for finding in view.document.findings:
        inserted = [_csv_cell(numbers.nanoseconds(finding, ratio))] if ratio is not None else []
        bounds = [_csv_cell(finding.low), _csv_cell(finding.high)]
        remarks = [reference.remark(finding) for reference in view.references]
        texts = [visible(text) for text in (finding.outcome, *remarks, finding.reason or "", finding.method)]
        writer.writerow(
            [visible(finding.parameter), _csv_cell(finding.value), visible(finding.unit), *bounds, *inserted, *texts]
        )
    return stream.getvalue()


def _csv_cell(value: Any) -> str:
    record = store.plain(value)
    if record is None:
        return ""
    return visible(record) if isinstance(record, str) else json.dumps(record, ensure_ascii=False)


def _markdown(view: View) -> str:
    from tabulate import tabulate

    rows = [[markdown_text(cell) for cell in row] for row in view.rows()]
    table = tabulate(
        rows,
        headers=view.columns(),
        tablefmt="pipe",
        disable_numparse=True,
        colalign=_alignment(view) if rows else None,
    )
    return f"{markdown_text(title(view.document))}\n\n{table}\n"


def _latex(view: View) -> str:
    """A booktabs tabular; the note column is a paragraph, since sentences don't fit one line."""
    from tabulate import tabulate

    rows = view.rows()
    headers = [column.replace(" %", "\N{NO-BREAK SPACE}%") for column in view.columns()]
    table = tabulate(
        rows,
        headers=headers,
        tablefmt="latex_booktabs",
        disable_numparse=True,
        colalign=_alignment(view) if rows else None,
    )
    table = re.sub(r"l\}$", r"p{0.35\\linewidth}}", table, count=1, flags=re.MULTILINE)
    table = latex_symbols(table.replace("\N{NO-BREAK SPACE}", "~"))
    return f"% {title(view.document)}\n% needs \\usepackage{{booktabs}}\n{table}\n"


def _alignment(view: View) -> tuple[str, ...]:
    return tuple("right" if column in RIGHT_ALIGNED else "left" for column in view.columns())


FORMS: dict[str, Callable[[View], str]] = {
    "table": lambda view: terminal_table(view, _NATURAL_WIDTH, False),
    "json": _json,
    "csv": _csv,
    "markdown": _markdown,
    "latex": _latex,
}
"""The output forms by name."""
