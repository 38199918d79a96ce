"""Small heat maps of what prefetchers bring, as text: a row of marks for each number of accesses to a page."""

from __future__ import annotations

import msgspec

from setebench.results import Document

SHOWN = {
    "base": "loads of one line after the other",
    "one instruction": "the same by one instruction",
    "every 3rd line, one instruction": "every third line by one instruction",
}
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24)
"""Curves in words, and numbers of accesses, that are shown: all of them are among a report's plots."""

ACCESSED, SHADES, MEMORY = "o", "█▓▒░", "·"
MOST_LINES = 64


class Map(msgspec.Struct, frozen=True, kw_only=True):
    """One curve: how a page was accessed, and a row for each number of accesses."""

    name: str
    rows: list[str]
    legend: str


class _Curve(msgspec.Struct, frozen=True):
    levels: list[str]
    counts: list[int]
    nearest: list[list[int]]


def maps(document: Document) -> list[Map]:
    """The maps of a document's curves of presence; what is no curve is left out, as a result file is anybody's."""
    evidence = document.evidence.get("scenario.prefetcher-map", document.evidence)
    curves = evidence.get("prefetchers") if isinstance(evidence, dict) else None
    known, found = curves if isinstance(curves, dict) else {}, []
    for name, words in SHOWN.items():
        try:
            curve = msgspec.convert(known.get(name), _Curve)
        except msgspec.ValidationError:
            continue
        marks = dict(enumerate(SHADES[: len(curve.levels) - 1])) | {len(curve.levels) - 1: MEMORY}
        rows = [
            f"{count:2} {''.join(marks.get(level, ACCESSED) for level in levels[:MOST_LINES])}"
            for count, levels in zip(curve.counts, curve.nearest, strict=False)
            if count in COUNTS
        ]
        levels = ", ".join(f"{marks[place]} {level}" for place, level in enumerate(curve.levels) if place in marks)
        found.append(Map(name=words, rows=rows, legend=f"{ACCESSED} accessed, {levels}"))
    return found
