"""What is published of a score: by scenario, by class of noise, and by parameter, with the errors of the rates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from setebench.judge.calibration import calibration
from setebench.judge.counts import count
from setebench.judge.failures import Machine
from setebench.judge.proportion import proportion
from setebench.judge.verdict import Judgement, Kind, Verdict
from setebench.results import Outcome

ScenarioOf = Callable[[str], str]
"""The scenario that a parameter is of."""


def accuracy(
    judgements: Sequence[Judgement], machines: Mapping[str, Machine], scenario_of: ScenarioOf
) -> dict[str, Any]:
    """By scenario: `all`, and by class of noise `noise` (without machines of which nothing is known), each a table."""
    own: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        own.setdefault(scenario_of(judgement.parameter), []).append(judgement)
    return {name: {"all": _table(each), "noise": _by_noise(each, machines)} for name, each in sorted(own.items())}


def _by_noise(judgements: Sequence[Judgement], machines: Mapping[str, Machine]) -> dict[str, Any]:
    own: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        if judgement.machine in machines:
            own.setdefault(machines[judgement.machine].noise, []).append(judgement)
    return {name: _table(each) for name, each in sorted(own.items())}


def _table(judgements: Sequence[Judgement]) -> dict[str, Any]:
    """`machines` that had something to judge, the counts in all, calibration, and a row for each parameter."""
    own: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        own.setdefault(judgement.parameter, []).append(judgement)
    return {
        "machines": len({each.machine for each in judgements}),
        **_row(judgements),
        "calibration": msgspec.to_builtins(calibration(judgements)),
        "parameters": {name: _parameter(own[name]) for name in sorted(own)},
    }


def _parameter(judgements: Sequence[Judgement]) -> dict[str, Any]:
    counted = count(list(judgements))
    holding = calibration(judgements).continuous if counted.kind == Kind.CONTINUOUS.value else proportion(0, 0)
    return {
        "kind": counted.kind,
        **_row(judgements),
        "coverage": msgspec.to_builtins(holding),
        "median_width": counted.median_width,
    }


def _row(judgements: Sequence[Judgement]) -> dict[str, Any]:
    """`right` are values, `bounded` true bounds, `open` what was not answered, `wrong_measured` those of the wrong ones
    that claim to be measured."""
    counted = count(list(judgements))
    wrong_measured = sum(
        each.verdict is Verdict.WRONG and each.outcome == Outcome.MEASURED.value for each in judgements
    )
    return {
        "judged": len(judgements),
        "right": counted.right - counted.at_least,
        "bounded": counted.at_least,
        "near_bounds": counted.near_bounds,
        "wrong": msgspec.to_builtins(proportion(counted.wrong, len(judgements))),
        "wrong_measured": msgspec.to_builtins(proportion(wrong_measured, len(judgements))),
        "open": counted.unresolved,
    }
