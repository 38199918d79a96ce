"""Rows, what counts once on a machine, and the shares of them that are right, bounded, open and wrong, with the error
that so few machines leave; and what one version of the inference has more of than another.

Answers of one machine hang together, so machines are what is drawn at random: intervals are clustered by machine.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import stdtrit

from setebench.judge.verdict import Judgement, Verdict
from setebench.results import Outcome

UPPER = 0.975  # end of the interval of a fraction at 95 %
NEAR = 0.8  # a bound of at least this fraction of the truth says nearly as much as the value
STANDINGS = ("wrong", "open", "loose", "bounded", "right")
"""How an answer may stand, the worst first: a bound is `bounded` within 20 % of the truth, else `loose`."""

SHOWN = {"right": ("right",), "bounded": ("bounded",), "open": ("open", "loose"), "wrong": ("wrong",)}
"""The four shares of rows that a score reports; a loose bound leaves its question open."""

Table = dict[str, str]
"""How a machine's rows stand, by name."""

_LINE_SIZE = re.compile(r"cache\.l\d\.line_size")
_PAIRS = "latency.core_to_core"


def clustered(hits: Sequence[int], trials: Sequence[int]) -> dict[str, Any]:
    """`hits` of all `trials`, their `fraction`, and its 95 % interval (`low`, `high`; None where nothing can be said).
    Trials come in clusters that hang together: one number of each a cluster.

    Wilson's interval (1927) with as many independent trials as would leave the error that the clusters show (Korn and
    Graubard 1998; with Student's quantile for few clusters). Where all of them are alike, each counts as a single
    trial. One cluster alone has no interval."""
    total, whole, clusters = sum(trials), sum(hits), len(trials)
    fraction = whole / total if total else None
    low = high = None
    if fraction is not None and clusters > 1:
        low, high = _wilson(fraction, _independent(hits, trials), float(stdtrit(clusters - 1, UPPER)))
    return {"hits": whole, "trials": total, "fraction": fraction, "low": low, "high": high}


def _independent(hits: Sequence[int], trials: Sequence[int]) -> float:
    """Independent trials that would leave the error which the clusters show."""
    fraction, variance = sum(hits) / sum(trials), _ratio_variance(hits, trials) if len(trials) > 1 else 0.0
    return min(fraction * (1 - fraction) / variance, sum(trials)) if variance > 0 else len(trials)


def _ratio_variance(numbers: Sequence[int], trials: Sequence[int]) -> float:
    """Of the ratio of both sums, over clusters that are independent of each other; of two or more."""
    off = np.asarray(numbers) - sum(numbers) / sum(trials) * np.asarray(trials)
    return float(len(trials) / (len(trials) - 1) * np.sum(off**2) / sum(trials) ** 2)


def _wilson(fraction: float, independent: float, z: float) -> tuple[float, float]:
    middle = fraction + z * z / (2 * independent)
    half = z * math.sqrt(fraction * (1 - fraction) / independent + z * z / (4 * independent * independent))
    scale = 1 + z * z / independent
    # at the ends the formula gives 0 and 1 but for rounding
    return 0.0 if fraction == 0 else (middle - half) / scale, 1.0 if fraction == 1 else (middle + half) / scale


# -- rows -------------------------------------------------------------------------------------------------------------


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
    found: dict[str, dict[str, Counter[str]]] = {}
    for judgement in judgements:
        own = found.setdefault(judgement.machine, {})
        if judgement.verdict is Verdict.WRONG or judgement.parameter not in constants:
            own.setdefault(row_of(judgement.parameter), Counter())[standing(judgement)] += 1
    return {machine: {row: _together(each) for row, each in own.items()} for machine, own in found.items()}


def _together(counts: Counter[str]) -> str:
    return "wrong" if counts["wrong"] else max(counts, key=lambda each: (counts[each], -STANDINGS.index(each)))


def shares(machines: Mapping[str, Table]) -> dict[str, Any]:
    """`machines`, `without_wrong` (those without a wrong row), `rows`, and of these the four shares of `SHOWN`."""
    own = list(machines.values())
    rows = [len(table) for table in own]
    return {
        "machines": len(own),
        "without_wrong": clustered(["wrong" not in table.values() for table in own], [1] * len(own)),
        "rows": sum(rows),
        **{name: clustered([_number(table, which) for table in own], rows) for name, which in SHOWN.items()},
    }


def _number(table: Table, which: Collection[str]) -> int:
    return sum(each in which for each in table.values())


# -- two versions on the same machines --------------------------------------------------------------------------------


def difference(old: Sequence[Judgement], new: Sequence[Judgement], constants: Collection[str] = ()) -> dict[str, Any]:
    """What the new version has more of than the old one, of all rows in points (fractions), and rows that changed, on
    machines that both were run on. A row that one version alone has on a machine (it claims what isn't there) is
    neither right nor wrong of the other."""
    before, after = tables(old, constants), tables(new, constants)
    pairs = [(before[name], after[name]) for name in before if name in after]
    rows = [len(one.keys() | other.keys()) for one, other in pairs]
    changed: dict[str, Counter[str]] = {}
    for one, other in pairs:
        for row in one.keys() | other.keys():
            was, became = one.get(row, "not judged"), other.get(row, "not judged")
            if was != became:
                changed.setdefault(row, Counter())[f"{was} -> {became}"] += 1
    return {
        "machines": len(pairs),
        "rows": sum(rows),
        "points": {
            name: _shift([_number(other, which) - _number(one, which) for one, other in pairs], rows)
            for name, which in SHOWN.items()
        },
        "parameters": {row: dict(changed[row]) for row in sorted(changed)},
    }


def _shift(gains: Sequence[int], rows: Sequence[int]) -> dict[str, float | None]:
    """New minus old, with Student's interval of the ratio over machines (paired); without spread there is none."""
    if not sum(rows):
        return {"difference": None, "low": None, "high": None}
    mean = sum(gains) / sum(rows)
    variance = _ratio_variance(gains, rows) if len(rows) > 1 else 0.0
    half = float(stdtrit(len(rows) - 1, UPPER)) * variance**0.5 if variance else None
    low, high = (None, None) if half is None else (mean - half, mean + half)
    return {"difference": mean, "low": low, "high": high}
