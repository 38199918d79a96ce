"""Names of nodes: in the order of their numbers, and many of them in short, n[001-512], as ClusterShell and Slurm
write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

_NUMBERED = re.compile(r"\A(.*?)(\d+)(\D*)\Z", re.DOTALL)
_PIECES = re.compile(r"(\d+)")


def in_order(names: Iterable[str]) -> list[str]:
    """Sorted, numbers in them by value: n2 before n10."""
    return sorted(names, key=_sorting_key)


def _sorting_key(name: str) -> tuple[list[tuple[int, str]], str]:
    """Pieces at odd places are numbers: so they are only compared with numbers."""
    pieces = _PIECES.split(name)
    return [(int(piece), "") if place % 2 else (0, piece) for place, piece in enumerate(pieces)], name


def folded(names: Iterable[str]) -> str:
    """All names in one line: those that differ in their last number alone as ranges, n[001-003,007].io; `none` of none.

    Numbers with leading zeros keep their width, and only those of one width are in one range."""
    parts: dict[tuple[str, str, int], list[int]] = {}
    whole = []
    for name in dict.fromkeys(names):
        found = _NUMBERED.match(name)
        if found is None or any(each in name for each in "[],"):
            whole.append(name)
            continue
        head, digits, end = found.groups()
        padded = len(digits) if digits.startswith("0") and len(digits) > 1 else 0
        parts.setdefault((head, end, padded), []).append(int(digits))
    _widen(parts)
    texts = [_text(*key, sorted(numbers)) for key, numbers in parts.items()]
    return ",".join(in_order([*texts, *whole])) or "none"


def _widen(parts: dict[tuple[str, str, int], list[int]]) -> None:
    """Numbers that are as wide as padded ones beside them belong to these: 100 to 099."""
    for head, end, width in [key for key in parts if key[2]]:
        plain = parts.get((head, end, 0), [])
        fitting = [number for number in plain if len(str(number)) == width]
        parts[head, end, width] += fitting
        left = [number for number in plain if len(str(number)) != width]
        if left:
            parts[head, end, 0] = left
        else:
            parts.pop((head, end, 0), None)


def _text(head: str, end: str, width: int, numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"{head}{numbers[0]:0{width}d}{end}"
    ranges = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        values = [number for _, number in run]
        first, last = f"{values[0]:0{width}d}", f"{values[-1]:0{width}d}"
        ranges.append(first if first == last else f"{first}-{last}")
    return f"{head}[{','.join(ranges)}]{end}"
