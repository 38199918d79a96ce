"""One finding against the truth of a simulated machine: right, wrong, or left open, and what its interval was worth."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec

from setebench.results import Finding, Outcome

RATE_UNITS = frozenset({"cycles", "ticks", "cycles/tick", "ns", "microseconds", "GB/s", "ratio"})
"""Units of latencies, penalties and rates, which are right within a tolerance; everything else must be equal."""

RELATIVE_TOLERANCE = 0.05
CYCLES_TOLERANCE = 1.0


class Verdict(StrEnum):
    """How a finding compares with the truth."""

    RIGHT = "right"
    WRONG = "wrong"
    UNRESOLVED = "unresolved"


class Kind(StrEnum):
    """What sort of quantity a parameter is: of a continuous one the interval is judged, of the others the value."""

    CONTINUOUS = "continuous"
    COUNT = "count"
    CATEGORY = "category"


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of one machine: the verdict, what was reported and what is true.

    `covered` says whether the reported interval holds the truth; None where there is no interval to ask. `width` is the
    interval's width relative to the truth, of measured numbers. `ranged`: the truth is a range (a clock that drifts),
    which an interval meets more easily than a number."""

    machine: str
    parameter: str
    verdict: Verdict
    value: Any = None
    truth: Any = None
    outcome: str = ""
    covered: bool | None = None
    kind: Kind = Kind.CATEGORY
    width: float | None = None
    ranged: bool = False


def judge(
    machine: str,
    findings: Iterable[Finding],
    truths: Iterable[Finding],
    known: frozenset[str],
    left_open: frozenset[str] = frozenset(),
) -> list[Judgement]:
    """Judge every parameter of the truth, also those that no finding mentions (unresolved).

    A value reported for a parameter that this machine lacks is wrong too; `known` are the parameters that any machine
    has, so that what a scenario reports beside the contract (one of two methods, say) is not judged. Nor are parameters
    that are `left_open`: the machine has them, but their truth isn't known."""
    reported = {finding.parameter: finding for finding in findings}
    true = {finding.parameter: finding for finding in truths}
    judged = [_judge_one(machine, reported.get(parameter), truth) for parameter, truth in true.items()]
    lacking = known - true.keys() - left_open
    invented = [finding for finding in reported.values() if finding.parameter in lacking and _claims(finding)]
    return judged + [
        Judgement(machine=machine, parameter=f.parameter, verdict=Verdict.WRONG, value=f.value, outcome=f.outcome.value)
        for f in invented
    ]


def _claims(finding: Finding) -> bool:
    return finding.outcome in (Outcome.MEASURED, Outcome.AT_LEAST) and finding.value is not None


def _judge_one(machine: str, reported: Finding | None, truth: Finding) -> Judgement:
    if reported is None or reported.outcome in (Outcome.UNRESOLVED, Outcome.UNAVAILABLE):
        outcome = reported.outcome.value if reported else "not reported"
        return Judgement(
            machine=machine,
            parameter=truth.parameter,
            verdict=Verdict.UNRESOLVED,
            truth=truth.value,
            outcome=outcome,
            kind=kind_of(truth),
        )
    return Judgement(
        machine=machine,
        parameter=truth.parameter,
        verdict=Verdict.RIGHT if _right(reported, truth) else Verdict.WRONG,
        value=reported.value,
        truth=truth.value,
        outcome=reported.outcome.value,
        covered=_covered(reported, truth),
        kind=kind_of(truth),
        width=_width(reported, truth),
        ranged=_lowest(truth) < _highest(truth) if _is_number(truth.value) else False,
    )


def kind_of(truth: Finding) -> Kind:
    """What sort of quantity a true value is."""
    if not _is_number(truth.value):
        return Kind.CATEGORY
    return Kind.CONTINUOUS if truth.unit in RATE_UNITS else Kind.COUNT


def _width(reported: Finding, truth: Finding) -> float | None:
    """Of the interval of a measured number, relative to the truth; None where there is none."""
    if reported.outcome is not Outcome.MEASURED or reported.low is None or reported.high is None:
        return None
    if not _is_number(truth.value) or not truth.value:
        return None
    return (reported.high - reported.low) / abs(_number(truth.value))


def _right(reported: Finding, truth: Finding) -> bool:
    if reported.outcome is Outcome.ABSENT or truth.outcome is Outcome.ABSENT:
        return not reported.value and not truth.value
    if reported.outcome is Outcome.AT_LEAST:
        return _number(reported.value) <= _highest(truth)
    if truth.unit in RATE_UNITS and _is_number(reported.value):
        return _close(_number(reported.value), truth)
    if _is_number(truth.value) and _is_number(reported.value):
        return _lowest(truth) <= _number(reported.value) <= _highest(truth)
    return bool(reported.value == truth.value)


def _close(value: float, truth: Finding) -> bool:
    """Within 5 % of the truth, or of the range that the truth is given as; cycles also within one."""
    nearest = min(max(value, _lowest(truth)), _highest(truth))
    allowed = RELATIVE_TOLERANCE * abs(nearest)
    if truth.unit == "cycles":
        allowed = max(allowed, CYCLES_TOLERANCE)
    return abs(value - nearest) <= allowed


def _covered(reported: Finding, truth: Finding) -> bool | None:
    if reported.low is None or reported.high is None or not _is_number(truth.value):
        return None
    return reported.low <= _highest(truth) and _lowest(truth) <= reported.high


def _lowest(truth: Finding) -> float:
    return _number(truth.value) if truth.low is None else truth.low


def _highest(truth: Finding) -> float:
    return _number(truth.value) if truth.high is None else truth.high


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: object) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return float(value)
