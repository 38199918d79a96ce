"""Findings as a table: for a terminal, as CSV, Markdown or LaTeX; and as the JSON document itself.

The forms share their cells. Each escapes for itself, because what is special differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from setebench import store
from setebench.report.opening import opening
from setebench.report.text import csv_table, in_columns, latex_text, markdown_text, nanoseconds
from setebench.report.view import RIGHT_ALIGNED, View, shortcomings, title, verified
from setebench.results import Document


def render(
    document: Document,
    form: str,
    *,
    width: int | None = None,
    colour: bool = False,
    references: Mapping[str, Document] | None = None,
) -> str:
    """The document in one of `FORMS`, ending with a newline.

    `width` (columns) and `colour` are for the form `table` on a terminal; without a width nothing is folded. The first
    page says what contradicts `references`, by who says them.
    """
    view = View(document)
    if form in TERMINAL:
        from setebench.report.terminal import terminal_table  # rich is only loaded where a table is made

        page = opening(document, references or {})
        return terminal_table(view, page, width, colour and form == "table", form == "overview")
    return _RENDERERS[form](view)


def _csv(view: View) -> str:
    """Raw values in full precision, one unit per column: `value` is in `unit`, `value_ns` in ns."""
    ratio = view.ratio
    in_ns = ["value_ns"] if ratio else []
    rows: list[list[object]] = [["parameter", "value", "unit", "low", "high", *in_ns, "outcome", "reason", "method"]]
    for each in view.document.findings:
        inserted = [nanoseconds(each, ratio)] if ratio else []
        own = [each.parameter, each.value, each.unit, each.low, each.high, *inserted]
        rows.append([*own, each.outcome, each.reason, each.method])
    return csv_table(rows)


def _markdown(view: View) -> str:
    """One table under each heading, and what is missing as a list."""
    blocks = [markdown_text(line) for line in (title(view.document), *verified(view.document))]
    for heading, findings in view.sections().items():
        blocks += [f"## {markdown_text(heading)}"] if heading else []
        rows = [[markdown_text(cell) for cell in view.cells(finding)] for finding in findings]
        blocks.append(in_columns(rows, view.columns(), RIGHT_ALIGNED, markdown=True))
    blocks += [f"* {markdown_text(line)}" for line in shortcomings(view.document)]
    return "\n\n".join(blocks) + "\n"


def _latex(view: View) -> str:
    """A longtable with booktabs rules, whose last column is a paragraph."""
    heads = view.columns()
    rows = [heads]
    for heading, findings in view.sections().items():
        rows += [[heading, *[""] * (len(heads) - 1)]] if heading else []
        rows += map(view.cells, findings)
    head, *lines = [" & ".join(map(latex_text, row)) + r" \\" for row in rows]
    spec = "".join("r" if each in RIGHT_ALIGNED else "l" for each in heads[:-1]) + r"p{0.35\linewidth}"
    begin = [
        "% needs booktabs and longtable",
        rf"\begin{{longtable}}{{{spec}}}",
        r"\toprule",
        head,
        r"\midrule \endhead",
    ]
    notes = [f"\n{latex_text(line)}" for line in (title(view.document), *shortcomings(view.document))]
    return "\n".join([*begin, *lines, r"\bottomrule", r"\end{longtable}", *notes]) + "\n"


_RENDERERS: dict[str, Callable[[View], str]] = {
    "json": lambda view: store.dumps(view.document).decode(),
    "csv": _csv,
    "markdown": _markdown,
    "latex": _latex,
}
TERMINAL = ("table", "overview")
FORMS = (*TERMINAL, *_RENDERERS)
"""The output forms by name."""
