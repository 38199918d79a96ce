"""Text made safe and fit for where it goes: cells of CSV, columns, Markdown, LaTeX; and numbers for people, with as
many digits as the interval supports, and no more.

Text may come from anybody's result file: control characters are shown, never sent to the terminal.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from setebench import store
from setebench.results import Finding, Outcome
from setebench.text import in_bytes, visible

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


# -- numbers ----------------------------------------------------------------------------------------------------------


_MOST_DECIMALS = 6


def decimals(low: float | None, high: float | None) -> int | None:
    """Decimal places that an interval supports: its half width with one digit, with two where that digit is 1 or 2.

    None where there is no interval, or one no wider than rounding: nothing is known of the precision then.
    """
    if low is None or high is None or not math.isfinite(high - low) or high <= low or math.isclose(low, high):
        return None
    half = max((high - low) / 2, 10.0 ** (-_MOST_DECIMALS - 1))  # also of the least numbers there are
    places = -math.floor(math.log10(half))
    leading = half * 10.0**places
    return min(max(0, places + int(leading < 2.95)), _MOST_DECIMALS)


def number(value: float, places: int | None) -> str:
    """`value` with `places` decimals; without, integers as they are and others with four significant digits."""
    if isinstance(value, int):
        return str(value)
    if places is not None:
        return f"{value:.{places}f}"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.4g}"


def value_text(finding: Finding) -> str:
    """The value with its unit, as a person reads it: `4.00 cycles`, `≥ 64 entries`, `32 KiB`, `load, store`, `no`."""
    if finding.value is None:
        return "—"
    text = _with_unit(store.plain(finding.value), finding.unit, decimals(finding.low, finding.high))
    return f"≥ {text}" if finding.outcome is Outcome.AT_LEAST else text


def interval_text(finding: Finding) -> str:
    """The 95 % interval in the unit of the value: `[3.97, 4.03]`, `[60, …]` where one side is open."""
    if finding.low is None and finding.high is None:
        return ""
    places = decimals(finding.low, finding.high)
    ends = ("…" if end is None else store.plain(end) for end in (finding.low, finding.high))
    form = in_bytes if finding.unit == "bytes" else lambda end: number(end, places)
    return f"[{', '.join(end if isinstance(end, str) else form(end) for end in ends)}]"


def nanoseconds(finding: Finding, cycles_per_ns: float) -> float | None:
    """The value in ns, None where the finding isn't a number of cycles."""
    value = finding.number if finding.unit == "cycles" else None
    return None if value is None else value / cycles_per_ns


def nanoseconds_text(finding: Finding, cycles_per_ns: float) -> str:
    """`nanoseconds` with the digits that the interval supports once it is in ns too."""
    value = nanoseconds(finding, cycles_per_ns)
    ends = (None if end is None else end / cycles_per_ns for end in (finding.low, finding.high))
    return "" if value is None else number(value, decimals(*ends))


def _with_unit(value: Any, unit: str, places: int | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return in_bytes(value) if unit == "bytes" else f"{number(value, places)} {unit}".rstrip()
    if isinstance(value, list):
        text = ", ".join(each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in value)
        return f"{text} {unit}".rstrip() if text and unit not in ("list", "string", "bool") else text or "(none)"
    return str(value)
