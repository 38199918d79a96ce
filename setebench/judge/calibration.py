"""Whether answers are as sure as they say: intervals that hold the truth as often as promised, and right values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from setebench.judge.proportion import Proportion, clustered
from setebench.judge.verdict import Judgement, Kind, Verdict
from setebench.results import Outcome


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """Of measured values, with errors clustered by machine. `continuous`: 95 % intervals of latencies, penalties and
    rates that hold the truth, where that is a number; `counts` and `categories`: values that are wrong (also such for
    something that the machine lacks)."""

    continuous: Proportion
    counts: Proportion
    categories: Proportion


def calibration(judgements: Iterable[Judgement]) -> Calibration:
    """The calibration of all measured values among the judgements."""
    measured = [each for each in judgements if each.outcome == Outcome.MEASURED.value]
    exact = [each for each in measured if each.kind is Kind.CONTINUOUS and each.covered is not None and not each.ranged]
    return Calibration(
        continuous=_clustered(exact, [bool(each.covered) for each in exact]),
        counts=_wrong([each for each in measured if each.kind is Kind.COUNT]),
        categories=_wrong([each for each in measured if each.kind is Kind.CATEGORY]),
    )


def _wrong(judgements: Sequence[Judgement]) -> Proportion:
    return _clustered(judgements, [each.verdict is Verdict.WRONG for each in judgements])


def _clustered(judgements: Sequence[Judgement], hits: Sequence[bool]) -> Proportion:
    own: dict[str, list[bool]] = {}
    for judgement, hit in zip(judgements, hits, strict=True):
        own.setdefault(judgement.machine, []).append(hit)
    return clustered([sum(each) for each in own.values()], [len(each) for each in own.values()])
