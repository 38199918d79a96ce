"""The same question put again and again: how often it is answered, and how often two answers contradict each other.

On silicon no truth can be looked up, but intervals can be held to their word: two honest 95 % intervals of one
quantity, from runs that know nothing of each other, are apart in about one of 180 pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import NormalDist, median, stdev
from typing import Any

import msgspec

from setebench.compare import Agreement, agreement
from setebench.results import Document, Finding, Outcome

_Z = NormalDist().inv_cdf(0.975)

APART = 2 * (1 - NormalDist().cdf(math.sqrt(2) * _Z))
"""How often two 95 % intervals of one quantity are apart, where both errors are normal and of one size: their middles
are then more than 2 · 1.96 standard errors apart, which is 1.96 · sqrt(2) of those of a difference (Schenker and
Gentleman 2001). 0.56 %."""

FEWEST_FOR_SPREAD = 4
"""Runs of which the standard deviation is worth reporting: of fewer it is off by more than half of itself."""


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter over all runs. `answered` counts the runs that gave a value, an absence or a bound (`bounds`: these
    alone) among the `runs`. `pairs` are all pairs of answers, `interval_pairs` those of measured numbers that have
    intervals; `contradictions` and `interval_contradictions` say how many of them exclude each other. `spread` is the
    standard deviation of the values in units of the error that their intervals promise: 1 where they are honest, more
    where they are too narrow; None of fewer than four. `values` has one entry a run, None where it didn't answer."""

    runs: int
    answered: int
    bounds: int
    pairs: int
    contradictions: int
    interval_pairs: int
    interval_contradictions: int
    spread: float | None
    unit: str
    values: list[Any]


def parameters(documents: Sequence[Document]) -> dict[str, Parameter]:
    """Every parameter that any of the runs mentions, in the order in which they come."""
    tables = [{finding.parameter: finding for finding in document.findings} for document in documents]
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: _parameter([table.get(name) for table in tables]) for name in names}


def _parameter(findings: list[Finding | None]) -> Parameter:
    answers = [each for each in findings if each is not None and each.value is not None]
    pairs = list(combinations(answers, 2))
    intervals = [pair for pair in pairs if all(map(_has_interval, pair))]
    return Parameter(
        runs=len(findings),
        answered=len(answers),
        bounds=sum(each.outcome is Outcome.AT_LEAST for each in answers),
        pairs=len(pairs),
        contradictions=_contradictions(pairs),
        interval_pairs=len(intervals),
        interval_contradictions=_contradictions(intervals),
        spread=_spread([each for each in answers if _has_interval(each)]),
        unit=next((each.unit for each in answers), ""),
        values=[None if each is None else each.value for each in findings],
    )


def _contradictions(pairs: Sequence[tuple[Finding, Finding]]) -> int:
    return sum(agreement(*pair) is Agreement.DIFFERS for pair in pairs)


def _has_interval(finding: Finding) -> bool:
    """Whether it is a measured number that says more of its error than that there is none."""
    if finding.outcome is not Outcome.MEASURED or finding.low is None or finding.high is None:
        return False
    return isinstance(finding.value, (int, float)) and finding.high > finding.low


def _spread(findings: list[Finding]) -> float | None:
    if len(findings) < FEWEST_FOR_SPREAD:
        return None
    promised = median((each.high - each.low) / (2 * _Z) for each in findings)  # type: ignore[operator]
    return stdev(float(each.value) for each in findings) / promised  # type: ignore[arg-type]


def totals(found: dict[str, Parameter]) -> dict[str, Any]:
    """All parameters together, beside the contradictions that honest intervals would show."""
    sums = {
        name: sum(getattr(each, name) for each in found.values())
        for name in (
            "runs",
            "answered",
            "bounds",
            "pairs",
            "contradictions",
            "interval_pairs",
            "interval_contradictions",
        )
    }
    asked = sums.pop("runs")
    return {
        "asked": asked,
        **sums,
        "answered_fraction": sums["answered"] / asked if asked else None,
        "expected_interval_contradictions": APART * sums["interval_pairs"],
    }
