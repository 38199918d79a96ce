"""Findings as rules for fields read them: a value with its interval, and how sure it is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from setebench.errors import UsageError
from setebench.results import Document, Finding, Outcome
from setebench.sim.files.origins import Kind, Origin

LONGEST_WHY = 300
"""Characters; a machine file's lines have at most 1000."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A value of a field-to-be. `kind` is measured, or bounded: by a lower bound, or by an interval without a value."""

    value: Any
    kind: Kind
    low: float | None = None
    high: float | None = None
    parameters: tuple[str, ...] = ()
    why: str = ""

    @property
    def origin(self) -> Origin:
        """What the machine file says of it."""
        why = " ".join(self.why.split())[:LONGEST_WHY]
        return Origin(origin=self.kind, low=self.low, high=self.high, parameters=self.parameters, why=why)

    def bounded(self, why: str) -> Reading:
        """The same, but no surer than a bound."""
        return replace(self, kind="bounded", why=f"{why}; {self.why}" if self.why else why)


@dataclass(frozen=True)
class Readings:
    """The findings of a result that rules may use; those `without` are left out because they contradict others."""

    document: Document
    without: frozenset[str] = frozenset()

    def finding(self, parameter: str) -> Finding | None:
        """The finding, whatever its outcome."""
        if parameter in self.without:
            return None
        return next((each for each in self.document.findings if each.parameter == parameter), None)

    def get(self, parameter: str) -> Reading | None:
        """The finding as a reading, None where it says nothing of the value."""
        found = self.finding(parameter)
        if found is None:
            return None
        if found.value is not None:
            bound = found.outcome == Outcome.AT_LEAST
            low = found.value if bound and isinstance(found.value, (int, float)) else found.low
            why = "a lower bound" if bound else found.method
            return Reading(found.value, "bounded" if bound else "measured", low, found.high, (parameter,), why)
        if found.low is None or found.high is None:
            return None
        return Reading(
            _middle(found.low, found.high), "bounded", found.low, found.high, (parameter,), found.reason or ""
        )

    def latency(self, where: str) -> Reading | None:
        """A level's latency, or memory's. Where it is open or a bound, because chains and single loads disagree, the
        method with the narrower interval stands for it: both are nearer than a lower bound."""
        found = self.get(f"latency.{where}")
        if found is not None and found.kind == "measured":
            return found
        methods = (self.get(f"latency.{where}.{method}") for method in ("chase", "sete"))
        best = narrowest([each for each in methods if each is not None and each.kind == "measured"])
        return found if best is None else best.bounded("chains and single loads disagree; the narrower interval")

    def names(self, start: str, end: str = "") -> list[str]:
        """Parameters that begin and end so, in the order of the result."""
        names = (each.parameter for each in self.document.findings if each.parameter not in self.without)
        return [name for name in names if name.startswith(start) and name.endswith(end)]

    def fact(self, name: str) -> Any:
        """What the machine says of itself; None where it doesn't."""
        return self.document.machine.facts.get(name)

    @property
    def cores(self) -> list[list[int]]:
        """CPU numbers of each core."""
        return [list(group) for group in self.fact("siblings") or [[cpu] for cpu in self.fact("cpus") or [0]]]

    @property
    def line(self) -> int:
        """Bytes of a line: as found, else as the machine says, else 64."""
        found = self.get("cache.l1.line_size")
        return int(found.value if found else self.fact("line_size") or 64)


def computed(rule: Callable[..., float], *readings: Reading, why: str = "") -> Reading:
    """`rule` of the values; the interval spans the rule at the corners of theirs. No surer than the least sure.

    Raises `UsageError` for values that the rule can't take, as only a damaged result has."""
    ends: list[float] = []
    names = tuple(dict.fromkeys(name for each in readings for name in each.parameters))
    try:
        value = rule(*(each.value for each in readings))
        if any(each.low is not None or each.high is not None for each in readings):
            corners = itertools.product(*(list(_ends(each)) for each in readings))
            ends = [rule(*corner) for corner in corners]
    except (ArithmeticError, ValueError) as error:
        raise UsageError(f"the result's values of {', '.join(names)} can't be: {error}") from error
    whys = dict.fromkeys(text for text in (why, *(each.why for each in readings)) if text)
    return Reading(
        value,
        "bounded" if any(each.kind == "bounded" for each in readings) else "measured",
        min(ends) if ends else None,
        max(ends) if ends else None,
        names,
        "; ".join(whys),
    )


def _ends(reading: Reading) -> Iterator[Any]:
    yield reading.value
    yield from (end for end in (reading.low, reading.high) if end is not None)


def _middle(low: float, high: float) -> float:
    return math.sqrt(low * high) if low > 0 else (low + high) / 2


def narrowest(readings: Collection[Reading]) -> Reading | None:
    """The reading with the narrowest interval, measured ones first; None of none."""
    return min(readings, key=_doubt, default=None)


def _doubt(reading: Reading) -> tuple[bool, float]:
    if reading.low is None or reading.high is None:
        return reading.kind != "measured", 0.0
    return reading.kind != "measured", reading.high - reading.low
