"""Text made safe and fit for where it goes: cells of CSV, columns, Markdown, LaTeX.

Text may come from anybody's result file: control characters are shown, never sent to the terminal.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from setebench import store
from setebench.text import visible

FORMULAS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""What spreadsheets take for the begin of a formula, wide letters too."""

_MARKDOWN_SPECIAL = re.compile(r"[\\`*<>\[\]|&~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_MATHEMATICS = {"<": "<", ">": ">", "≠": r"\ne", "≥": r"\ge", "≤": r"\le", "±": r"\pm", "µ": r"\mu"}
_LATEX = str.maketrans(
    {each: f"\\{each}" for each in "&%$#_{}"}
    | {each: f"\\ensuremath{{{name}}}" for each, name in _MATHEMATICS.items()}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\^{}", "\N{MULTIPLICATION SIGN}": r"\texttimes{}"}
)


def latex_text(text: str) -> str:
    """One line of LaTeX that shows the text."""
    return visible(text).translate(_LATEX)


def csv_table(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV: numbers in full precision, nothing where there is no value, and no text that a spreadsheet takes
    for a formula."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(map(_csv_cell, row) for row in rows)
    return stream.getvalue()


def _csv_cell(value: Any) -> str:
    record = store.plain(value)
    if record is None:
        return ""
    if not isinstance(record, str):
        return visible(json.dumps(record, ensure_ascii=False))
    return f"'{visible(record)}" if record.lstrip(" ").startswith(FORMULAS) else visible(record)


def in_columns(
    rows: Sequence[Sequence[str]], heads: Sequence[str], right: Collection[str] = (), markdown: bool = False
) -> str:
    """Rows under their heads in columns as wide as their widest cell, those in `right` to the right; for a terminal, or
    as a table of Markdown. Without a line end behind it."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, cells)) for cells in zip(heads, *rows, strict=True)]
    rules = ["-" * (width + markdown) for width in widths]
    lines = []
    for row in (heads, *rows):
        room = [" " * (width - cell_len(cell)) for width, cell in zip(widths, row, strict=True)]
        lines.append([a + b if head in right else b + a for head, a, b in zip(heads, room, row, strict=True)])
    if markdown:
        rules = [f"{rule}:" if head in right else f":{rule}" for head, rule in zip(heads, rules, strict=True)]
        return "\n".join(
            [f"| {' | '.join(lines[0])} |", f"|{'|'.join(rules)}|", *(f"| {' | '.join(each)} |" for each in lines[1:])]
        )
    return "\n".join("  ".join(each).rstrip() for each in (lines[0], rules, *lines[1:]))


def markdown_text(text: str) -> str:
    """`text` with what is special in Markdown escaped."""
    return _MARKDOWN_SPECIAL.sub(lambda match: "\\" + match[0], text)
