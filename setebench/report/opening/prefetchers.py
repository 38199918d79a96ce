"""Hardware prefetchers in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from setebench.report.opening.answers import OPEN, Answers
from setebench.results import Outcome

START, PRESENT = "prefetcher.", ".present"
KINDS = {
    "next_line": "next line",
    "pair": "adjacent line",
    "up_down": "line above or below",
    "other": "of no known kind",
}
"""Kinds whose word is not their name."""

KEYS = {"ip": "by instruction", "page": "by page", "ip+page": "by instruction and page"}
CLAUSES: dict[str, str | dict[Any, str]] = {
    "trigger": "after {}",
    "degree": "{} at a time",
    "max_distance": "up to {} ahead",
    "streams": "{} at once",
    "region_size": "regions of {}",
    "directions": {"up": "upwards only", "down": "downwards only", "both": "up and down"},
    "crosses_4k": {True: "crosses 4 KiB", False: "stays in 4 KiB"},
}
"""Clauses on numbers, and on what has a few values."""


def present(answers: Answers) -> list[tuple[str, str, str]]:
    """Level, name and words of those that are there, in order of appearance."""
    found = []
    for identity, level, kind in _every(answers):
        if answers.value(f"{START}{identity}{PRESENT}"):
            key = KEYS.get(str(answers.value(f"{START}{identity}.indexed_by")))
            found.append((level, f"{kind} {key}" if key else kind, ", ".join(_clauses(answers, identity))))
    return found


def missing(answers: Answers, absent: bool) -> str:
    """Kinds that were looked for and are not there, or of which it is open whether they are."""
    names = []
    for identity, level, kind in _every(answers):
        outcome = answers.findings[f"{START}{identity}{PRESENT}"].outcome
        found = outcome is Outcome.ABSENT and not identity.endswith(".other")
        if found if absent else outcome in (Outcome.UNRESOLVED, Outcome.UNAVAILABLE):
            names.append(f"{level} {kind}")
    return ", ".join(names)


def _every(answers: Answers) -> Iterator[tuple[str, str, str]]:
    """Those that were looked for: `l1.stride`, its level, and its kind as a person calls it."""
    for name in answers.findings:
        if name.startswith(START) and name.endswith(PRESENT):
            identity = name.removeprefix(START).removesuffix(PRESENT)
            level, _, kind = identity.partition(".")
            yield identity, level.upper(), KINDS.get(kind, kind.replace("_", " "))


def _clauses(answers: Answers, identity: str) -> Iterator[str]:
    left = []
    for name, clause in CLAUSES.items():
        parameter = f"{START}{identity}.{name}"
        text, value = answers.text(parameter), answers.value(parameter)
        if text == OPEN:
            left.append(name.replace("_", " "))
        elif isinstance(clause, str) and text:
            yield clause.format(text)
        elif isinstance(clause, dict) and isinstance(value, (str, bool)) and value in clause:
            yield clause[value]
    trainers, fills = (answers.value(f"{START}{identity}.{name}") for name in ("trained_by", "fills"))
    if isinstance(trainers, list) and trainers:
        yield f"trained by {', '.join(map(str, trainers))}"
    if isinstance(fills, str) and not identity.startswith(fills):
        yield f"into {fills.upper()}"
    if left:
        yield f"open: {', '.join(left)}"
