"""One parameter over all nodes: its centre, what varies within and between nodes, and how probable each node's distance
from the centre is where the nodes are equal.

A parameter is a *number* where any finding has an interval with a width, else one of several *answers*, as are
booleans, names, lists, and whether something is there at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import special

from setebench.fleet.columns import Column, Kind
from setebench.stats.nodes import categories, components, robust

Numbers = NDArray[np.float64]

PRESENCE = " (there or absent)"
"""Behind a parameter's name: the question whether it is there, where numbers are reported of some nodes only."""

FEWEST_NODES = 3  # of fewer, none is odder than the other
POWER = 0.95  # of the smallest change that is said to be found
_ANSWERS = (Kind.NUMBER, Kind.ANSWER, Kind.ABSENT)


class Tested(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter's test: for every node that is judged (`nodes`: their numbers) what it says (`text` makes text of
    an entry of `values`), and the probability `p` of a distance from the centre so large."""

    parameter: str
    unit: str
    nodes: NDArray[np.int64]
    values: Numbers
    p: Numbers
    centre: float = 0.0
    texts: list[str] | None = None
    spread: Spreads | None = None

    @property
    def distance(self) -> Numbers:
        """In standard deviations of a normal distribution, as `p` says; below the centre negative."""
        away = self.values - self.centre if self.texts is None else np.ones(len(self.p))
        tiny = np.finfo(float).tiny
        found: Numbers = np.abs(special.ndtri(np.maximum(self.p, tiny) / 2)) * np.sign(away) + 0.0  # no -0
        return found

    def text(self, value: float) -> str:
        """A value as text: the answer it stands for, or the number to five digits."""
        return f"{value:.5g}" if self.texts is None else self.texts[int(value)]

    def shown(self, value: float) -> float | str:
        """A number as it is, an answer as its text."""
        return value if self.texts is None else self.text(value)

    def relative(self, value: float) -> float | None:
        """By what fraction a number differs from the centre; None of answers, or where the centre is 0."""
        return None if self.texts is not None or self.centre == 0 else value / self.centre - 1


class Spreads(msgspec.Struct, frozen=True, kw_only=True):
    """Of a number: standard deviations within and between nodes, whether runs were repeated, how many runs, half the
    95 % prediction interval of one run of another healthy node (`reach`), and the smallest change that would be found
    as a function of the probability at which is tested."""

    within: float
    between: float
    repeated: bool
    runs: int
    reach: float
    smallest: Callable[[float], float]


def tests_of(column: Column, nodes: int) -> list[Tested]:
    """The tests of one parameter: none where fewer than `FEWEST_NODES` answer, two where some nodes have numbers
    and others lack what they describe. `nodes` is how many nodes there are in all."""
    numbers, answered = column.of(Kind.NUMBER), column.of(*_ANSWERS)
    found = []
    if not (numbers["error"] > 0).any():
        found.append(_answers(column, answered, nodes))
    else:
        if len(answered) > len(numbers):
            found.append(_answers(column, column.of(Kind.NUMBER, Kind.BOUND, Kind.ABSENT), nodes, PRESENCE))
        found.append(_numbers(column, numbers, nodes))
    return [each for each in found if len(each.nodes) >= FEWEST_NODES]


# -- numbers ----------------------------------------------------------------------------------------------------------


def _numbers(column: Column, rows: NDArray[Any], nodes: int) -> Tested:
    present, runs = components.sum_up(rows["node"], rows["value"], rows["error"], nodes)
    found = components.components(runs)
    away, error = runs.mean - found.means.centre, np.sqrt(found.variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        in_errors = np.where(away == 0, 0.0, away / error)
    one_run = np.sqrt(found.between + max(found.within, float(np.median(runs.stated))))
    return Tested(
        parameter=column.parameter,
        unit=column.unit,
        nodes=present,
        values=runs.mean,
        p=robust.tail(in_errors, found.degrees),
        centre=found.means.centre,
        spread=Spreads(
            within=found.within**0.5,
            between=found.between**0.5,
            repeated=found.repeated,
            runs=int(runs.runs.sum()),
            reach=robust.limit(0.05, found.means.degrees) * float(one_run),
            smallest=lambda probability: components.smallest_change(found, runs, probability, POWER),
        ),
    )


# -- answers ----------------------------------------------------------------------------------------------------------


def _answers(column: Column, rows: NDArray[Any], nodes: int, question: str = "") -> Tested:
    texts: dict[str, int] = {}
    if not len(rows):
        return Tested(parameter=column.parameter, unit="", nodes=rows["node"], values=np.empty(0), p=np.empty(0))
    if question:
        texts = {"there": 0, "absent": 1}
        codes = (rows["kind"] == Kind.ABSENT).astype(np.int64)
    else:
        codes = _codes(column, rows, texts)
    found = categories.answers(rows["node"], codes, nodes)
    return Tested(
        parameter=column.parameter + question,
        unit=column.unit,
        nodes=found.present,
        values=found.answer.astype(np.float64),
        p=found.p,
        texts=list(texts),
        centre=float(found.usual),
    )


def _codes(column: Column, rows: NDArray[Any], texts: dict[str, int]) -> NDArray[np.int64]:
    """Answers and numbers as codes of one list of texts, which grows."""
    distinct, places = np.unique(rows[["kind", "value"]], return_inverse=True)
    said = [f"{value:.9g}" if kind == Kind.NUMBER else column.texts[int(value)] for kind, value in distinct]
    codes: NDArray[np.int64] = np.array([texts.setdefault(each, len(texts)) for each in said], np.int64)[places]
    return codes
