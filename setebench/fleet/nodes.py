"""Names of nodes: in the order of their numbers, and many of them in short, n[001-512], as Slurm writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from setebench.text import ranges

_NUMBERED = re.compile(r"\A([^\[\],]*?)(\d+)([^\d\[\],]*)\Z")
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
    texts: list[str] = []
    parts: dict[tuple[str, str, int], list[int]] = {}
    for name in dict.fromkeys(names):
        found = _NUMBERED.match(name)
        if found is None:
            texts.append(name)
        else:
            parts.setdefault((found[1], found[3], len(found[2])), []).append(int(found[2]))
    for (head, end, width), numbers in parts.items():
        said = ranges(numbers, width)
        texts.append(f"{head}{said}{end}" if len(numbers) == 1 else f"{head}[{said}]{end}")
    return ",".join(in_order(texts)) or "none"
