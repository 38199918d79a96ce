"""What is published of a score: by scenario, by class of noise, and by parameter, with the errors of the rates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from setebench.judge.calibration import calibration
from setebench.judge.counts import count
from setebench.judge.proportion import proportion
from setebench.judge.rows import row_of, shares, tables
from setebench.judge.verdict import Judgement, Kind

ScenarioOf = Callable[[str], str]
"""The scenario that a parameter is of."""


def accuracy(
    judgements: Sequence[Judgement], noise: Mapping[str, str], scenario_of: ScenarioOf, constants: Collection[str] = ()
) -> dict[str, Any]:
    """By scenario: `all`, and by class of noise `noise` (without machines of which nothing is known), each a table."""
    own: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        own.setdefault(scenario_of(judgement.parameter), []).append(judgement)
    return {
        name: {"all": _table(each, constants), "noise": _by_noise(each, noise, constants)}
        for name, each in sorted(own.items())
    }


def _by_noise(judgements: Sequence[Judgement], noise: Mapping[str, str], constants: Collection[str]) -> dict[str, Any]:
    own: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        if judgement.machine in noise:
            own.setdefault(noise[judgement.machine], []).append(judgement)
    return {name: _table(each, constants) for name, each in sorted(own.items())}


def _table(judgements: Sequence[Judgement], constants: Collection[str]) -> dict[str, Any]:
    """The shares of all rows, calibration, and the shares of each row by itself."""
    machines = tables(judgements, constants)
    names = sorted({row for table in machines.values() for row in table})
    return {
        **shares(machines),
        "calibration": msgspec.to_builtins(calibration(judgements)),
        "parameters": {
            name: _row([each for each in judgements if row_of(each.parameter) == name], constants) for name in names
        },
    }


def _row(judgements: Sequence[Judgement], constants: Collection[str]) -> dict[str, Any]:
    counted = count(list(judgements))
    holding = calibration(judgements).continuous if counted.kind == Kind.CONTINUOUS.value else proportion(0, 0)
    return {
        "kind": counted.kind,
        **shares(tables(judgements, constants)),
        "coverage": msgspec.to_builtins(holding),
        "median_width": counted.median_width,
    }
