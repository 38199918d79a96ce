"""What many results say, by parameter: a row a run."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setebench.fleet.reading import Reported, Result
from setebench.results import Outcome

MOST_PARAMETERS = 100_000  # of all results together; more say that a file is not what it claims
LARGEST = 1e100  # numbers beyond are nobody's measurement, and their squares would overflow
_OF_WIDTH = 0.5 / 1.959963984540054  # standard error over width of a 95 % interval of a normal value


class Kind(IntEnum):
    """What a row says: a number, one of several answers, that something is absent, a lower bound, or nothing."""

    NUMBER = 0
    ANSWER = 1
    ABSENT = 2
    BOUND = 3
    OPEN = 4


ROW = np.dtype([("node", "<u4"), ("kind", "u1"), ("value", "<f8"), ("error", "<f8")])
"""`value` is the number, or the code of the answer or of the reason; `error` the standard error that is stated."""


@dataclass
class Column:
    """All that results report of one parameter: rows as `ROW`, and codes by answers and reasons."""

    parameter: str
    unit: str = ""
    codes: dict[str, int] = field(default_factory=dict)
    said: list[tuple[int, int, float, float]] = field(default_factory=list)

    @cached_property
    def rows(self) -> NDArray[Any]:
        """What was said, once all has come in."""
        return np.array(self.said, ROW)

    @property
    def texts(self) -> list[str]:
        """Answers and reasons by their codes."""
        return list(self.codes)

    def of(self, *kinds: Kind) -> NDArray[Any]:
        """The rows of these kinds."""
        found: NDArray[Any] = self.rows[np.isin(self.rows["kind"], kinds)]
        return found

    def add(self, node: int, finding: Reported) -> None:
        """Take what a node says."""
        self.said.append((node, *self._row(finding)))

    def _row(self, finding: Reported) -> tuple[int, float, float]:
        value = finding.value
        if value is None or finding.outcome in (Outcome.UNRESOLVED, Outcome.UNAVAILABLE):
            return self._coded(Kind.OPEN, f"{finding.outcome}: {finding.reason or 'no reason given'}")
        if finding.outcome == Outcome.ABSENT:
            return self._coded(Kind.ABSENT, "absent")
        self.unit = self.unit or finding.unit
        if finding.unit != self.unit:
            return self._coded(Kind.OPEN, f"another unit: {finding.unit}")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return self._coded(Kind.ANSWER, answer_text(value))
        if not -LARGEST < value < LARGEST:
            return self._coded(Kind.OPEN, "no measurement is so large")
        if finding.outcome == Outcome.AT_LEAST:
            return Kind.BOUND, float(value), 0.0
        return Kind.NUMBER, float(value), _error(finding.low, finding.high)

    def _coded(self, kind: Kind, text: str) -> tuple[int, float, float]:
        return kind, self.codes.setdefault(text, len(self.codes)), 0.0


class Columns:
    """Takes results one by one. `nodes` are the numbers of nodes, `of` the columns of parameters as they came."""

    def __init__(self) -> None:
        self.nodes: dict[str, int] = {}
        self.runs = 0
        self.of: dict[str, Column] = {}

    def add(self, result: Result) -> None:
        """Take one run of a node; of a parameter that it mentions twice the first finding counts."""
        node = self.nodes.setdefault(result.node, len(self.nodes))
        self.runs += 1
        first: dict[str, Reported] = {}
        for each in result.findings:
            first.setdefault(each.parameter, each)
        for parameter, finding in first.items():
            if parameter in self.of or len(self.of) < MOST_PARAMETERS:
                self.of.setdefault(parameter, Column(parameter)).add(node, finding)


def _error(low: float | None, high: float | None) -> float:
    if low is None or high is None:
        return 0.0
    error = abs(high - low) * _OF_WIDTH
    return error if error < LARGEST else 0.0


def answer_text(value: Any) -> str:
    """An answer as text. A list of names is a set; of numbers, the order says something."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        value = sorted(set(value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
