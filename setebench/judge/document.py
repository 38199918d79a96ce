"""The score document: everything that judging found, for programs and for the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from setebench.judge.calibration import calibration
from setebench.judge.counts import count, coverage
from setebench.judge.questions import Answered, constant, never_judged
from setebench.judge.rows import shares, tables
from setebench.judge.verdict import Judgement, Verdict


def summary(
    seed: int, machines: dict[str, int], judgements: list[Judgement], answers: Sequence[Answered] = ()
) -> dict[str, Any]:
    """The document of `setebench score --format json`, schema 1: `machines` by name and the seed of each.

    `answers` are what the judgements were made of, only with the parameters that are asked for."""
    own: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        own.setdefault(judgement.parameter, []).append(judgement)
    constants = constant(answers)
    return {
        "schema": 1,
        "seed": seed,
        "machines": list(machines),
        "parameters": {name: msgspec.to_builtins(count(own[name])) for name in sorted(own)},
        **totals(judgements, {each["parameter"] for each in constants}),
        "calibration": msgspec.to_builtins(calibration(judgements)),
        "constant": constants,
        "never_judged": never_judged(answers),
        "wrong": [_wrong(each, machines) for each in judgements if each.verdict is Verdict.WRONG],
    }


def totals(judgements: list[Judgement], constants: Collection[str]) -> dict[str, Any]:
    """`totals`, how many rows of all machines stand how, and `by_machine`, their shares with intervals."""
    machines = tables(judgements, constants)
    rows = Counter(each for table in machines.values() for each in table.values())
    bounds = rows["bounded"] + rows["loose"]
    return {
        "totals": {
            "right": rows["right"] + bounds,
            "at_least": bounds,
            "near_bounds": rows["bounded"],
            "wrong": rows["wrong"],
            "unresolved": rows["open"],
            "interval_coverage": coverage(judgements),
        },
        "by_machine": shares(machines),
    }


def _wrong(judgement: Judgement, machines: dict[str, int]) -> dict[str, Any]:
    return {
        "machine": judgement.machine,
        "seed": machines[judgement.machine],
        "parameter": judgement.parameter,
        "value": judgement.value,
        "truth": judgement.truth,
        "outcome": judgement.outcome,
    }
