"""The first page and the table of a document on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from rich.box import SIMPLE_HEAD, SQUARE
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from setebench.report.opening import Opening
from setebench.report.opening.picture import Box
from setebench.report.view import RIGHT_ALIGNED, View, shortcomings, title, verified
from setebench.results import Outcome
from setebench.text import visible

_STYLES = {
    Outcome.MEASURED: "green",
    Outcome.AT_LEAST: "green",
    Outcome.ABSENT: "cyan",
    Outcome.UNRESOLVED: "yellow",
    Outcome.UNAVAILABLE: "bright_black",
}
NATURAL_WIDTH = 100_000
"""Columns where nothing is folded."""

_NOTE_WIDTH, _PAGE_WIDTH, _LEAST_WIDTH = 24, 100, 40
"""Columns of the first page: lines of more are hard to read, panels of fewer hold no words."""


def terminal_table(view: View, page: Opening | None, width: int | None, colour: bool, page_alone: bool = False) -> str:
    """The first page and the table, or the page alone where there is one. Only notes are folded: where they have no
    room they follow the table, and where the table itself has none the terminal may wrap its lines: nothing is ever cut
    off."""
    console = Console(
        file=StringIO(),  # else rich writes to standard output, be it nothing, and meets its full disk
        width=NATURAL_WIDTH,
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
    )
    width = width or NATURAL_WIDTH
    needed = console.measure(_rich_table(view, notes=False)).maximum
    notes_fit = needed + _NOTE_WIDTH <= width
    console.width = max(width, needed)
    with console.capture() as captured:
        console.print(Text(title(view.document), style="bold"), soft_wrap=True)
        for part in _page(page) if page else ():
            console.print(part, width=max(min(width, _PAGE_WIDTH), _LEAST_WIDTH))
        lines: list[str] = []
        if not (page and page_alone):
            for line in [""] if page else verified(view.document):
                console.print(Text(line), soft_wrap=True)
            console.print(_rich_table(view, notes_fit) if view.document.findings else "no findings")
            notes = [(each.parameter, each.reason or each.method) for each in view.document.findings if not notes_fit]
            lines = [visible(f"{parameter}: {note}") for parameter, note in notes if note]
        for line in (*lines, *shortcomings(view.document)):
            console.print(Text(line), soft_wrap=True)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def _page(page: Opening) -> Iterator[RenderableType]:
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
    lines = [" · ".join(f"{name} {text}" for name, text in box.facts)]
    lines += [f"» {name}: {words}" if words else f"» {name}" for name, words in box.prefetchers]
    body = Text("\n".join(map(visible, lines)))
    return Panel(body, title=Text(visible(box.name)), title_align="left", box=SQUARE)


def _rich_table(view: View, notes: bool) -> Table:
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
