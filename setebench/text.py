"""Text of other people made harmless, on one line and without meaning where it goes; and numbers in short."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_MARKS = re.compile(r"\?(?=\?)|\*(?=/)|/(?=\*)|-(?=-)")
"""The first half of what continues a line (a trigraph) or ends a comment in C, XML or SQL."""


def visible(text: str) -> str:
    """`text` on one line, with control characters and those that hide or turn text written as escapes."""
    return _HIDDEN.sub(lambda match: {"\n": " ", "\t": " "}.get(match[0], f"\\x{ord(match[0]):02x}"), text)


def remark(text: str) -> str:
    """`text` for a comment of any language: it neither ends the comment nor goes on in the next line."""
    return _MARKS.sub(r"\g<0> ", visible(text).replace("\\", "/"))


def remarks(value: Any) -> Any:
    """`value` with every text in it, names of members too, as `remark` makes it."""
    if type(value) is str:
        return remark(value)
    if isinstance(value, dict):
        return {remarks(key): remarks(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(remarks, value))
    if hasattr(value, "__struct_fields__"):
        import msgspec  # help texts do without

        changed = {name: remarks(getattr(value, name)) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **changed)
    return value


KIBI, MEBI, GIBI = 1 << 10, 1 << 20, 1 << 30
KILO, MEGA, GIGA = 1e3, 1e6, 1e9
"""Factors of units."""

MOST_LISTED = 12
"""Of things that are alike, in a text for people."""

_UNITS = {"GiB": GIBI, "MiB": MEBI, "KiB": KIBI}


def shortened(texts: Sequence[str]) -> list[str]:
    """The first `MOST_LISTED` texts, and how many more there are."""
    more = [f"... {len(texts) - MOST_LISTED} more"] if len(texts) > MOST_LISTED else []
    return [*texts[:MOST_LISTED], *more]


def in_bytes(size: float) -> str:
    """A size: 32 KiB, 1.5 MiB, 48 bytes. What is no multiple of a sixteenth of a unit is an estimate of three digits:
    28.3 KiB."""
    unit = next((unit for unit, factor in _UNITS.items() if size >= factor), "bytes")
    amount = size / _UNITS.get(unit, 1)
    exact = (16 * amount).is_integer() or amount >= 999
    return f"{amount:.{4 if exact else 3}g} {unit}"


def ranges(numbers: Iterable[int], width: int = 0) -> str:
    """Whole numbers in short, as the kernel and Slurm write them: "0-3,8", or of three digits "000-003,008"; "none"."""
    texts = []
    for _, group in groupby(enumerate(sorted(set(numbers))), key=lambda pair: pair[1] - pair[0]):
        run = [f"{number:0{width}d}" for _, number in group]
        texts.append(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ",".join(texts) or "none"
