"""Findings as rules for fields read them, and the machine file while it is being made."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from setebench import store
from setebench.errors import UsageError
from setebench.results import Document, Outcome
from setebench.sim.files.origins import Kind, Origin, Path

LONGEST_WHY = 300
"""Characters; a machine file's lines have at most 1000."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A value of a field-to-be. `kind` is measured, bounded (by a lower bound, or by an interval without a value), or
    assumed."""

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

    @property
    def ends(self) -> tuple[Any, Any]:
        """The interval, closed by the value where an end is open."""
        return (self.value if self.low is None else self.low, self.value if self.high is None else self.high)

    def of(self, value: Any) -> Reading:
        """The same of what a field wants instead of the finding's value."""
        return replace(self, value=value)

    def bounded(self, why: str) -> Reading:
        """The same, but no surer than a bound."""
        return replace(self, kind="bounded", why=f"{why}; {self.why}" if self.why else why)


def assumed(value: Any, why: str) -> Reading:
    """A value that nobody measured."""
    return Reading(value, "assumed", why=why)


class Readings:
    """The findings of a result that rules may use; those `without` are left out because they contradict others."""

    def __init__(self, document: Document, without: Collection[str] = ()) -> None:
        self.document = document
        self._findings = {each.parameter: each for each in document.findings if each.parameter not in without}

    def get(self, parameter: str) -> Reading | None:
        """The finding as a reading, None where it says nothing of the value."""
        found = self._findings.get(parameter)
        if found is None:
            return None
        low, high, names = found.low, found.high, (parameter,)
        if found.value is None:
            if low is None or high is None:
                return None
            middle = math.sqrt(low * high) if low > 0 else (low + high) / 2
            return Reading(middle, "bounded", low, high, names, found.reason or "")
        if found.outcome == Outcome.AT_LEAST:
            return Reading(found.value, "bounded", found.number or low, high, names, "a lower bound")
        return Reading(found.value, "measured", low, high, names, found.method)

    def names(self, start: str, end: str = "") -> list[str]:
        """Parameters that begin and end so, in the order of the result."""
        return [name for name in self._findings if name.startswith(start) and name.endswith(end)]

    def fact(self, name: str) -> Any:
        """What the machine says of itself; None where it doesn't."""
        return self.document.machine.facts.get(name)

    @property
    def guest(self) -> bool:
        """Whether the machine says that it is a hypervisor's guest."""
        return store.part(self.document.machine.environment, "hypervisor").get("present") is True

    @property
    def curves(self) -> dict[str, Any]:
        """Which lines of a page were there after accesses to it, by the curve's name: evidence of a prefetcher map."""
        evidence = self.document.evidence
        return store.part(evidence.get("scenario.prefetcher-map", evidence), "prefetchers")

    @property
    def line(self) -> int:
        """Bytes of a line: as found, else as the machine says, else 64."""
        found = self.get("cache.l1.line_size")
        return int(found.value if found else self.fact("line_size") or 64)

    @property
    def levels(self) -> int:
        """How many levels of cache the result shows; a machine file has two or three."""
        return 3 if self.names("cache.l3.") or self.names("latency.l3") else 2


def computed(rule: Callable[..., Any], *readings: Reading | None) -> Reading | None:
    """`rule` of the values, None where one is unknown; the interval spans the rule at the corners of theirs. No surer
    than the least sure.

    Raises `UsageError` for values that the rule can't take, as only a damaged result has."""
    known = [each for each in readings if each is not None]
    if len(known) < len(readings):
        return None
    names = tuple(dict.fromkeys(name for each in known for name in each.parameters))
    try:
        value = rule(*(each.value for each in known))
        ends = [rule(*corner) for corner in itertools.product(*(each.ends for each in known))]
    except (ArithmeticError, ValueError) as error:
        raise UsageError(f"the result's values of {', '.join(names)} can't be: {error}") from error
    kind: Kind = "bounded" if any(each.kind == "bounded" for each in known) else "measured"
    whys = dict.fromkeys(each.why for each in known if each.why)
    low, high = (min(ends), max(ends)) if min(ends) < max(ends) else (None, None)
    return Reading(value, kind, low, high, names, "; ".join(whys))


def narrowest(readings: Iterable[Reading | None]) -> Reading | None:
    """The reading with the narrowest interval, measured ones first; None of none."""
    known = (each for each in readings if each is not None)
    return min(known, key=lambda each: (each.kind != "measured", each.ends[1] - each.ends[0]), default=None)


@dataclass
class Draft:
    """A machine file while it is being made: values of fields and where they come from, by path."""

    fields: dict[Path, Any] = field(default_factory=dict)
    origins: dict[Path, Origin] = field(default_factory=dict)

    def put(self, path: Path, reading: Reading | None) -> None:
        """Fill a field from a reading, if there is one."""
        if reading is not None:
            self.fields[path], self.origins[path] = reading.value, reading.origin

    def assume(self, path: Path, value: Any, why: str) -> None:
        """Fill a field that nobody measured."""
        self.put(path, assumed(value, why))

    def fill(self, path: Path, reading: Reading | None, usual: Any, why: str) -> None:
        """Fill a field from a reading, or without one with what is assumed for this reason."""
        self.assume(path, usual, why)
        self.put(path, reading)

    @property
    def data(self) -> dict[str, Any]:
        """The fields as a TOML parser would have read them."""
        root: dict[str, Any] = {}
        for path, value in self.fields.items():
            node: Any = root
            for part, after in itertools.pairwise(path):
                if isinstance(part, int):
                    node += [{} for _ in range(part + 1 - len(node))]
                    node = node[part]
                else:
                    node = node.setdefault(part, [] if isinstance(after, int) else {})
            node[path[-1]] = value
        return root
