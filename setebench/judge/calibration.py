"""Whether answers are as sure as they say: intervals that hold the truth as often as promised, and right values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from setebench.judge.proportion import Proportion, proportion
from setebench.judge.verdict import Judgement, Kind, Verdict
from setebench.results import Outcome

WIDE = 0.2
"""An interval wider than this, relative to the truth, is judged apart: a wide one holds the truth at little cost, and
many of them would hide that narrow ones don't."""


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """Of measured values. `continuous`: 95 % intervals of latencies, penalties and rates that hold the truth; `narrow`
    and `wide`: those of them up to 20 % of the truth, and wider; `ranges`: intervals that met a truth which is a range,
    not among the others. `without_interval`: continuous values that say nothing of their error. `counts` and
    `categories`: values that are wrong (also such for something that the machine lacks)."""

    continuous: Proportion
    narrow: Proportion
    wide: Proportion
    ranges: Proportion
    without_interval: int
    counts: Proportion
    categories: Proportion


def calibration(judgements: Iterable[Judgement]) -> Calibration:
    """The calibration of all measured values among the judgements."""
    measured = [each for each in judgements if each.outcome == Outcome.MEASURED.value]
    continuous = [each for each in measured if each.kind is Kind.CONTINUOUS]
    asked = [each for each in continuous if each.covered is not None]
    exact = [each for each in asked if not each.ranged]
    return Calibration(
        continuous=_holding(exact),
        narrow=_holding([each for each in exact if not _is_wide(each)]),
        wide=_holding([each for each in exact if _is_wide(each)]),
        ranges=_holding([each for each in asked if each.ranged]),
        without_interval=len(continuous) - len(asked),
        counts=_wrong([each for each in measured if each.kind is Kind.COUNT]),
        categories=_wrong([each for each in measured if each.kind is Kind.CATEGORY]),
    )


def _is_wide(judgement: Judgement) -> bool:
    return judgement.width is None or judgement.width > WIDE


def _holding(judgements: Sequence[Judgement]) -> Proportion:
    return proportion(sum(bool(each.covered) for each in judgements), len(judgements))


def _wrong(judgements: Sequence[Judgement]) -> Proportion:
    return proportion(sum(each.verdict is Verdict.WRONG for each in judgements), len(judgements))
