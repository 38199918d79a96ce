"""What many results say, by parameter."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from setebench.fleet.reading import Reported
from setebench.results import Outcome

MOST_PARAMETERS = 100_000  # of all results together; more say that a file is not what it claims
LARGEST = 1e100  # numbers beyond are nobody's measurement, and their squares would overflow
_OF_WIDTH = 0.5 / 1.959963984540054  # standard error over width of a 95 % interval of a normal value


@dataclass
class Column:
    """All that results report of one parameter, each with its node's number: `numbers` with the standard error that
    they state (0: none), `answers` that are none as text, nodes that gave a lower bound (`bounds`), and why it was left
    `open`."""

    parameter: str
    unit: str = ""
    numbers: list[tuple[int, float, float]] = field(default_factory=list)
    answers: list[tuple[int, str]] = field(default_factory=list)
    bounds: list[int] = field(default_factory=list)
    open: list[tuple[int, str]] = field(default_factory=list)

    @property
    def answered(self) -> list[int]:
        """The number of its node for each run that didn't leave it open."""
        return [*(node for node, *_ in self.numbers), *(node for node, _ in self.answers), *self.bounds]

    def add(self, node: int, finding: Reported) -> None:
        """Take what a node says."""
        value = finding.value
        if value is None or finding.outcome in (Outcome.UNRESOLVED, Outcome.UNAVAILABLE):
            return self.open.append((node, f"{finding.outcome}: {finding.reason or 'no reason given'}"))
        if finding.outcome == Outcome.ABSENT:
            return self.answers.append((node, "absent"))
        self.unit = self.unit or finding.unit
        if finding.unit != self.unit:
            return self.open.append((node, f"another unit: {finding.unit}"))
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return self.answers.append((node, answer_text(value)))
        if not -LARGEST < value < LARGEST:
            return self.open.append((node, "no measurement is so large"))
        if finding.outcome == Outcome.AT_LEAST:
            return self.bounds.append(node)
        return self.numbers.append((node, float(value), _error(finding.low, finding.high)))


class Columns:
    """Takes results one by one. `nodes` are the numbers of nodes, `of` the columns of parameters as they came."""

    def __init__(self) -> None:
        self.nodes: dict[str, int] = {}
        self.runs = 0
        self.of: dict[str, Column] = {}

    def add(self, name: str, findings: list[Reported]) -> None:
        """Take one run of a node; of a parameter that it mentions twice the first finding counts."""
        node = self.nodes.setdefault(name, len(self.nodes))
        self.runs += 1
        first: dict[str, Reported] = {}
        for each in findings:
            first.setdefault(each.parameter, each)
        for parameter, finding in first.items():
            if parameter in self.of or len(self.of) < MOST_PARAMETERS:
                self.of.setdefault(parameter, Column(parameter)).add(node, finding)


def _error(low: float | None, high: float | None) -> float:
    error = 0.0 if low is None or high is None else abs(high - low) * _OF_WIDTH
    return error if error < LARGEST else 0.0


def answer_text(value: Any) -> str:
    """An answer as text. A list of names is a set; of numbers, the order says something."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        value = sorted(set(value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
