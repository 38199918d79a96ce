"""Hardware prefetchers: which were looked for, and what was found of each."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.report.opening.answers import OPEN, Answers
from setebench.results import Outcome

START, PRESENT = "prefetcher.", ".present"
OTHER = ".other"
SHOWN = (
    *("indexed_by", "trigger", "degree", "max_distance", "streams", "region_size"),
    *("directions", "crosses_4k", "trained_by", "fills"),
)
"""What is said of a prefetcher, in this order."""


def present(answers: Answers) -> list[tuple[str, str, str]]:
    """Level, kind and findings of those that are there, in order of appearance."""
    return [(level, kind, _found(answers, name)) for name, level, kind in _every(answers) if answers.value(name)]


def missing(answers: Answers, absent: bool) -> str:
    """Kinds that were looked for and are not there, or of which it is open whether they are."""
    names = []
    for name, level, kind in _every(answers):
        outcome = answers.findings[name].outcome
        found = outcome is Outcome.ABSENT and not name.endswith(OTHER + PRESENT)
        if found if absent else outcome in (Outcome.UNRESOLVED, Outcome.UNAVAILABLE):
            names.append(f"{level} {kind}")
    return ", ".join(names)


def _every(answers: Answers) -> Iterator[tuple[str, str, str]]:
    """Those that were looked for: the finding of their presence, their level and kind."""
    for name in answers.findings:
        if name.startswith(START) and name.endswith(PRESENT):
            level, _, kind = name.removeprefix(START).removesuffix(PRESENT).partition(".")
            yield name, level.upper(), kind.replace("_", " ") + " of no known kind" * (kind == OTHER[1:])


def _found(answers: Answers, name: str) -> str:
    """What was found of one prefetcher: `trigger 4 accesses, degree 2 lines; open: streams`."""
    texts = {
        each.replace("_", " "): answers.text(f"{name.removesuffix(PRESENT)}.{each}").removesuffix(f" {each}")
        for each in SHOWN
    }
    known = ", ".join(f"{each} {text}" for each, text in texts.items() if text not in ("", OPEN))
    left = ", ".join(each for each, text in texts.items() if text == OPEN)
    return "; ".join(filter(None, (known, f"open: {left}" if left else "")))
