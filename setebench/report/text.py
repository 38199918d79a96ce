"""Text made safe and fit for where it goes: one visible line, Markdown, LaTeX, terminals without Unicode.

Text may come from anybody's result file: control characters are shown, never sent to the terminal.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable
from typing import Any

from setebench import store
from setebench.text import visible

FORMULAS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""What spreadsheets take for the begin of a formula, wide letters too."""

_MARKDOWN_SPECIAL = re.compile(r"[\\`*<>\[\]|&~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_SYMBOLS = {
    "≠": (r"$\ne$", "!="),
    "≥": (r"$\ge$", ">="),
    "≤": (r"$\le$", "<="),
    "—": ("---", "-"),
    "…": (r"\dots{}", "..."),
    "\N{MULTIPLICATION SIGN}": (r"$\times$", "x"),
    "µ": (r"$\mu$", "u"),
    "·": (r"$\cdot$", "-"),
    "±": (r"$\pm$", "+-"),
}
"""Symbols in LaTeX and in ASCII."""

_LATEX = str.maketrans({symbol: latex for symbol, (latex, _) in _SYMBOLS.items()})
_FRAMES = {"─": "-", "│": "|", "↓": "v", "»": ">", **dict.fromkeys("┌┐└┘", "+")}
_ASCII = str.maketrans({symbol: plain for symbol, (_, plain) in _SYMBOLS.items()} | _FRAMES)


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


def markdown_text(text: str) -> str:
    """`text` with what is special in Markdown escaped."""
    return _MARKDOWN_SPECIAL.sub(lambda match: "\\" + match[0], text)


def latex_symbols(text: str) -> str:
    """`text` with symbols that LaTeX has commands for as these commands."""
    return text.translate(_LATEX)


def ascii_only(text: str) -> str:
    """`text` for a terminal without Unicode; symbols that carry meaning keep it, others become `?`."""
    return text.translate(_ASCII).encode("ascii", errors="replace").decode()
