"""Findings as a table: for a terminal, as CSV, Markdown or LaTeX; and as the JSON document itself.

The forms share their cells. Each escapes for itself, because what is special differs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from setebench import store
from setebench.errors import UsageError
from setebench.report import numbers
from setebench.report.sections import Reference, Section
from setebench.report.terminal import overview, terminal_table
from setebench.report.text import csv_table, latex_symbols, latex_text, markdown_text
from setebench.report.view import RIGHT_ALIGNED, View, shortcomings, title, verified
from setebench.results import Document
from setebench.text import visible

_NATURAL_WIDTH = 100_000
_ROWS_OF_A_PAGE = 24


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
    if form == "table":
        return terminal_table(view, width or _NATURAL_WIDTH, colour)
    return overview(view, width or _NATURAL_WIDTH) if form == "overview" else FORMS[form](view)


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
    for section in _parts(view):
        if section.heading:
            blocks.append(f"## {markdown_text(visible(section.heading))}")
        rows = [[markdown_text(cell) for cell in view.cells(finding)] for finding in section.findings]
        alignment = _alignment(view) if rows else None
        blocks.append(
            tabulate(rows, headers=view.columns(), tablefmt="pipe", disable_numparse=True, colalign=alignment)
        )
    blocks += [f"* {markdown_text(line)}" for line in shortcomings(view.document)]
    return "\n\n".join(blocks) + "\n"


def _latex(view: View) -> str:
    """A booktabs table; the note column is a paragraph, since sentences don't fit one line. What doesn't fit one page
    is a longtable, with its headings in it and what is missing behind it."""
    sections = _parts(view)
    long = view.headed or sum(len(section.findings) for section in sections) > _ROWS_OF_A_PAGE
    table = _tabular(view, sections) if view.document.findings else "no findings"
    if long and view.document.findings:
        table = _long(table, sections, len(view.columns()))
    table = latex_symbols(table.replace("\N{NO-BREAK SPACE}", "~"))
    packages = "booktabs,longtable" if long else "booktabs"
    missing = "".join(f"\n\n{latex_symbols(latex_text(line))}" for line in shortcomings(view.document))
    return f"% {title(view.document)}\n% needs \\usepackage{{{packages}}}\n{table}{missing}\n"


def _tabular(view: View, sections: Sequence[Section]) -> str:
    from tabulate import tabulate

    rows = [view.cells(finding) for section in sections for finding in section.findings]
    headers = [column.replace(" %", "\N{NO-BREAK SPACE}%") for column in view.columns()]
    form = "latex_booktabs"
    table = tabulate(rows, headers=headers, tablefmt=form, disable_numparse=True, colalign=_alignment(view))
    table = re.sub(r"l\}$", r"p{0.35\\linewidth}}", table, count=1, flags=re.MULTILINE)
    return re.sub(r"^ *([\[*])", r" {\1}", table, flags=re.MULTILINE)  # behind a row's end they mean something


def _long(table: str, sections: Sequence[Section], columns: int) -> str:
    """The tabular as a longtable in small letters, with a row for each heading."""
    begin, top, names, rule, *rows, bottom, end = table.split("\n")
    lines = [r"\begingroup\footnotesize\setlength{\tabcolsep}{3pt}% wide: best on a landscape page"]
    lines += [begin.replace("tabular", "longtable"), top, names, rule, r"\endhead"]
    for section in sections:
        if section.heading:
            heading = latex_text(visible(section.heading))
            lines.append(rf"\addlinespace\multicolumn{{{columns}}}{{l}}{{\textbf{{{heading}}}}} \\*")
        lines += rows[: len(section.findings)]
        rows = rows[len(section.findings) :]
    return "\n".join([*lines, bottom, end.replace("tabular", "longtable"), r"\endgroup"])


def _parts(view: View) -> list[Section]:
    """The sections where they have headings, else all findings as one."""
    sections = view.sections()
    if view.headed and sections:
        return sections
    return [Section(heading="", findings=[finding for section in sections for finding in section.findings])]


def _alignment(view: View) -> tuple[str, ...]:
    return tuple("right" if column in RIGHT_ALIGNED else "left" for column in view.columns())


FORMS: dict[str, Callable[[View], str]] = {
    "table": lambda view: terminal_table(view, _NATURAL_WIDTH, False),
    "overview": lambda view: overview(view, _NATURAL_WIDTH),
    "json": _json,
    "csv": _csv,
    "markdown": _markdown,
    "latex": _latex,
}
"""The output forms by name."""
