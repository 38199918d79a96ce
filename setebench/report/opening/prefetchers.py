"""Hardware prefetchers in words."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from setebench.report.opening.answers import Answers
from setebench.results import Finding, Outcome

START, PRESENT = "prefetcher.", ".present"
KINDS = {
    "next_line": "next line",
    "pair": "adjacent line",
    "up_down": "line above or below",
    "other": "of no known kind",
}
"""Kinds whose word is not their name."""

KEYS = {"ip": "by instruction", "page": "by page", "ip+page": "by instruction and page"}
TRAINERS = ("load", "store", "prefetch")
DESCRIBED = {
    "trigger": "when it begins",
    "degree": "lines at a time",
    "max_distance": "distance",
    "directions": "directions",
    "streams": "runs at once",
    "crosses_4k": "page borders",
}
"""What the words speak of, and what it is called where it is open."""


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
            words = _Words(answers, identity, kind).text()
            name = _name(answers, identity, kind)
            found.append(Prefetcher(identity=identity, level=level, name=name, words=words))
    return found


def absent(answers: Answers, level: str) -> list[str]:
    """Kinds that were looked for in a level and are not there."""
    names = (identity.partition(".") for identity in _identities(answers) if not_there(answers, identity))
    return [word(kind) for where, _, kind in names if where == level and kind != "other"]


def unsettled(answers: Answers) -> list[str]:
    """Those of which it is open whether they are there."""
    names = [name for name in _identities(answers) if answers.get(f"{START}{name}{PRESENT}") is None]
    return [f"{level.upper()} {word(kind)}" for level, _, kind in (name.partition(".") for name in names)]


def not_there(answers: Answers, identity: str) -> bool:
    """Whether it was looked for properly, and is not there."""
    finding = answers.findings.get(f"{START}{identity}{PRESENT}")
    return finding is not None and finding.outcome is Outcome.ABSENT


def word(kind: str) -> str:
    """A kind as a person calls it."""
    return KINDS.get(kind, kind.replace("_", " "))


def _identities(answers: Answers) -> list[str]:
    names = [name for name in answers.findings if name.startswith(START) and name.endswith(PRESENT)]
    return [name.removeprefix(START).removesuffix(PRESENT) for name in names]


def _name(answers: Answers, identity: str, kind: str) -> str:
    key = answers.value(f"{START}{identity}.indexed_by")
    return f"{word(kind)} {KEYS[key]}" if isinstance(key, str) and key in KEYS else word(kind)


@dataclass(frozen=True)
class _Words:
    """The clauses on one prefetcher, each from one or two findings; none where nothing was found."""

    answers: Answers
    identity: str
    kind: str

    def text(self) -> str:
        """All of them, and behind them what is open."""
        clauses = (
            self._patterns(),
            self._trigger(),
            self._reach(),
            self._direction(),
            self._trainers(),
            self._fills(),
            self._streams(),
            self._region(),
            self._border(),
        )
        return "; ".join(filter(None, [", ".join(filter(None, clauses)), self._open()]))

    def _name(self, parameter: str) -> str:
        return f"{START}{self.identity}.{parameter}"

    def _get(self, parameter: str) -> Finding | None:
        return self.answers.get(self._name(parameter))

    def _number(self, parameter: str) -> str:
        return self.answers.bare(self._name(parameter)) if self._get(parameter) is not None else ""

    def _patterns(self) -> str:
        found = self.answers.value(self._name("patterns"))
        return f"shown by {_listed(found)}" if isinstance(found, list) and found else ""

    def _trigger(self) -> str:
        number = self._number("trigger")
        return f"from the {ordinal(number)} access" if number else ""

    def _reach(self) -> str:
        degree, distance = self._number("degree"), self._number("max_distance")
        if self.kind in ("pair", "up_down"):
            return ""
        unit = "stride" if self.kind == "stride" else "line"
        if degree and degree == distance:
            return f"{_many(distance, unit)} ahead"
        if degree and distance:
            return f"{degree} at a time up to {_many(distance, unit)} ahead"
        if distance:
            return f"up to {_many(distance, unit)} ahead"
        return f"{_many(degree, unit)} at a time" if degree else ""

    def _direction(self) -> str:
        if self.kind == "next_line":
            return ""
        found = str(self.answers.value(self._name("directions")))
        return {"up": "upwards only", "down": "downwards only", "both": "up and down"}.get(found, "")

    def _trainers(self) -> str:
        found = self.answers.value(self._name("trained_by"))
        trainers = [str(each) for each in found] if isinstance(found, list) else []
        if not trainers or set(TRAINERS) <= set(trainers):
            return ""
        kinds = {"load": "loads", "store": "stores", "prefetch": "prefetches"}
        return f"on {_listed([kinds.get(each, each) for each in trainers])}"

    def _fills(self) -> str:
        level, fills = self.identity.partition(".")[0], self.answers.value(self._name("fills"))
        return f"into {fills.upper()}" if isinstance(fills, str) and fills != level else ""

    def _streams(self) -> str:
        number = self._number("streams")
        what = "regions" if self.kind == "region" else "runs"
        return f"{number} {what} at once" if number else ""

    def _region(self) -> str:
        name = self._name("region_size")
        return f"regions of {self.answers.text(name)}" if self.answers.get(name) is not None else ""

    def _border(self) -> str:
        small, large = (self.answers.value(self._name(name)) for name in ("crosses_4k", "crosses_4k_in_2m"))
        if small is None:
            return ""
        if small:
            return "crosses 4 KiB"
        return "crosses 4 KiB in 2 MiB pages only" if large else "stays in 4 KiB"

    def _open(self) -> str:
        findings = self.answers.findings
        asked = [text for name, text in DESCRIBED.items() if self._name(name) in findings and not self._get(name)]
        return f"open: {', '.join(asked)}" if asked else ""


def ordinal(number: str) -> str:
    """`first`, `2nd`, `3rd`; a bound as `≥ 4th`."""
    digits = number.removeprefix("≥ ")
    if digits == "1":
        return "first" if digits == number else number
    ending = "th" if digits[-2:-1] == "1" else {"1": "st", "2": "nd", "3": "rd"}.get(digits[-1:], "th")
    return f"{number}{ending}"


def _many(number: str, unit: str) -> str:
    return f"{number} {unit}" if number == "1" else f"{number} {unit}s"


def _listed(words: list[object]) -> str:
    texts = [str(each).replace("_", " ") for each in words]
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))
