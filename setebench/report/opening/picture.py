"""The picture of the machine: its boxes from the cores to memory, and what is in each, hardware prefetchers too; and
small heat maps, as text, of what these bring: a row of marks for each number of accesses to a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from setebench.report.opening.answers import MEMORY, OPEN, Answers, kernel, rounded
from setebench.results import Document, Outcome
from setebench.store import part

START, PRESENT = "prefetcher.", ".present"
SHOWN = (
    *("indexed_by", "trigger", "degree", "max_distance", "streams", "region_size"),
    *("directions", "crosses_4k", "trained_by", "fills"),
)
"""What is said of a prefetcher, in this order."""


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the machine: `facts` are (what it is called, what it is), `prefetchers` are (kind, what it does)."""

    name: str
    facts: list[tuple[str, str]]
    prefetchers: list[tuple[str, str]] = []


def picture(answers: Answers) -> list[Box]:
    """What was found from the cores down to memory; what was not measured is left out."""
    waits = " or ".join(what for what in ("load", "store") if answers.value(f"blocking.{what}") == "blocking")
    cores = {
        "cores": _cores(answers.document.machine.facts),
        "clock": f"{answers.ratio:.2f} GHz" if answers.ratio else "",
        "waits": f"on a miss of a {waits}" if waits else "",
    }
    alone, most = answers.bandwidths(MEMORY)
    memory = {
        "latency": answers.timed(f"latency.{MEMORY}"),
        "one thread": rounded(alone),
        "bandwidth": f"{rounded(most)} by {kernel(most)}" if most else "",
    }
    parts = {"Cores": cores, **{level.upper(): _cache(answers, level) for level in answers.levels}, "Memory": memory}
    there = present(answers)
    return [
        Box(
            name=name,
            facts=[(label, text) for label, text in facts.items() if text],
            prefetchers=[each[1:] for each in there if each[0] == name],
        )
        for name, facts in parts.items()
    ]


def _cores(facts: dict[str, Any]) -> str:
    """How many cores with how many threads the program may use."""
    siblings = facts.get("siblings")
    groups = [group for group in siblings if isinstance(group, list)] if isinstance(siblings, list) else []
    threads = sorted({len(group) for group in groups})
    each = "one thread" if threads == [1] else f"{' or '.join(map(str, threads))} threads"
    return f"{len(groups)}, {each}{' each' if len(groups) > 1 else ''}" if groups else ""


def _cache(answers: Answers, level: str) -> dict[str, str]:
    before = f"l{int(level[1:]) - 1}"
    holds = answers.value(f"cache.{before}.inclusive_in_{level}") is True
    return {
        "size": answers.text(f"cache.{level}.size"),
        "ways": answers.text(f"cache.{level}.ways").removesuffix(" ways"),
        "latency": answers.timed(f"latency.{level}"),
        "bandwidth": rounded(answers.bandwidths(level)[0]),
        "keeps": f"all of {before.upper()}" if holds else "",
        "misses in flight": answers.in_flight(level),
    }


# -- prefetchers -------------------------------------------------------------------------------------------------------


def present(answers: Answers) -> list[tuple[str, str, str]]:
    """Level, kind and findings of those that are there, in order of appearance."""
    return [(level, kind, _found(answers, name)) for name, level, kind in _every(answers) if answers.value(name)]


def missing(answers: Answers, *outcomes: Outcome) -> str:
    """Kinds that were looked for with one of these outcomes."""
    found = ((answers.findings[name].outcome, level, kind) for name, level, kind in _every(answers))
    return ", ".join(f"{level} {kind}" for outcome, level, kind in found if outcome in outcomes)


def _every(answers: Answers) -> Iterator[tuple[str, str, str]]:
    """Those that were looked for: the finding of their presence, their level and kind."""
    for name in answers.findings:
        if name.startswith(START) and name.endswith(PRESENT):
            level, _, kind = name.removeprefix(START).removesuffix(PRESENT).partition(".")
            yield name, level.upper(), kind.replace("_", " ") + " of no known kind" * (kind == "other")


def _found(answers: Answers, name: str) -> str:
    """What was found of one prefetcher: `trigger 4 accesses, degree 2 lines; open: streams`."""
    texts = {
        each.replace("_", " "): answers.text(f"{name.removesuffix(PRESENT)}.{each}").removesuffix(f" {each}")
        for each in SHOWN
    }
    known = ", ".join(f"{each} {text}" for each, text in texts.items() if text not in ("", OPEN))
    left = ", ".join(each for each, text in texts.items() if text == OPEN)
    return "; ".join(filter(None, (known, f"open: {left}" if left else "")))


# -- small heat maps of what prefetchers bring ------------------------------------------------------------------------


CURVES = {
    "base": "loads of one line after the other",
    "one instruction": "the same by one instruction",
    "every 3rd line, one instruction": "every third line by one instruction",
}
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24)
"""Curves in words, and numbers of accesses, that are shown: all of them are among a report's plots."""

ACCESSED, SHADES, FURTHEST = "o", "█▓▒░", "·"
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
    known = part(document.evidence.get("scenario.prefetcher-map", document.evidence), "prefetchers")
    found = []
    for name, words in CURVES.items():
        try:
            curve = msgspec.convert(known.get(name), _Curve)
        except msgspec.ValidationError:
            continue
        marks = dict(enumerate([*SHADES[: len(curve.levels) - 1], FURTHEST]))
        rows = [
            f"{count:2} {''.join(marks.get(level, ACCESSED) for level in levels[:MOST_LINES])}"
            for count, levels in zip(curve.counts, curve.nearest, strict=False)
            if count in COUNTS
        ]
        legend = [f"{ACCESSED} accessed", *map("{} {}".format, marks.values(), curve.levels)]
        found.append(Map(name=words, rows=rows, legend=", ".join(legend)))
    return found
