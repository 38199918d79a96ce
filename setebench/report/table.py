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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from setebench import store
from setebench.errors import UsageError
from setebench.report import numbers
from setebench.report.sections import Reference, Section, condensed, sections
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
        "≠": r"$\ne$",
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
        "≠": "!=",
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


@dataclass(frozen=True)
class View:
    """What is printed of a document: with headings where it is of several scenarios, and beside which references."""

    document: Document
    references: Sequence[Reference] = ()

    @property
    def ratio(self) -> float | None:
        """Cycles per ns where some finding is in cycles: the ns column is there then."""
        ratio = cycles_per_ns(self.document)
        if ratio is None or all(numbers.nanoseconds(finding, ratio) is None for finding in self.document.findings):
            return None
        return ratio

    @property
    def headed(self) -> bool:
        """Whether the findings stand under headings."""
        return "steps" in self.document.evidence

    def sections(self) -> list[Section]:
        """The findings as they are listed."""
        if self.headed:
            return sections(condensed(self.document.findings))
        return [Section(heading="", findings=group) for group in grouped(self.document.findings)]

    def columns(self) -> list[str]:
        """The headings of the columns."""
        nanoseconds = ["ns"] if self.ratio else []
        return [
            "parameter",
            "value",
            "95 % interval",
            *nanoseconds,
            "outcome",
            *(visible(reference.name) for reference in self.references),
            "note",
        ]

    def cells(self, finding: Finding) -> list[str]:
        """One row."""
        nanoseconds = [numbers.nanoseconds_text(finding, self.ratio)] if self.ratio else []
        cells = [
            finding.parameter,
            numbers.value_text(finding),
            numbers.interval_text(finding),
            *nanoseconds,
            finding.outcome.replace("_", " "),
            *(reference.remark(finding) for reference in self.references),
            finding.reason or finding.method,
        ]
        return [visible(cell) for cell in cells]

    def rows(self) -> list[list[str]]:
        """All rows."""
        return [self.cells(finding) for section in self.sections() for finding in section.findings]


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
    return _table(view, width or _NATURAL_WIDTH, colour) if form == "table" else FORMS[form](view)


def shortcomings(document: Document) -> list[str]:
    """One line for each scenario that failed, or that was not reached before the run was interrupted."""
    steps = document.evidence.get("steps")
    lines = []
    for step in steps if isinstance(steps, list) else []:
        if isinstance(step, dict) and step.get("state") == "failed":
            prefixes = step.get("parameters")
            named = [f"{prefix}*" for prefix in prefixes] if isinstance(prefixes, list) else []
            missing = f", so {', '.join(named)} may be missing" if named else ""
            lines.append(visible(f"{step.get('scenario')} failed{missing}: {step.get('reason')}"))
        elif isinstance(step, dict) and step.get("state") == "pending":
            lines.append(visible(f"{step.get('scenario')} was not run yet"))
    return lines


def ascii_only(text: str) -> str:
    """`text` for a terminal without Unicode; symbols that carry meaning keep it, others become `?`."""
    return text.translate(_ASCII_SYMBOLS).encode("ascii", errors="replace").decode()


# -- forms --------------------------------------------------------------------------------------------------------


def _table(view: View, width: int, colour: bool) -> str:
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
        console.print(Text(title(view.document), style="bold"), soft_wrap=True)
        console.print(_rich_table(view, notes=notes_fit) if view.document.findings else "no findings")
        for line in [*([] if notes_fit else _notes(view.document)), *shortcomings(view.document)]:
            console.print(Text(line), soft_wrap=True)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def _notes(document: Document) -> list[str]:
    told = ((finding.parameter, finding.reason or finding.method) for finding in document.findings)
    return [visible(f"{parameter}: {note}") for parameter, note in told if note]


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
            column, justify="right" if column in _RIGHT else "left", overflow="fold", no_wrap=column != "note"
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


def markdown_text(text: str) -> str:
    """`text` with what is special in Markdown escaped."""
    return _MARKDOWN_SPECIAL.sub(lambda match: "\\" + match[0], text)


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
    table = table.replace("\N{NO-BREAK SPACE}", "~").translate(_LATEX_SYMBOLS)
    return f"% {title(view.document)}\n% needs \\usepackage{{booktabs}}\n{table}\n"


def _alignment(view: View) -> tuple[str, ...]:
    return tuple("right" if column in _RIGHT else "left" for column in view.columns())


FORMS: dict[str, Callable[[View], str]] = {
    "table": lambda view: _table(view, _NATURAL_WIDTH, False),
    "json": _json,
    "csv": _csv,
    "markdown": _markdown,
    "latex": _latex,
}
"""The output forms by name."""
