"""Findings as a table: for a terminal, as CSV, Markdown or LaTeX; and as the JSON document itself.

The forms share their cells. Each escapes for itself, because what is special differs, and text may come from anybody's
result file: control characters are shown, never sent to the terminal.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from setebench import store
from setebench.errors import UsageError
from setebench.report import numbers
from setebench.results import Document, Finding, Outcome

if TYPE_CHECKING:  # rich and tabulate are loaded by the forms that need them
    from rich.table import Table

_STYLES = {
    Outcome.MEASURED: "green",
    Outcome.AT_LEAST: "green",
    Outcome.ABSENT: "cyan",
    Outcome.UNRESOLVED: "yellow",
    Outcome.UNAVAILABLE: "bright_black",
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_MARKDOWN_SPECIAL = re.compile(r"[\\`*<>\[\]|&~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_LATEX_SYMBOLS = str.maketrans(
    {
        "≥": r"$\ge$",
        "≤": r"$\le$",
        "—": "---",
        "…": r"\dots{}",
        "\N{MULTIPLICATION SIGN}": r"$\times$",
        "µ": r"$\mu$",
        "·": r"$\cdot$",
        "±": r"$\pm$",
    }
)
_ASCII_SYMBOLS = str.maketrans(
    {
        "≥": ">=",
        "≤": "<=",
        "—": "-",
        "…": "...",
        "─": "-",
        "\N{MULTIPLICATION SIGN}": "x",
        "µ": "u",
        "·": "-",
        "±": "+-",
    }
)
_NATURAL_WIDTH = 100_000
_NOTE_WIDTH = 24
_GAP = 3
_RIGHT = ("value", "95 % interval", "ns")


def visible(text: str) -> str:
    """`text` on one line, with control and text-direction characters written as escapes."""
    return _CONTROL.sub(lambda match: {"\n": " ", "\t": " "}.get(match[0], f"\\x{ord(match[0]):02x}"), text)


def cycles_per_ns(document: Document) -> float | None:
    """Core cycles per nanosecond while the document was measured, None where it doesn't say."""
    cycles = document.evidence.get("cycles")
    ratio = cycles.get("cycles_per_ns") if isinstance(cycles, dict) else None
    if isinstance(ratio, bool) or not isinstance(ratio, (int, float)):
        return None
    return float(ratio) if math.isfinite(ratio) and ratio > 0 else None


def grouped(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Findings that share the first part of their name (for prefetchers: the first three), in order of appearance."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        parts = finding.parameter.split(".")
        prefix = ".".join(parts[:3]) if parts[0] == "prefetcher" else parts[0]
        groups.setdefault(prefix, []).append(finding)
    return list(groups.values())


def title(document: Document) -> str:
    """One line that says what was measured where and when."""
    scenario = document.settings.get("scenario", "findings")
    return visible(f"{scenario} on {document.machine.name}, {document.started}, {document.elapsed_seconds:.1f} s")


def render(document: Document, form: str, *, width: int | None = None, colour: bool = False) -> str:
    """The document in one of `FORMS`, ending with a newline.

    `width` (columns) and `colour` are for the form `table` on a terminal; without a width nothing is folded. Raises
    `UsageError` for an unknown form.
    """
    if form not in FORMS:
        raise UsageError(f"unknown form {form!r}; one of {', '.join(FORMS)}")
    if form == "table":
        return _table(document, width or _NATURAL_WIDTH, colour)
    return FORMS[form](document)


def ascii_only(text: str) -> str:
    """`text` for a terminal without Unicode; symbols that carry meaning keep it, others become `?`."""
    return text.translate(_ASCII_SYMBOLS).encode("ascii", errors="replace").decode()


# -- cells --------------------------------------------------------------------------------------------------------


def _ratio(document: Document) -> float | None:
    """Cycles per ns where some finding is in cycles: the ns column is there then."""
    ratio = cycles_per_ns(document)
    if ratio is None or all(numbers.nanoseconds(finding, ratio) is None for finding in document.findings):
        return None
    return ratio


def _columns(document: Document) -> list[str]:
    nanoseconds = ["ns"] if _ratio(document) else []
    return ["parameter", "value", "95 % interval", *nanoseconds, "outcome", "note"]


def _cells(finding: Finding, ratio: float | None) -> list[str]:
    nanoseconds = [numbers.nanoseconds_text(finding, ratio)] if ratio else []
    cells = [finding.parameter, numbers.value_text(finding), numbers.interval_text(finding), *nanoseconds]
    return [visible(cell) for cell in (*cells, finding.outcome.replace("_", " "), finding.reason or finding.method)]


def _rows(document: Document) -> list[list[str]]:
    ratio = _ratio(document)
    return [_cells(finding, ratio) for group in grouped(document.findings) for finding in group]


# -- forms --------------------------------------------------------------------------------------------------------


def _table(document: Document, width: int, colour: bool) -> str:
    """Only notes are folded. Where they have no room they follow the table, and where the table itself has none the
    terminal may wrap its lines: nothing is ever cut off."""
    from rich.console import Console
    from rich.text import Text

    needed = _width(document)
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
        console.print(Text(title(document), style="bold"), soft_wrap=True)
        console.print(_rich_table(document, notes=notes_fit) if document.findings else "no findings")
        for line in [] if notes_fit else _notes(document):
            console.print(Text(line), soft_wrap=True)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def _notes(document: Document) -> list[str]:
    told = ((finding.parameter, finding.reason or finding.method) for finding in document.findings)
    return [visible(f"{parameter}: {note}") for parameter, note in told if note]


def _width(document: Document) -> int:
    """Terminal columns of the table without its notes."""
    from rich.cells import cell_len

    *columns, _notes = zip(_columns(document), *_rows(document), strict=True)
    return sum(max(map(cell_len, cells)) + _GAP for cells in columns)


def _rich_table(document: Document, *, notes: bool) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    ratio = _ratio(document)
    columns = _columns(document) if notes else _columns(document)[:-1]
    for column in columns:
        table.add_column(
            column, justify="right" if column in _RIGHT else "left", overflow="fold", no_wrap=column != "note"
        )
    for group in grouped(document.findings):
        for finding in group:
            cells = [Text(cell) for cell in _cells(finding, ratio)]
            cells[-2].stylize(_STYLES[finding.outcome])
            table.add_row(*cells[: len(columns)])
        table.add_section()
    return table


def _json(document: Document) -> str:
    return store.dumps(document).decode()


def _csv(document: Document) -> str:
    """Raw values in full precision, one unit per column: `value` is in `unit`, `value_ns` in ns."""
    ratio = _ratio(document)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    nanoseconds = ["value_ns"] if ratio is not None else []
    writer.writerow(["parameter", "value", "unit", "low", "high", *nanoseconds, "outcome", "reason", "method"])
    for finding in document.findings:
        inserted = [_csv_cell(numbers.nanoseconds(finding, ratio))] if ratio is not None else []
        bounds = [_csv_cell(finding.low), _csv_cell(finding.high)]
        texts = [visible(text) for text in (finding.outcome, finding.reason or "", finding.method)]
        writer.writerow(
            [visible(finding.parameter), _csv_cell(finding.value), visible(finding.unit), *bounds, *inserted, *texts]
        )
    return stream.getvalue()


def _csv_cell(value: Any) -> str:
    record = store.plain(value)
    if record is None:
        return ""
    return visible(record) if isinstance(record, str) else json.dumps(record, ensure_ascii=False)


def _markdown(document: Document) -> str:
    from tabulate import tabulate

    rows = [[_markdown_text(cell) for cell in row] for row in _rows(document)]
    table = tabulate(
        rows,
        headers=_columns(document),
        tablefmt="pipe",
        disable_numparse=True,
        colalign=_alignment(document) if rows else None,
    )
    return f"{_markdown_text(title(document))}\n\n{table}\n"


def _markdown_text(text: str) -> str:
    return _MARKDOWN_SPECIAL.sub(lambda match: "\\" + match[0], text)


def _latex(document: Document) -> str:
    """A booktabs tabular; the note column is a paragraph, since sentences don't fit one line."""
    from tabulate import tabulate

    rows = _rows(document)
    headers = [column.replace(" %", "\N{NO-BREAK SPACE}%") for column in _columns(document)]
    table = tabulate(
        rows,
        headers=headers,
        tablefmt="latex_booktabs",
        disable_numparse=True,
        colalign=_alignment(document) if rows else None,
    )
    table = re.sub(r"l\}$", r"p{0.35\\linewidth}}", table, count=1, flags=re.MULTILINE)
    table = table.replace("\N{NO-BREAK SPACE}", "~").translate(_LATEX_SYMBOLS)
    return f"% {title(document)}\n% needs \\usepackage{{booktabs}}\n{table}\n"


def _alignment(document: Document) -> tuple[str, ...]:
    return tuple("right" if column in _RIGHT else "left" for column in _columns(document))


FORMS: dict[str, Callable[[Document], str]] = {
    "table": lambda document: _table(document, _NATURAL_WIDTH, False),
    "json": _json,
    "csv": _csv,
    "markdown": _markdown,
    "latex": _latex,
}
"""The output forms by name."""
