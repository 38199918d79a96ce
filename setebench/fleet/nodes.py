"""Names of nodes: in the order of their numbers, and many of them in short, n[001-512], as Slurm writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from setebench.text import ranges

_NUMBERED = re.compile(r"([^\[\],]*?)(\d+)([^\d\[\],]*)")
_PIECES = re.compile(r"(\d+)")


def in_order(names: Iterable[str]) -> list[str]:
    """Sorted, numbers in them by value: n2 before n10."""
    return sorted(names, key=_sorting_key)


def _sorting_key(name: str) -> tuple[list[tuple[int, str]], str]:
    """Pieces at odd places are numbers: so they are only compared with numbers."""
    pieces = _PIECES.split(name)
    return [(int(piece), "") if place % 2 else (0, piece) for place, piece in enumerate(pieces)], name


def folded(names: Iterable[str]) -> str:
    """All names in one line: those that differ in their last number alone, of one width, as ranges, n[001-003,007].io;
    `none` of none."""
    parts: dict[tuple[str, str, int], list[str]] = {}
    for name in dict.fromkeys(names):
        head, number, end = found.groups() if (found := _NUMBERED.fullmatch(name)) else (name, "", "")
        parts.setdefault((head, end, len(number)), []).append(number)
    texts = (
        f"{head}{numbers[0]}{end}" if len(numbers) == 1 else f"{head}[{ranges(map(int, numbers), width)}]{end}"
        for (head, end, width), numbers in parts.items()
    )
    return ",".join(in_order(texts)) or "none"
