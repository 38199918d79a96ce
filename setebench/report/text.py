"""Text made safe and fit for where it goes: one visible line, Markdown, LaTeX, terminals without Unicode.

Text may come from anybody's result file: control characters are shown, never sent to the terminal.
"""

from __future__ import annotations

import json
import re
from typing import Any

from setebench import store

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
_LATEX_SPECIAL = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\^{}",
        "<": r"\ensuremath{<}",
        ">": r"\ensuremath{>}",
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
        **dict.fromkeys("┌┐└┘", "+"),
        "│": "|",
        "↓": "v",
        "»": ">",
    }
)


def visible(text: str) -> str:
    """`text` on one line, with control and text-direction characters written as escapes."""
    return _CONTROL.sub(lambda match: {"\n": " ", "\t": " "}.get(match[0], f"\\x{ord(match[0]):02x}"), text)


def csv_cell(value: Any) -> str:
    """A value in full precision; nothing where there is none."""
    record = store.plain(value)
    if record is None:
        return ""
    return visible(record) if isinstance(record, str) else json.dumps(record, ensure_ascii=False)


def markdown_text(text: str) -> str:
    """`text` with what is special in Markdown escaped."""
    return _MARKDOWN_SPECIAL.sub(lambda match: "\\" + match[0], text)


def latex_text(text: str) -> str:
    """`text` with what is special in LaTeX escaped."""
    return text.translate(_LATEX_SPECIAL)


def latex_symbols(text: str) -> str:
    """`text` with symbols that LaTeX has commands for as these commands."""
    return text.translate(_LATEX_SYMBOLS)


def ascii_only(text: str) -> str:
    """`text` for a terminal without Unicode; symbols that carry meaning keep it, others become `?`."""
    return text.translate(_ASCII_SYMBOLS).encode("ascii", errors="replace").decode()
