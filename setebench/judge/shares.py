"""How often something happened, with the error that so few trials or machines leave; and rows: what counts once on a
machine, and how it stands.

Answers of one machine hang together, so machines are what is drawn at random: intervals are clustered by machine.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import Any

import msgspec
import numpy as np
from scipy.special import stdtrit

from setebench.judge.verdict import Judgement, Verdict
from setebench.results import Outcome

CONFIDENCE = 0.95  # of the interval of a fraction
NEAR = 0.8  # a bound of at least this fraction of the truth says nearly as much as the value
STANDINGS = ("wrong", "open", "loose", "bounded", "right")
"""How an answer may stand, the worst first: a bound is `bounded` within 20 % of the truth, else `loose`."""

SHOWN = {"right": ("right",), "bounded": ("bounded",), "open": ("open", "loose"), "wrong": ("wrong",)}
"""The four shares of rows that a score tells; a loose bound leaves its question open."""

Table = dict[str, str]
"""How a machine's rows stand, by name."""

_LINE_SIZE = re.compile(r"cache\.l\d\.line_size")
_PAIRS = "latency.core_to_core"


class Proportion(msgspec.Struct, frozen=True, kw_only=True):
    """`hits` of `trials`, their fraction, and its interval at `CONFIDENCE`; None where nothing can be said."""

    hits: int
    trials: int
    fraction: float | None = None
    low: float | None = None
    high: float | None = None


def proportion(hits: int, trials: int) -> Proportion:
    """The fraction with Wilson's score interval (1927), which holds near 0 and 1 too (Brown, Cai and DasGupta 2001).
    Trials count as independent."""
    if trials == 0:
        return Proportion(hits=hits, trials=trials)
    low, high = _wilson(hits / trials, trials, NormalDist().inv_cdf(0.5 + CONFIDENCE / 2))
    return Proportion(hits=hits, trials=trials, fraction=hits / trials, low=low, high=high)


def clustered(hits: Sequence[int], trials: Sequence[int]) -> Proportion:
    """The fraction of all trials, whose trials come in clusters that hang together: one number of each a cluster.

    Wilson's interval with as many independent trials as would leave the error that the clusters show (Korn and Graubard
    1998; with Student's quantile for few clusters). Where all of them are alike, each counts as a single trial. One
    cluster alone has no interval."""
    total, whole, clusters = sum(trials), sum(hits), len(trials)
    if total == 0:
        return Proportion(hits=whole, trials=total)
    fraction = whole / total
    if clusters < 2:
        return Proportion(hits=whole, trials=total, fraction=fraction)
    variance = ratio_variance(hits, trials)
    independent = min(fraction * (1 - fraction) / variance, total) if variance > 0 else clusters
    low, high = _wilson(fraction, independent, student(clusters - 1))
    return Proportion(hits=whole, trials=total, fraction=fraction, low=low, high=high)


def ratio_variance(numbers: Sequence[int], trials: Sequence[int]) -> float:
    """Of the ratio of both sums, over clusters that are independent of each other; of two or more."""
    off = np.asarray(numbers) - sum(numbers) / sum(trials) * np.asarray(trials)
    return float(len(trials) / (len(trials) - 1) * np.sum(off**2) / sum(trials) ** 2)


def student(freedom: int) -> float:
    """How many standard errors an interval at `CONFIDENCE` reaches to either side."""
    return float(stdtrit(freedom, 0.5 + CONFIDENCE / 2))


def _wilson(fraction: float, trials: float, z: float) -> tuple[float, float]:
    middle = fraction + z * z / (2 * trials)
    half = z * math.sqrt(fraction * (1 - fraction) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
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
    made: dict[str, Any] = {
        "machines": len(own),
        "without_wrong": proportion(sum("wrong" not in table.values() for table in own), len(own)),
        "rows": sum(rows),
    }
    for name, which in SHOWN.items():
        made[name] = clustered([sum(each in which for each in table.values()) for table in own], rows)
    plain: dict[str, Any] = msgspec.to_builtins(made)
    return plain
