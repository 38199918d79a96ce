"""Findings as a table: for a terminal, as CSV, Markdown or LaTeX; and as the JSON document itself.

The forms share their cells. Each escapes for itself, because what is special differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from setebench import store
from setebench.errors import UsageError
from setebench.report import numbers
from setebench.report.sections import Reference, Section
from setebench.report.terminal import terminal_table
from setebench.report.text import csv_table, in_columns, latex_text, markdown_text
from setebench.report.view import RIGHT_ALIGNED, View, shortcomings, title, verified
from setebench.results import Document
from setebench.text import visible

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
    if form in TERMINAL:
        return terminal_table(view, width or _NATURAL_WIDTH, colour and form == "table", form == "overview")
    return _RENDERERS[form](view)


# -- forms ---------------------------------------------------------------------------------------------------------


def _json(view: View) -> str:
    return store.dumps(view.document).decode()


def _csv(view: View) -> str:
    """Raw values in full precision, one unit per column: `value` is in `unit`, `value_ns` in ns."""
    ratio = view.ratio
    nanoseconds = ["value_ns"] if ratio is not None else []
    names = [reference.name for reference in view.references]
    rows: list[list[Any]] = [
        ["parameter", "value", "unit", "low", "high", *nanoseconds, "outcome", *names, "reason", "method"]
    ]
    for finding in view.document.findings:
        inserted = [numbers.nanoseconds(finding, ratio)] if ratio is not None else []
        own = [finding.parameter, finding.value, finding.unit, finding.low, finding.high, *inserted, finding.outcome]
        rows.append([*own, *(each.remark(finding) for each in view.references), finding.reason, finding.method])
    return csv_table(rows)


def _markdown(view: View) -> str:
    """One table under each heading, and what is missing as a list."""
    blocks = [markdown_text(line) for line in (title(view.document), *verified(view.document))]
    sections = view.sections() if view.headed else [Section(heading="", findings=view.listed())]
    for section in sections:
        if section.heading:
            blocks.append(f"## {markdown_text(visible(section.heading))}")
        rows = [[markdown_text(cell) for cell in view.cells(finding)] for finding in section.findings]
        blocks.append(in_columns(rows, view.columns(), RIGHT_ALIGNED, markdown=True))
    blocks += [f"* {markdown_text(line)}" for line in shortcomings(view.document)]
    return "\n\n".join(blocks) + "\n"


def _latex(view: View) -> str:
    """A longtable with booktabs rules; the note column is a paragraph, since sentences don't fit one line."""
    heads = view.columns()
    rows: list[list[str]] = [heads]
    for section in view.sections():
        rows += [[visible(section.heading), *[""] * (len(heads) - 1)]] if section.heading else []
        rows += map(view.cells, section.findings)
    head, *lines = [" & ".join(map(latex_text, row)) + r" \\" for row in rows]
    spec = "".join("r" if each in RIGHT_ALIGNED else "l" for each in heads[:-1]) + r"p{0.35\linewidth}"
    opening = [f"% {title(view.document)}", r"% needs \usepackage{booktabs,longtable}; wide: best on a landscape page"]
    begin = [r"\begingroup\footnotesize\setlength{\tabcolsep}{3pt}", rf"\begin{{longtable}}{{{spec}}}"]
    table = [r"\toprule", head, r"\midrule", r"\endhead", *lines, r"\bottomrule", r"\end{longtable}", r"\endgroup"]
    return (
        "\n".join([*opening, *begin, *table, *(f"\n{latex_text(each)}" for each in shortcomings(view.document))]) + "\n"
    )


_RENDERERS: dict[str, Callable[[View], str]] = {"json": _json, "csv": _csv, "markdown": _markdown, "latex": _latex}
TERMINAL = ("table", "overview")
FORMS = (*TERMINAL, *_RENDERERS)
"""The output forms by name."""
