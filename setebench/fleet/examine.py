"""One parameter over all nodes: its centre, what varies within and between nodes, and how probable each node's distance
from the centre is where the nodes are equal.

A parameter is a *number* where any finding has an interval with a width, else one of several *answers*, as are
booleans, names and lists.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.results import Finding, Outcome
from setebench.stats.nodes import Components, Runs, answers, components, sum_up, tail

Numbers = NDArray[np.float64]

FEWEST_NODES = 3  # of fewer, none is odder than the other
LARGEST = 1e100  # numbers beyond are nobody's measurement, and their squares would overflow
_OF_WIDTH = 0.5 / 1.959963984540054  # standard error over width of a 95 % interval of a normal value


@dataclass
class Column:
    """All that results report of one parameter, each with its node's number: `numbers` with the standard error that
    they state (0: none), `answers` that are none as text, nodes that gave a lower bound (`bounds`), why it was left
    `open`, and the versions of the method."""

    parameter: str
    unit: str = ""
    numbers: list[tuple[int, float, float]] = field(default_factory=list)
    answers: list[tuple[int, str]] = field(default_factory=list)
    bounds: list[int] = field(default_factory=list)
    open: list[tuple[int, str]] = field(default_factory=list)
    method_versions: set[int] = field(default_factory=set)

    @property
    def answered(self) -> list[int]:
        """The number of its node for each run that didn't leave it open."""
        return [*(node for node, *_ in self.numbers), *(node for node, _ in self.answers), *self.bounds]

    def add(self, node: int, finding: Finding) -> None:
        """Take what a node says."""
        self.method_versions.add(finding.method_version)
        value = finding.value
        if value is None:
            self.open.append((node, f"{finding.outcome}: {finding.reason}"))
        elif finding.outcome is Outcome.ABSENT or isinstance(value, (bool, str, list)):
            self.answers.append((node, answer_text(finding)))
        elif finding.unit != (self.unit or finding.unit):
            self.open.append((node, f"another unit: {finding.unit}"))
        elif max(abs(value), abs(finding.low or 0), abs(finding.high or 0)) > LARGEST:
            self.open.append((node, "no measurement is so large"))
        elif finding.outcome is Outcome.AT_LEAST:
            self.bounds.append(node)
        else:
            width = 0.0 if finding.low is None or finding.high is None else abs(finding.high - finding.low)
            self.numbers.append((node, float(value), width * _OF_WIDTH))
            self.unit = self.unit or finding.unit


def answer_text(finding: Finding) -> str:
    """An answer as text. A list of names is a set; of numbers, the order says something."""
    value: Any = "absent" if finding.outcome is Outcome.ABSENT else finding.value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        value = sorted(set(value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class Tested(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter's test: for every node that is judged (`nodes`: their numbers) its value, of answers the place in
    `texts`, and the probability `p` of a distance from the centre so large. Of numbers also the `runs` and what varies
    in them (`spread`)."""

    parameter: str
    unit: str
    nodes: NDArray[np.int64]
    values: Numbers
    p: Numbers
    centre: float
    texts: list[str] | None = None
    runs: Runs | None = None
    spread: Components | None = None

    def shown(self, value: float) -> float | str:
        """A number as it is, an answer as its text."""
        return value if self.texts is None else self.texts[int(value)]

    def relative(self, value: float) -> float | None:
        """By what fraction a number differs from the centre; None of answers, or where the centre is 0."""
        return None if self.texts is not None or self.centre == 0 else value / self.centre - 1


def test_of(column: Column, nodes: int) -> Tested | None:
    """The test of one parameter; None where fewer than `FEWEST_NODES` answer. `nodes` is how many there are in all."""
    if any(error for *_, error in column.numbers):
        found = _numbers(column, nodes)
    else:
        said = [*column.answers, *((node, f"{value:.9g}") for node, value, _ in column.numbers)]
        if not said:
            return None
        found = _answers(column, said, nodes)
    return found if len(found.nodes) >= FEWEST_NODES else None


def _numbers(column: Column, nodes: int) -> Tested:
    node, value, error = map(np.array, zip(*column.numbers, strict=True))
    present, runs = sum_up(node, value, error, nodes)
    found = components(runs)
    away, error = runs.mean - found.means.centre, np.sqrt(found.variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        in_errors = np.where(away == 0, 0.0, away / error)
    return Tested(
        parameter=column.parameter,
        unit=column.unit,
        nodes=present,
        values=runs.mean,
        p=tail(in_errors, found.degrees),
        centre=found.means.centre,
        runs=runs,
        spread=found,
    )


def _answers(column: Column, said: Sequence[tuple[int, str]], nodes: int) -> Tested:
    """By nodes and what they say, which is at least one answer."""
    codes = {text: code for code, text in enumerate(dict.fromkeys(text for _, text in said))}
    node, code = np.array([(node, codes[text]) for node, text in said]).T
    found = answers(node, code, nodes)
    return Tested(
        parameter=column.parameter,
        unit=column.unit,
        nodes=found.present,
        values=found.answer.astype(np.float64),
        p=found.p,
        texts=list(codes),
        centre=float(found.usual),
    )
