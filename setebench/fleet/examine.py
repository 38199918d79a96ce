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
from scipy import special, stats

from setebench.fleet.columns import Column, Kind
from setebench.stats.nodes import categories, components, robust

Numbers = NDArray[np.float64]

CHANGED = " (changed)"
PRESENCE = " (there or absent)"
"""Behind a parameter's name: the question whether it is there, where numbers are reported of some nodes only."""

FEWEST_NODES = 3
"""Of fewer, none is odder than the other."""


class Tested(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter's test: for every node that is judged (`nodes`: their numbers) what it says (`shown` makes text of
    an entry of `values`), its distance in standard deviations of a normal distribution (signed; what `p` says), and the
    probability `p` of one so large."""

    parameter: str
    unit: str
    nodes: NDArray[np.int64]
    values: Numbers
    distance: Numbers
    p: Numbers
    texts: list[str] | None
    centre: float
    spread: Spreads | None = None

    @property
    def usual(self) -> str:
        """The centre as text."""
        return self.text(self.centre)

    def text(self, value: float) -> str:
        """A value as text: the answer it stands for, or the number to five digits."""
        return f"{value:.5g}" if self.texts is None else self.texts[int(value)]

    def relative(self, value: float) -> float | None:
        """By what fraction a number differs from the centre; None of answers, or where the centre is 0."""
        return None if self.texts is not None or self.centre == 0 else value / self.centre - 1


class Spreads(msgspec.Struct, frozen=True, kw_only=True):
    """Of a number: standard deviations within and between nodes, whether runs were repeated, how many runs, the 95 %
    prediction interval of one run of another healthy node, and the smallest change that would be found as a function of
    the probability at which is tested."""

    within: float
    between: float
    repeated: bool
    runs: int
    low: float
    high: float
    smallest: Callable[[float], float]


def tests_of(column: Column, nodes: int) -> list[Tested]:
    """The tests of one parameter: none where fewer than `FEWEST_NODES` answer, two where some nodes have numbers
    and others lack what they describe. `nodes` is how many nodes there are in all."""
    numbers, said = column.of(Kind.NUMBER), column.of(Kind.ANSWER, Kind.ABSENT)
    found = []
    if len(numbers) and (numbers["error"] > 0).any():
        if len(said):
            there = column.of(Kind.NUMBER, Kind.BOUND, Kind.ABSENT)
            found.append(_presence(column, there, nodes))
        found.append(_number(column, numbers, nodes))
    elif len(numbers) or len(said):
        found.append(_answer(column, column.of(Kind.NUMBER, Kind.ANSWER, Kind.ABSENT), nodes))
    return [each for each in found if len(each.nodes) >= FEWEST_NODES]


def changes_of(now: Column, before: Column, nodes: int) -> list[Tested]:
    """As `tests_of`, of what each node says now against what it said before; of nodes that are in both."""
    found = []
    before = msgspec.structs.replace(
        before, rows=before.rows[before.rows["node"] < nodes]
    )  # without those that are gone
    later, earlier = now.of(Kind.NUMBER), before.of(Kind.NUMBER)
    measured = any(len(each) and (each["error"] > 0).any() for each in (later, earlier))
    if measured and len(later) and len(earlier):
        found.append(_number_changes(now, later, earlier, nodes))
    elif not measured:
        found.append(_answer_changes(now, before, nodes))
    return [each for each in found if len(each.nodes) >= FEWEST_NODES]


# -- numbers ----------------------------------------------------------------------------------------------------------


def _summed(rows: NDArray[Any], nodes: int) -> tuple[NDArray[np.int64], components.Runs]:
    return components.sum_up(rows["node"], rows["value"], rows["error"].astype(np.float64), nodes)


def _number(column: Column, rows: NDArray[Any], nodes: int) -> Tested:
    present, runs = _summed(rows, nodes)
    found = components.components(runs)
    return _tested(column, present, (runs, found), found.means.centre)


def _number_changes(column: Column, later: NDArray[Any], earlier: NDArray[Any], nodes: int) -> Tested:
    """Held against no change at all, not against what most nodes do: an update that changes every node is news."""
    (here, now), (there, before) = _summed(later, nodes), _summed(earlier, nodes)
    both, at_now, at_before = np.intersect1d(here, there, assume_unique=True, return_indices=True)
    if not len(both):
        return _nothing(column, CHANGED)
    change, found = components.changes(_chosen(now, at_now), _chosen(before, at_before))
    return _tested(column, both, (change, found), 0.0, CHANGED)


def _chosen(runs: components.Runs, places: NDArray[np.int64]) -> components.Runs:
    return components.Runs(**{name: getattr(runs, name)[places] for name in runs.__struct_fields__})


def _tested(
    column: Column,
    present: NDArray[np.int64],
    summed: tuple[components.Runs, components.Components],
    centre: float,
    of: str = "",
) -> Tested:
    runs, found = summed
    away = runs.mean - centre
    error = np.sqrt(found.variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        in_errors = np.where(away == 0, 0.0, away / error)
    p = robust.tail(in_errors, found.degrees)
    one_run = np.sqrt(found.between + max(found.within, float(np.median(runs.stated))))
    reach = robust.limit(0.05, found.means.degrees) * one_run
    return Tested(
        parameter=column.parameter + of,
        unit=column.unit,
        nodes=present,
        values=runs.mean,
        distance=_normal(p, away),
        p=p,
        texts=None,
        centre=centre,
        spread=Spreads(
            within=found.within**0.5,
            between=found.between**0.5,
            repeated=found.repeated,
            runs=int(runs.runs.sum()),
            low=centre - reach,
            high=centre + reach,
            smallest=lambda probability: components.smallest_change(found, runs, probability, POWER),
        ),
    )


POWER = 0.95
"""Of the smallest change that is said to be found."""


def _normal(p: Numbers, sign: Numbers) -> Numbers:
    found: Numbers = np.abs(special.ndtri(np.maximum(p, np.finfo(float).tiny) / 2)) * np.sign(sign) + 0.0  # no -0
    return found


def _nothing(column: Column, of: str) -> Tested:
    none = np.empty(0)
    return Tested(
        parameter=column.parameter + of,
        unit=column.unit,
        nodes=np.empty(0, np.int64),
        values=none,
        distance=none,
        p=none,
        texts=None,
        centre=0.0,
    )


# -- answers ----------------------------------------------------------------------------------------------------------


def _presence(column: Column, rows: NDArray[Any], nodes: int) -> Tested:
    codes = (rows["kind"] == Kind.ABSENT).astype(np.int64)
    return _answered(column, categories.answers(rows["node"], codes, nodes), ["there", "absent"], PRESENCE)


def _answer(column: Column, rows: NDArray[Any], nodes: int) -> Tested:
    codes, texts = _codes(column, rows)
    return _answered(column, categories.answers(rows["node"], codes, nodes), texts)


def _answered(column: Column, found: categories.Answers, texts: list[str], of: str = "") -> Tested:
    return Tested(
        parameter=column.parameter + of,
        unit=column.unit,
        nodes=found.present,
        values=found.answer.astype(np.float64),
        distance=_normal(found.p, np.ones(len(found.p))),
        p=found.p,
        texts=texts,
        centre=float(found.usual),
    )


def _codes(column: Column, rows: NDArray[Any]) -> tuple[NDArray[np.int64], list[str]]:
    """Answers and numbers as codes of one list of texts."""
    number = rows["kind"] == Kind.NUMBER
    distinct, places = np.unique(rows["value"][number], return_inverse=True)
    codes = rows["value"].astype(np.int64)
    codes[number] = places + len(column.texts)
    return codes, [*column.texts, *(f"{value:.9g}" for value in distinct)]


def _answer_changes(now: Column, before: Column, nodes: int) -> Tested:
    """Another answer than before, where the runs of both times agree with themselves."""
    kinds = (Kind.NUMBER, Kind.ANSWER, Kind.ABSENT)
    rows = [column.of(*kinds) for column in (now, before)]
    if not all(map(len, rows)):
        return _nothing(now, CHANGED)
    texts: dict[str, int] = {}
    found = []
    for column, part in zip((now, before), rows, strict=True):
        codes, names = _codes(column, part)
        joint = np.array([texts.setdefault(name, len(texts)) for name in names])
        found.append(categories.answers(part["node"], joint[codes], nodes))
    both, at_now, at_before = np.intersect1d(
        found[0].present, found[1].present, assume_unique=True, return_indices=True
    )
    later, earlier = found[0].answer[at_now], found[1].answer[at_before]
    chance = _by_chance(found[0], at_now) + _by_chance(found[1], at_before)
    p = np.where(later == earlier, 1.0, np.minimum(chance, 1.0))
    pairs, places = np.unique(np.where(later == earlier, -1, earlier * len(texts) + later), return_inverse=True)
    names = list(texts)
    ways = [UNCHANGED if pair < 0 else f"{names[pair // len(names)]} → {names[pair % len(names)]}" for pair in pairs]
    if UNCHANGED not in ways:
        ways.append(UNCHANGED)
    return Tested(
        parameter=now.parameter + CHANGED,
        unit=now.unit,
        nodes=both,
        values=places.astype(np.float64),
        distance=_normal(p, np.ones(len(p))),
        p=p,
        texts=ways,
        centre=float(ways.index(UNCHANGED)),
    )


UNCHANGED = "unchanged"


def _by_chance(found: categories.Answers, places: NDArray[np.int64]) -> Numbers:
    """How probable it is that the runs of each node agree on a wrong answer."""
    agreeing, runs = found.agreeing[places], found.runs[places]
    return np.where(2 * agreeing > runs, stats.binom.sf(agreeing - 1, runs, found.stray), 1.0)
