"""Per parameter and in all: how often it was right, wrong or left open, and how much the answers said."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

import msgspec

from setebench.judge.verdict import Judgement, Kind, Verdict
from setebench.results import Outcome

NEAR = 0.8
"""A bound of at least this fraction of the truth says nearly as much as the value: it is within 20 % of it."""


class Count(msgspec.Struct, kw_only=True):
    """How often a parameter was right, wrong, or not reported at all; `at_least`: how many of the right ones are bounds
    only, `near_bounds`: how many of these are within 20 % of the truth; `interval_coverage`: which fraction of its
    intervals hold the truth, and `median_width`: how wide those of measured values are relative to it; both None where
    there was none."""

    right: int = 0
    at_least: int = 0
    wrong: int = 0
    unresolved: int = 0
    interval_coverage: float | None = None
    near_bounds: int = 0
    median_width: float | None = None
    kind: str = Kind.CATEGORY.value


COUNTED = ("right", "at_least", "wrong", "unresolved", "near_bounds")
"""Fields of a count that add up."""


def count(judgements: list[Judgement]) -> Count:
    """The count of the judgements of one parameter."""
    verdicts = [judgement.verdict for judgement in judgements]
    bounds = [judgement for judgement in judgements if _is_bound(judgement)]
    kinds = [judgement.kind for judgement in judgements if judgement.truth is not None]
    return Count(
        right=verdicts.count(Verdict.RIGHT),
        at_least=len(bounds),
        wrong=verdicts.count(Verdict.WRONG),
        unresolved=verdicts.count(Verdict.UNRESOLVED),
        interval_coverage=coverage(judgements),
        near_bounds=sum(map(_is_near, bounds)),
        median_width=median_width(judgements),
        kind=(kinds[0] if kinds else Kind.CATEGORY).value,
    )


def coverage(judgements: Iterable[Judgement]) -> float | None:
    """The fraction of reported intervals that hold the truth."""
    asked = [judgement.covered for judgement in judgements if judgement.covered is not None]
    return sum(asked) / len(asked) if asked else None


def median_width(judgements: Iterable[Judgement]) -> float | None:
    """Of the intervals of measured continuous values, relative to the truth."""
    widths = [each.width for each in judgements if each.width is not None and each.kind is Kind.CONTINUOUS]
    return median(widths) if widths else None


def _is_bound(judgement: Judgement) -> bool:
    return judgement.verdict is Verdict.RIGHT and judgement.outcome == Outcome.AT_LEAST.value


def _is_near(bound: Judgement) -> bool:
    return bool(bound.value >= NEAR * bound.truth)
