"""Findings as a table: for a terminal, as CSV, Markdown or LaTeX; and as the JSON document itself.

The forms share their cells. Each escapes for itself, because what is special differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from io import StringIO
from typing import TYPE_CHECKING

from setebench import store
from setebench.errors import UsageError
from setebench.report import numbers
from setebench.report.opening import Opening, opening
from setebench.report.opening.picture import Box
from setebench.report.text import csv_table, in_columns, latex_text, markdown_text
from setebench.report.view import RIGHT_ALIGNED, View, shortcomings, title, verified
from setebench.results import Document, Outcome
from setebench.text import visible

if TYPE_CHECKING:  # rich is only loaded where a table is made
    from rich.console import Console, RenderableType
    from rich.table import Table

_STYLES = {
    Outcome.MEASURED: "green",
    Outcome.AT_LEAST: "green",
    Outcome.ABSENT: "cyan",
    Outcome.UNRESOLVED: "yellow",
    Outcome.UNAVAILABLE: "bright_black",
}
NATURAL_WIDTH = 100_000
"""Columns where nothing is folded."""

_NOTE_WIDTH = 24
_PAGE_WIDTH, _LEAST_WIDTH = 100, 40
"""Columns of the first page: lines of more are hard to read, panels of fewer hold no words."""


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
    page says what contradicts `references`, by who says them. Raises `UsageError` for an unknown form.
    """
    if form not in FORMS:
        raise UsageError(f"unknown form {form!r}; one of {', '.join(FORMS)}")
    view = View(document)
    if form in TERMINAL:
        page = opening(document, references or {})
        return terminal_table(view, page, width or NATURAL_WIDTH, colour and form == "table", form == "overview")
    return _RENDERERS[form](view)


def _json(view: View) -> str:
    return store.dumps(view.document).decode()


def _csv(view: View) -> str:
    """Raw values in full precision, one unit per column: `value` is in `unit`, `value_ns` in ns."""
    ratio = view.ratio
    nanoseconds = ["value_ns"] if ratio else []
    rows: list[list[object]] = [
        ["parameter", "value", "unit", "low", "high", *nanoseconds, "outcome", "reason", "method"]
    ]
    for each in view.document.findings:
        inserted = [numbers.nanoseconds(each, ratio)] if ratio else []
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


_RENDERERS: dict[str, Callable[[View], str]] = {"json": _json, "csv": _csv, "markdown": _markdown, "latex": _latex}
TERMINAL = ("table", "overview")
FORMS = (*TERMINAL, *_RENDERERS)
"""The output forms by name."""


# -- a terminal -------------------------------------------------------------------------------------------------------


def terminal_table(view: View, page: Opening | None, width: int, colour: bool, page_alone: bool = False) -> str:
    """The first page and the table, or the page alone where there is one. Only notes are folded: where they have no
    room they follow the table, and where the table itself has none the terminal may wrap its lines: nothing is ever cut
    off."""
    from rich.console import Console
    from rich.text import Text

    console = Console(
        file=StringIO(),  # else rich writes to standard output, be it nothing, and meets its full disk
        width=NATURAL_WIDTH,
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
    )
    needed = console.measure(_rich_table(view, notes=False)).maximum
    notes_fit = needed + _NOTE_WIDTH <= width
    console.width = max(width, needed)
    with console.capture() as captured:
        console.print(Text(title(view.document), style="bold"), soft_wrap=True)
        for part in _page(page) if page else ():
            console.print(part, width=max(min(width, _PAGE_WIDTH), _LEAST_WIDTH))
        lines = [] if page else verified(view.document)
        if not (page and page_alone):
            _print_lines(console, [*lines, *([""] if page else [])])
            console.print(_rich_table(view, notes_fit) if view.document.findings else "no findings")
            lines = [] if notes_fit else view.notes()
        _print_lines(console, [*lines, *shortcomings(view.document)])
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def _print_lines(console: Console, lines: list[str]) -> None:
    from rich.text import Text

    for line in lines:
        console.print(Text(line), soft_wrap=True)


def _page(page: Opening) -> Iterator[RenderableType]:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    yield Text(visible(page.name))
    yield from map(_panel, page.picture)
    yield Padding(Text(visible(page.verified)), (1, 0, 0, 0))
    for heading, lines in (("Stands against others' words", page.against), ("Stayed open", page.open)):
        if lines:
            yield Text(f"\n{heading}:")
            yield from (Padding(Text(visible(line)), (0, 0, 0, 2)) for line in lines)
    for number, each in enumerate(page.maps):
        if number == 0:
            yield Text(f"\nLines of a page after so many accesses ({visible(each.legend)}):")
        yield Text(f"\n  {each.name}")
        yield from (Text(f"  {row}") for row in each.rows)
    for heading, rows in page.summary.items():
        yield Text(f"\n{heading}")
        table = Table.grid("", "", "", padding=(0, 2, 0, 0))
        table.columns[1].max_width = _LEAST_WIDTH - 6
        for row in rows:
            table.add_row("", *(Text(visible(each)) for each in row))
        yield table


def _panel(box: Box) -> RenderableType:
    from rich.box import SQUARE
    from rich.panel import Panel
    from rich.text import Text

    lines = [" · ".join(f"{name} {text}" for name, text in box.facts)]
    lines += [f"» {name}: {words}" if words else f"» {name}" for name, words in box.prefetchers]
    body = Text("\n".join(map(visible, lines)))
    return Panel(body, title=Text(visible(box.name)), title_align="left", box=SQUARE)


def _rich_table(view: View, notes: bool) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    columns = view.columns() if notes else view.columns()[:-1]
    for column in columns:
        side = "right" if column in RIGHT_ALIGNED else "left"
        table.add_column(column, justify=side, overflow="fold", no_wrap=column != "note")  # type: ignore[arg-type]
    for heading, findings in view.sections().items():
        if heading:
            table.add_row(Text(heading, style="bold"))
        for finding in findings:
            cells = [Text(cell) for cell in view.cells(finding)]
            cells[columns.index("outcome")].stylize(_STYLES[finding.outcome])
            table.add_row(*cells[: len(columns)])
        table.add_section()
    return table
