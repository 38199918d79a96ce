"""Of a parameter: how often it was right, wrong or left open, and how much the answers said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from setebench.judge.rows import standing
from setebench.judge.verdict import Judgement, Kind, Verdict


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


def count(judgements: Sequence[Judgement]) -> Count:
    """The count of the judgements of one parameter."""
    standings = [standing(judgement) for judgement in judgements]
    near = standings.count("bounded")
    kinds = [judgement.kind for judgement in judgements if judgement.truth is not None]
    return Count(
        right=sum(judgement.verdict is Verdict.RIGHT for judgement in judgements),
        at_least=near + standings.count("loose"),
        wrong=standings.count("wrong"),
        unresolved=standings.count("open"),
        interval_coverage=coverage(judgements),
        near_bounds=near,
        median_width=_median_width(judgements),
        kind=(kinds[0] if kinds else Kind.CATEGORY).value,
    )


def coverage(judgements: Iterable[Judgement]) -> float | None:
    """The fraction of reported intervals that hold the truth."""
    asked = [judgement.covered for judgement in judgements if judgement.covered is not None]
    return sum(asked) / len(asked) if asked else None


def _median_width(judgements: Iterable[Judgement]) -> float | None:
    """Of the intervals of measured continuous values, relative to the truth."""
    widths = [each.width for each in judgements if each.width is not None and each.kind is Kind.CONTINUOUS]
    return median(widths) if widths else None
