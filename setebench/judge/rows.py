"""Rows: what counts once on a machine, how it stands, and shares of rows with intervals over machines.

Answers of one machine hang together, so machines are what is drawn at random: intervals are clustered by machine.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from setebench.judge.proportion import clustered, proportion
from setebench.judge.verdict import Judgement, Verdict
from setebench.results import Outcome

NEAR = 0.8
"""A bound of at least this fraction of the truth says nearly as much as the value: it is within 20 % of it."""

STANDINGS = ("wrong", "open", "loose", "bounded", "right")
"""How an answer may stand, the worst first: a bound is `bounded` within 20 % of the truth, else `loose`."""

SHOWN = {"right": ("right",), "bounded": ("bounded",), "open": ("open", "loose"), "wrong": ("wrong",)}
"""The four shares of rows that a score tells; a loose bound leaves its question open."""

Table = dict[str, str]
"""How a machine's rows stand, by name."""

_LINE_SIZE = re.compile(r"cache\.l\d\.line_size")
_PAIRS = "latency.core_to_core"


def standing(judgement: Judgement) -> str:
    """One of `STANDINGS`."""
    if judgement.verdict is Verdict.UNRESOLVED:
        return "open"
    if judgement.verdict is Verdict.WRONG or judgement.outcome != Outcome.AT_LEAST.value:
        return judgement.verdict.value
    return "bounded" if judgement.value >= NEAR * judgement.truth else "loose"


def row_of(parameter: str) -> str:
    """The row that a parameter counts in: all pairs of cores are one, and a line's size on all levels."""
    if parameter.startswith(f"{_PAIRS}."):
        return _PAIRS
    return "cache.line_size" if _LINE_SIZE.fullmatch(parameter) else parameter


def tables(judgements: Iterable[Judgement], constants: Collection[str] = ()) -> dict[str, Table]:
    """By machine how its rows stand. Of parameters of which a constant would be right (`constants`) a right answer is
    no merit and counts nowhere, but a wrong one is a fault.

    A row of several answers is wrong if one of them is, else it stands as most of them do, the worse way of two."""
    found: dict[str, dict[str, list[str]]] = {}
    for judgement in judgements:
        own = found.setdefault(judgement.machine, {})
        if judgement.verdict is Verdict.WRONG or judgement.parameter not in constants:
            own.setdefault(row_of(judgement.parameter), []).append(standing(judgement))
    return {machine: {row: _together(each) for row, each in own.items()} for machine, own in found.items()}


def _together(standings: Sequence[str]) -> str:
    if "wrong" in standings:
        return "wrong"
    counts = Counter(standings)
    return max(counts, key=lambda each: (counts[each], -STANDINGS.index(each)))


def shares(machines: Mapping[str, Table]) -> dict[str, Any]:
    """`machines`, `without_wrong` (those without a wrong row), `rows`, and of these the four shares of `SHOWN`."""
    own = list(machines.values())
    rows = [len(table) for table in own]
    spotless = sum("wrong" not in table.values() for table in own)
    return {
        "machines": len(own),
        "without_wrong": msgspec.to_builtins(proportion(spotless, len(own))),
        "rows": sum(rows),
        **{
            name: msgspec.to_builtins(clustered([_number(table, which) for table in own], rows))
            for name, which in SHOWN.items()
        },
    }


def _number(table: Table, which: Collection[str]) -> int:
    return sum(each in which for each in table.values())
