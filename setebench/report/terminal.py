"""Findings as a table for a terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from setebench.report.opening import opening
from setebench.report.opening.drawn import drawn
from setebench.report.view import RIGHT_ALIGNED, View, shortcomings, title, verified
from setebench.results import Document, Outcome
from setebench.text import visible

if TYPE_CHECKING:  # rich is only loaded where a table is made
    from rich.table import Table

_STYLES = {
    Outcome.MEASURED: "green",
    Outcome.AT_LEAST: "green",
    Outcome.ABSENT: "cyan",
    Outcome.UNRESOLVED: "yellow",
    Outcome.UNAVAILABLE: "bright_black",
}
_NOTE_WIDTH = 24
_GAP = 3


def terminal_table(view: View, width: int, colour: bool) -> str:
    """Only notes are folded. Where they have no room they follow the table, and where the table itself has none the
    terminal may wrap its lines: nothing is ever cut off."""
    from rich.console import Console
    from rich.text import Text

    needed = _width(view)
    notes_fit = needed + _NOTE_WIDTH <= width
    console = Console(
        file=io.StringIO(),
        width=max(width, needed),
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
        legacy_windows=False,
    )
    with console.capture() as captured:
        page = opening(view.document, view.references)
        console.print(Text(title(view.document), style="bold"), soft_wrap=True)
        for line in [*drawn(page, width), ""] if page is not None else verified(view.document):
            console.print(Text(line), soft_wrap=True)
        console.print(_rich_table(view, notes=notes_fit) if view.document.findings else "no findings")
        for line in [*([] if notes_fit else _notes(view.document)), *shortcomings(view.document)]:
            console.print(Text(line), soft_wrap=True)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def overview(view: View, width: int) -> str:
    """The opening page alone; the table of a document that has none."""
    page = opening(view.document, view.references)
    if page is None:
        return terminal_table(view, width, False)
    lines = [title(view.document), *drawn(page, width), *shortcomings(view.document)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _notes(document: Document) -> list[str]:
    notes = ((finding.parameter, finding.reason or finding.method) for finding in document.findings)
    return [visible(f"{parameter}: {note}") for parameter, note in notes if note]


def _width(view: View) -> int:
    """Terminal columns of the table without its notes."""
    from rich.cells import cell_len

    *columns, _notes = zip(view.columns(), *view.rows(), strict=True)
    headings = max((cell_len(section.heading) for section in view.sections()), default=0)
    widths = [max(map(cell_len, cells)) + _GAP for cells in columns]
    return sum([max(widths[0], headings + _GAP), *widths[1:]])


def _rich_table(view: View, *, notes: bool) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    columns = view.columns() if notes else view.columns()[:-1]
    for column in columns:
        table.add_column(
            column, justify="right" if column in RIGHT_ALIGNED else "left", overflow="fold", no_wrap=column != "note"
        )
    outcome = columns.index("outcome")
    for section in view.sections():
        if section.heading:
            table.add_row(Text(visible(section.heading), style="bold"))
        for finding in section.findings:
            cells = [Text(cell) for cell in view.cells(finding)]
            cells[outcome].stylize(_STYLES[finding.outcome])
            table.add_row(*cells[: len(columns)])
        table.add_section()
    return table
