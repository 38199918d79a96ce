"""Hardware prefetchers in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

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
NUMBERS = {
    "trigger": "from access {}",
    "degree": "{} at a time",
    "max_distance": "up to {} ahead",
    "streams": "{} at once",
    "region_size": "regions of {}",
}
"""Clauses on numbers."""

WORDS: dict[str, dict[Any, str]] = {
    "directions": {"up": "upwards only", "down": "downwards only", "both": "up and down"},
    "crosses_4k": {True: "crosses 4 KiB", False: "stays in 4 KiB"},
}
"""Clauses on what has a few values."""


class Prefetcher(msgspec.Struct, frozen=True, kw_only=True):
    """One that is there: where it sits, its kind, and what it does."""

    identity: str
    level: str
    name: str
    words: str


def present(answers: Answers) -> list[Prefetcher]:
    """Those that are there, in order of appearance."""
    found = []
    for identity in _identities(answers):
        if answers.value(f"{START}{identity}{PRESENT}"):
            level, _, kind = identity.partition(".")
            key = KEYS.get(str(answers.value(f"{START}{identity}.indexed_by")))
            name = f"{word(kind)} {key}" if key else word(kind)
            clauses = [*_clauses(answers, identity), *_open(answers, identity)]
            found.append(Prefetcher(identity=identity, level=level, name=name, words=", ".join(clauses)))
    return found


def absent(answers: Answers, level: str) -> list[str]:
    """Kinds that were looked for in a level and are not there."""
    return [
        word(kind)
        for where, _, kind in (identity.partition(".") for identity in _identities(answers))
        if where == level and kind != "other" and _outcome(answers, f"{where}.{kind}") is Outcome.ABSENT
    ]


def unsettled(answers: Answers) -> list[str]:
    """Those of which it is open whether they are there."""
    names = [name for name in _identities(answers) if answers.get(f"{START}{name}{PRESENT}") is None]
    return [f"{level.upper()} {word(kind)}" for level, _, kind in (name.partition(".") for name in names)]


def word(kind: str) -> str:
    """A kind as a person calls it."""
    return KINDS.get(kind, kind.replace("_", " "))


def _identities(answers: Answers) -> list[str]:
    names = [name for name in answers.findings if name.startswith(START) and name.endswith(PRESENT)]
    return [name.removeprefix(START).removesuffix(PRESENT) for name in names]


def _outcome(answers: Answers, identity: str) -> Outcome:
    return answers.findings[f"{START}{identity}{PRESENT}"].outcome


def _clauses(answers: Answers, identity: str) -> Iterator[str]:
    for name, clause in NUMBERS.items():
        text = answers.text(f"{START}{identity}.{name}")
        if text not in ("", OPEN):
            yield clause.format(text if name != "trigger" else answers.bare(f"{START}{identity}.{name}"))
    for name, words in WORDS.items():
        value = answers.value(f"{START}{identity}.{name}")
        if isinstance(value, (str, bool)) and value in words:
            yield words[value]
    trainers = answers.value(f"{START}{identity}.trained_by")
    if isinstance(trainers, list) and trainers:
        yield f"trained by {', '.join(map(str, trainers))}"
    fills = answers.value(f"{START}{identity}.fills")
    if isinstance(fills, str) and not identity.startswith(fills):
        yield f"into {fills.upper()}"


def _open(answers: Answers, identity: str) -> Iterator[str]:
    names = [name for name in (*NUMBERS, *WORDS) if answers.text(f"{START}{identity}.{name}") == OPEN]
    if names:
        yield f"open: {', '.join(name.replace('_', ' ') for name in names)}"
