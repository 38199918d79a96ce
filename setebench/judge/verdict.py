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
"""Of what a run reports as a whole: where the truth is a range, it was all of that. Any other range holds what is true
of some time, or isn't known better, and an answer may lie anywhere in it."""

WIDEST = 1.35
"""A rate whose range ends at more than so many times its begin is no truth to hold an answer against. (The changes of a
core's clock make up to 1.17 of one that is known.)"""

LEAST_COVERED, MOST_WIDTH = 0.8, 1.5
"""An answer to what varied covers at least so much of the range, and is at most so many times as wide."""


class Verdict(StrEnum):
    """How a finding compares with the truth."""

    RIGHT = "right"
    WRONG = "wrong"
    UNRESOLVED = "unresolved"


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of one machine: the verdict, what was reported and what is true.

    `covered` says whether the reported interval holds the truth; None where there is none. `width` is the interval's
    width relative to the truth, of a measured latency, penalty or rate. `continuous`: it is one of these, and its truth
    no range (of a clock that drifts), which an interval meets more easily than a number."""

    machine: str
    parameter: str
    verdict: Verdict
    value: Any = None
    truth: Any = None
    outcome: str = ""
    covered: bool | None = None
    width: float | None = None
    continuous: bool = False


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
    true = {truth.parameter: truth for truth in truths}
    left_open |= {name for name, truth in true.items() if truth.unit == "GB/s" and _high(truth) > WIDEST * _low(truth)}
    judged = [_judged(machine, reported.get(name), truth) for name, truth in true.items() if name not in left_open]
    lacking = known - true.keys() - left_open
    for name, found in reported.items():
        if name in lacking and found.value is not None and found.outcome in (Outcome.MEASURED, Outcome.AT_LEAST):
            value, outcome, wrong = found.value, found.outcome.value, Verdict.WRONG
            judged.append(Judgement(machine=machine, parameter=name, verdict=wrong, value=value, outcome=outcome))
    return judged


def _judged(machine: str, reported: Finding | None, truth: Finding) -> Judgement:
    number, rate = truth.number, truth.unit in RATE_UNITS
    common: dict[str, Any] = {"machine": machine, "parameter": truth.parameter, "truth": truth.value}
    if reported is None or reported.outcome in (Outcome.UNRESOLVED, Outcome.UNAVAILABLE):
        outcome = reported.outcome.value if reported else "not reported"
        return Judgement(verdict=Verdict.UNRESOLVED, outcome=outcome, **common)
    covered = width = None
    if number is not None and reported.low is not None and reported.high is not None:
        covered = reported.low <= _high(truth) and _low(truth) <= reported.high
        if reported.outcome is Outcome.MEASURED and rate and number:
            width = (reported.high - reported.low) / abs(number)
    return Judgement(
        verdict=Verdict.RIGHT if _right(reported, truth) else Verdict.WRONG,
        value=reported.value,
        outcome=reported.outcome.value,
        covered=covered,
        width=width,
        continuous=number is not None and rate and _low(truth) == _high(truth),
        **common,
    )


def _right(reported: Finding, truth: Finding) -> bool:
    value = reported.number
    if reported.outcome is Outcome.ABSENT or truth.outcome is Outcome.ABSENT:
        return not reported.value and not truth.value
    if reported.outcome is Outcome.AT_LEAST:
        return value is not None and value <= _high(truth)
    if truth.outcome is Outcome.AT_LEAST:  # something else hides it, so nobody can have measured it
        return False
    if truth.number is None or value is None:
        return bool(reported.value == truth.value)
    low, high = _low(truth), _high(truth)
    if truth.unit not in RATE_UNITS:
        return low <= value <= high
    if truth.unit == VARYING_UNIT and low < high:
        close = value - low <= _allowed(low, truth) and high - value <= _allowed(high, truth)
        return close or _about(reported, low, high)
    nearest = min(max(value, low), high)
    return abs(value - nearest) <= _allowed(nearest, truth)


def _about(reported: Finding, low: float, high: float) -> bool:
    """Whether the interval is about the range of what varied."""
    if reported.low is None or reported.high is None:
        return False
    common = min(reported.high, high) - max(reported.low, low)
    return common >= LEAST_COVERED * (high - low) and reported.high - reported.low <= MOST_WIDTH * (high - low)


def _allowed(nearest: float, truth: Finding) -> float:
    if truth.unit == "cycles" and truth.parameter.startswith(CORE_CLOCKED):
        return max(CORE_TOLERANCE * abs(nearest), CORE_CYCLES)
    return RELATIVE_TOLERANCE * abs(nearest)


def _low(truth: Finding) -> float:
    return float(truth.value if truth.low is None else truth.low)  # type: ignore[arg-type]


def _high(truth: Finding) -> float:
    return float(truth.value if truth.high is None else truth.high)  # type: ignore[arg-type]
