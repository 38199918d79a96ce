"""The score document: everything that judging found, for programs and for the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from setebench.judge.calibration import calibration
from setebench.judge.counts import COUNTED, count, coverage, median_width
from setebench.judge.questions import Answered, constant, never_judged
from setebench.judge.verdict import Judgement, Verdict


def summary(
    seed: int, machines: dict[str, int], judgements: list[Judgement], answers: Sequence[Answered] = ()
) -> dict[str, Any]:
    """The document of `setebench score --format json`, schema 1: `machines` by name and the seed of each.

    `answers` are what the judgements were made of, only with the parameters that are asked for."""
    own: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        own.setdefault(judgement.parameter, []).append(judgement)
    parameters = {name: count(own[name]) for name in sorted(own)}
    return {
        "schema": 1,
        "seed": seed,
        "machines": list(machines),
        "parameters": {name: msgspec.to_builtins(each) for name, each in parameters.items()},
        "totals": totals(judgements),
        "calibration": msgspec.to_builtins(calibration(judgements)),
        "constant": constant(answers),
        "never_judged": never_judged(answers),
        "wrong": [_wrong(each, machines) for each in judgements if each.verdict is Verdict.WRONG],
    }


def totals(judgements: list[Judgement]) -> dict[str, Any]:
    """The counts of all parameters together."""
    own: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        own.setdefault(judgement.parameter, []).append(judgement)
    counts = [count(each) for each in own.values()]
    sums = {name: sum(getattr(each, name) for each in counts) for name in COUNTED}
    return {**sums, "interval_coverage": coverage(judgements), "median_width": median_width(judgements)}


def _wrong(judgement: Judgement, machines: dict[str, int]) -> dict[str, Any]:
    return {
        "machine": judgement.machine,
        "seed": machines[judgement.machine],
        "parameter": judgement.parameter,
        "value": judgement.value,
        "truth": judgement.truth,
        "outcome": judgement.outcome,
    }
