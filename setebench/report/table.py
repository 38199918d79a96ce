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
from setebench.report.text import csv_table, latex_symbols, markdown_text
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
    from tabulate import tabulate

    blocks = [markdown_text(line) for line in (title(view.document), *verified(view.document))]
    sections = view.sections() if view.headed else [Section(heading="", findings=view.listed())]
    sides = ["right" if column in RIGHT_ALIGNED else "left" for column in view.columns()]
    for section in sections:
        if section.heading:
            blocks.append(f"## {markdown_text(visible(section.heading))}")
        rows = [[markdown_text(cell) for cell in view.cells(finding)] for finding in section.findings]
        table = tabulate(
            rows, headers=view.columns(), tablefmt="pipe", disable_numparse=True, colalign=sides if rows else None
        )
        blocks.append(table)
    blocks += [f"* {markdown_text(line)}" for line in shortcomings(view.document)]
    return "\n\n".join(blocks) + "\n"


def _latex(view: View) -> str:
    """A longtable with booktabs rules; the note column is a paragraph, since sentences don't fit one line."""
    from tabulate import LATEX_ESCAPE_RULES, tabulate

    columns = view.columns()
    sides = ["right" if column in RIGHT_ALIGNED else "left" for column in columns]
    rows = []
    for section in view.sections():
        rows += [[visible(section.heading), *[""] * (len(columns) - 1)]] if section.heading else []
        rows += map(view.cells, section.findings)
    _, *between, end = tabulate(
        rows, columns, "latex_longtable", disable_numparse=True, colalign=sides if rows else None
    ).split(r"\hline")
    spec = "".join(side[0] for side in sides[:-1]) + r"p{0.35\linewidth}"
    rules = [rf"\begin{{longtable}}{{{spec}}}", r"\toprule", between[0], r"\midrule", *between[1:], r"\bottomrule", end]
    lines = ["".join(LATEX_ESCAPE_RULES.get(each, each) for each in line) for line in shortcomings(view.document)]
    opening = [f"% {title(view.document)}", r"% needs \usepackage{booktabs,longtable}; wide: best on a landscape page"]
    body = [r"\begingroup\footnotesize\setlength{\tabcolsep}{3pt}", *(each.strip("\n") for each in rules), r"\endgroup"]
    return latex_symbols("\n".join([*opening, *body, *(f"\n{line}" for line in lines)])) + "\n"


_RENDERERS: dict[str, Callable[[View], str]] = {"json": _json, "csv": _csv, "markdown": _markdown, "latex": _latex}
TERMINAL = ("table", "overview")
FORMS = (*TERMINAL, *_RENDERERS)
"""The output forms by name."""
