"""Compares findings with the truth of a simulated machine. Knows neither machines nor scenarios."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec

from setebench.results import Finding, Outcome

RATE_UNITS = frozenset({"cycles", "ticks", "cycles/tick", "ns", "microseconds", "GB/s"})
"""Units of latencies, penalties and rates, which are right within a tolerance; everything else must be equal."""

RELATIVE_TOLERANCE = 0.05
CYCLES_TOLERANCE = 1.0


class Verdict(StrEnum):
    """How a finding compares with the truth."""

    RIGHT = "right"
    WRONG = "wrong"
    UNRESOLVED = "unresolved"


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of one machine: the verdict, what was told and what is true.

    `covered` says whether the told interval holds the truth; None where there is no interval to ask."""

    machine: str
    parameter: str
    verdict: Verdict
    value: Any = None
    truth: Any = None
    outcome: str = ""
    covered: bool | None = None


def judge(
    machine: str,
    findings: Iterable[Finding],
    truths: Iterable[Finding],
    known: frozenset[str],
    left_open: frozenset[str] = frozenset(),
) -> list[Judgement]:
    """Judge every parameter of the truth, also those that no finding mentions (unresolved).

    A value told for a parameter that this machine lacks is wrong too; `known` are the parameters that any machine has,
    so that what a scenario tells beside the contract (one of two methods, say) is not judged. Nor are parameters that
    are `left_open`: the machine has them, but their truth isn't known."""
    told = {finding.parameter: finding for finding in findings}
    true = {finding.parameter: finding for finding in truths}
    judged = [_judge_one(machine, told.get(parameter), truth) for parameter, truth in true.items()]
    lacking = known - true.keys() - left_open
    invented = [finding for finding in told.values() if finding.parameter in lacking and _claims(finding)]
    return judged + [
        Judgement(machine=machine, parameter=f.parameter, verdict=Verdict.WRONG, value=f.value, outcome=f.outcome.value)
        for f in invented
    ]


def _claims(finding: Finding) -> bool:
    return finding.outcome in (Outcome.MEASURED, Outcome.AT_LEAST) and finding.value is not None


def _judge_one(machine: str, told: Finding | None, truth: Finding) -> Judgement:
    if told is None or told.outcome in (Outcome.UNRESOLVED, Outcome.UNAVAILABLE):
        outcome = told.outcome.value if told else "not told"
        return Judgement(
            machine=machine,
            parameter=truth.parameter,
            verdict=Verdict.UNRESOLVED,
            truth=truth.value,
            outcome=outcome,
        )
    return Judgement(
        machine=machine,
        parameter=truth.parameter,
        verdict=Verdict.RIGHT if _right(told, truth) else Verdict.WRONG,
        value=told.value,
        truth=truth.value,
        outcome=told.outcome.value,
        covered=_covered(told, truth),
    )


def _right(told: Finding, truth: Finding) -> bool:
    if told.outcome is Outcome.ABSENT or truth.outcome is Outcome.ABSENT:
        return not told.value and not truth.value
    if told.outcome is Outcome.AT_LEAST:
        return _number(told.value) <= _highest(truth)
    if truth.unit in RATE_UNITS and _is_number(told.value):
        return _close(_number(told.value), truth)
    if _is_number(truth.value) and _is_number(told.value):
        return _lowest(truth) <= _number(told.value) <= _highest(truth)
    return bool(told.value == truth.value)


def _close(value: float, truth: Finding) -> bool:
    """Within 5 % of the truth, or of the range that the truth is given as; cycles also within one."""
    nearest = min(max(value, _lowest(truth)), _highest(truth))
    allowed = RELATIVE_TOLERANCE * abs(nearest)
    if truth.unit == "cycles":
        allowed = max(allowed, CYCLES_TOLERANCE)
    return abs(value - nearest) <= allowed


def _covered(told: Finding, truth: Finding) -> bool | None:
    if told.low is None or told.high is None or not _is_number(truth.value):
        return None
    return told.low <= _highest(truth) and _lowest(truth) <= told.high


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


class Count(msgspec.Struct, kw_only=True):
    """How often a parameter was told right, wrong, or not at all; `at_least`: how many of the right ones are bounds
    only; `interval_coverage`: which share of its intervals hold the truth, None where none was told."""

    right: int = 0
    at_least: int = 0
    wrong: int = 0
    unresolved: int = 0
    interval_coverage: float | None = None


def _coverage(judgements: Iterable[Judgement]) -> float | None:
    asked = [judgement.covered for judgement in judgements if judgement.covered is not None]
    return sum(asked) / len(asked) if asked else None


def _count(judgements: list[Judgement]) -> Count:
    verdicts = [judgement.verdict for judgement in judgements]
    bounds = [j for j in judgements if j.verdict is Verdict.RIGHT and j.outcome == Outcome.AT_LEAST.value]
    return Count(
        right=verdicts.count(Verdict.RIGHT),
        at_least=len(bounds),
        wrong=verdicts.count(Verdict.WRONG),
        unresolved=verdicts.count(Verdict.UNRESOLVED),
        interval_coverage=_coverage(judgements),
    )


def summary(seed: int, machines: dict[str, int], judgements: list[Judgement]) -> dict[str, Any]:
    """The document of `setebench score --format json`, schema 1: `machines` by name and the seed of each."""
    own: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        own.setdefault(judgement.parameter, []).append(judgement)
    parameters = {name: _count(own[name]) for name in own}
    totals = {
        name: sum(getattr(count, name) for count in parameters.values())
        for name in ("right", "at_least", "wrong", "unresolved")
    }
    wrong = [
        {
            "machine": j.machine,
            "seed": machines[j.machine],
            "parameter": j.parameter,
            "value": j.value,
            "truth": j.truth,
            "outcome": j.outcome,
        }
        for j in judgements
        if j.verdict is Verdict.WRONG
    ]
    return {
        "schema": 1,
        "seed": seed,
        "machines": list(machines),
        "parameters": {name: msgspec.to_builtins(parameters[name]) for name in sorted(parameters)},
        "totals": {**totals, "interval_coverage": _coverage(judgements)},
        "wrong": wrong,
    }
