"""One finding against the truth of a simulated machine: right, wrong, or left open, and what its interval was worth."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec

from setebench.results import Finding, Outcome

RATE_UNITS = frozenset({"cycles", "ticks", "cycles/tick", "ns", "microseconds", "GB/s", "bytes/cycle", "ratio"})
"""Units of latencies, penalties and rates, which are right within a tolerance; everything else must be equal."""

RELATIVE_TOLERANCE = 0.05
CORE_CLOCKED = ("latency.l1", "latency.l2", "latency.smt.l1", "tlb.")
"""Beginnings of parameters whose cycles the core clocks: of what is private to it."""

CORE_TOLERANCE, CORE_CYCLES = 0.03, 0.3
"""Of these, relative and in cycles, whichever is more."""

VARYING_UNIT = "cycles/tick"
"""Of what a run asks for as a whole: where the truth is a range, it was all of that. Any other range holds what is true
of some moment, or isn't known better, and an answer may lie anywhere in it."""

WIDEST = 1.35
"""A rate whose range ends at more than so many times its begin is no truth to hold an answer against. (The changes of a
core's clock make up to 1.17 of one that is known.)"""

LEAST_COVERED, MOST_WIDTH = 0.8, 1.5
"""An answer to that covers at least so much of the range, and is at most so many times as wide."""


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
    that are `left_open`: the machine has them, but their truth isn't known, or not well enough (`WIDEST`)."""
    reported = {finding.parameter: finding for finding in findings}
    true = {finding.parameter: finding for finding in truths}
    left_open |= {name for name, truth in true.items() if _vague(truth)}
    true = {name: truth for name, truth in true.items() if name not in left_open}
    judged = [_judge_one(machine, reported.get(parameter), truth) for parameter, truth in true.items()]
    lacking = known - true.keys() - left_open
    invented = [finding for finding in reported.values() if finding.parameter in lacking and _claims(finding)]
    return judged + [
        Judgement(machine=machine, parameter=f.parameter, verdict=Verdict.WRONG, value=f.value, outcome=f.outcome.value)
        for f in invented
    ]


def _vague(truth: Finding) -> bool:
    return truth.unit == "GB/s" and _highest(truth) > WIDEST * _lowest(truth)


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
    if truth.outcome is Outcome.AT_LEAST:  # something else hides it, so nobody can have measured it
        return False
    if truth.unit in RATE_UNITS and _is_number(reported.value):
        ranged = truth.unit == VARYING_UNIT and _lowest(truth) < _highest(truth)
        return _close_throughout(reported, truth) if ranged else _close(_number(reported.value), truth)
    if _is_number(truth.value) and _is_number(reported.value):
        return _lowest(truth) <= _number(reported.value) <= _highest(truth)
    return bool(reported.value == truth.value)


def _close(value: float, truth: Finding) -> bool:
    """Within the tolerance of the truth, or of a range that isn't known better."""
    nearest = min(max(value, _lowest(truth)), _highest(truth))
    return abs(value - nearest) <= _allowed(nearest, truth)


def _allowed(nearest: float, truth: Finding) -> float:
    if truth.unit == "cycles" and truth.parameter.startswith(CORE_CLOCKED):
        return max(CORE_TOLERANCE * abs(nearest), CORE_CYCLES)
    return RELATIVE_TOLERANCE * abs(nearest)


def _close_throughout(reported: Finding, truth: Finding) -> bool:
    """The value is close to the truth at any time of the run, or the interval is about the truth's range."""
    value, low, high = _number(reported.value), _lowest(truth), _highest(truth)
    if max(value - low, 0.0) <= _allowed(low, truth) and max(high - value, 0.0) <= _allowed(high, truth):
        return True
    if reported.low is None or reported.high is None:
        return False
    common = min(reported.high, high) - max(reported.low, low)
    return common >= LEAST_COVERED * (high - low) and reported.high - reported.low <= MOST_WIDTH * (high - low)


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
