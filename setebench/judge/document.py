"""The score document: everything that judging found, for programs, for the table, and for the accuracy page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from statistics import median
from typing import Any

import msgspec

from setebench.judge.shares import Proportion, clustered, proportion, row_of, shares, standing, tables
from setebench.judge.verdict import Judgement, Kind, Verdict
from setebench.results import Finding, Outcome

MOST_ALIKE = 0.95  # of the machines with a parameter those with the same truth, from which on a constant would do


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """One machine: what was reported of it, what is true of it, and parameters that it has but whose truth isn't
    known."""

    machine: str
    findings: Sequence[Finding]
    truths: Sequence[Finding]
    left_open: frozenset[str] = frozenset()


def summary(
    seed: int, machines: dict[str, int], judgements: list[Judgement], answers: Sequence[Answered] = ()
) -> dict[str, Any]:
    """The document of `setebench score --format json`, schema 1: `machines` by name and the seed of each.

    `answers` are what the judgements were made of, only with the parameters that are asked for."""
    own = _grouped(judgements, lambda each: each.parameter)
    constants = constant(answers)
    wrong = [each for each in judgements if each.verdict is Verdict.WRONG]
    shown = ("machine", "parameter", "value", "truth", "outcome")
    return {
        "schema": 1,
        "seed": seed,
        "machines": list(machines),
        "parameters": {name: count(own[name]) for name in sorted(own)},
        **totals(judgements, {each["parameter"] for each in constants}),
        "calibration": msgspec.to_builtins(calibration(judgements)),
        "constant": constants,
        "never_judged": never_judged(answers),
        "wrong": [{"seed": machines[each.machine], **{name: getattr(each, name) for name in shown}} for each in wrong],
    }


def _grouped(judgements: Iterable[Judgement], key: Callable[[Judgement], str]) -> dict[str, list[Judgement]]:
    found: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        found.setdefault(key(judgement), []).append(judgement)
    return found


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
            "interval_coverage": _coverage(judgements),
        },
        "by_machine": shares(machines),
    }


def count(judgements: Sequence[Judgement]) -> dict[str, Any]:
    """How often a parameter was right, wrong, or not reported at all; `at_least`: how many of the right ones are bounds
    only, `near_bounds`: how many of these are within 20 % of the truth; `interval_coverage`: which fraction of its
    intervals hold the truth, and `median_width`: how wide those of measured values are relative to it; both None where
    there was none."""
    standings = Counter(map(standing, judgements))
    kinds = [judgement.kind for judgement in judgements if judgement.truth is not None]
    widths = [each.width for each in judgements if each.width is not None and each.kind is Kind.CONTINUOUS]
    return {
        "right": standings["right"] + standings["bounded"] + standings["loose"],
        "at_least": standings["bounded"] + standings["loose"],
        "wrong": standings["wrong"],
        "unresolved": standings["open"],
        "interval_coverage": _coverage(judgements),
        "near_bounds": standings["bounded"],
        "median_width": median(widths) if widths else None,
        "kind": str(kinds[0] if kinds else Kind.CATEGORY),
    }


def _coverage(judgements: Iterable[Judgement]) -> float | None:
    asked = [judgement.covered for judgement in judgements if judgement.covered is not None]
    return sum(asked) / len(asked) if asked else None


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
        continuous=_of_machines(exact, lambda each: bool(each.covered)),
        counts=_of_machines([each for each in measured if each.kind is Kind.COUNT], _is_wrong),
        categories=_of_machines([each for each in measured if each.kind is Kind.CATEGORY], _is_wrong),
    )


def _is_wrong(judgement: Judgement) -> bool:
    return judgement.verdict is Verdict.WRONG


def _of_machines(judgements: Sequence[Judgement], hit: Callable[[Judgement], bool]) -> Proportion:
    own = _grouped(judgements, lambda each: each.machine).values()
    return clustered([sum(map(hit, each)) for each in own], [len(each) for each in own])


# -- what a score can't show ------------------------------------------------------------------------------------------


def constant(answers: Sequence[Answered]) -> list[dict[str, Any]]:
    """Parameters that have one true value on nearly all machines which have them (`MOST_ALIKE`), where two or more do:
    an answer that is written down somewhere would be right. (Not that something is present, where some machines lack
    it: there the same answer is wrong.) By name: `parameter`, `truth`, `machines`, and `alike`, how many have it so."""
    values: dict[str, list[Finding]] = {}
    for answer in answers:
        for truth in answer.truths:
            values.setdefault(truth.parameter, []).append(truth)
    found = []
    for name, known in sorted(values.items()):
        texts = [repr((each.value, each.low, each.high)) for each in known]
        (same, alike), *_ = Counter(texts).most_common(1)
        usual = known[texts.index(same)].value
        lacking = name.endswith(".present") and len(known) < len(answers)
        if len(known) > 1 and alike >= MOST_ALIKE * len(known) and not lacking:
            found.append({"parameter": name, "truth": usual, "machines": len(known), "alike": alike})
    return found


def never_judged(answers: Sequence[Answered]) -> list[dict[str, Any]]:
    """Parameters that were reported, but of no machine is there a truth to hold them against: `parameter`, `machines`,
    `left_open`, whether the machines say that they have it, and `variant_of`, the judged parameter that it is another
    way to measure (`latency.l1` of `latency.l1.chase`), or None."""
    known = {truth.parameter for answer in answers for truth in answer.truths}
    open_ones = {parameter for answer in answers for parameter in answer.left_open}
    silent = (Outcome.UNRESOLVED, Outcome.UNAVAILABLE)
    said = Counter(each.parameter for answer in answers for each in answer.findings if each.outcome not in silent)
    return [
        {
            "parameter": name,
            "machines": machines,
            "left_open": name in open_ones,
            "variant_of": head if (head := name.rpartition(".")[0]) in known else None,
        }
        for name, machines in sorted(said.items())
        if name not in known
    ]


# -- the accuracy page ------------------------------------------------------------------------------------------------


def accuracy(
    judgements: Sequence[Judgement], scenario_of: Callable[[str], str], constants: Collection[str] = ()
) -> dict[str, Any]:
    """By scenario a table, called `all`: the shares of all rows, calibration, and the shares of each row by itself."""
    own = _grouped(judgements, lambda each: scenario_of(each.parameter))
    return {name: {"all": _table(each, constants)} for name, each in sorted(own.items())}


def _table(judgements: Sequence[Judgement], constants: Collection[str]) -> dict[str, Any]:
    machines = tables(judgements, constants)
    names = {row for table in machines.values() for row in table}
    rows = _grouped(judgements, lambda each: row_of(each.parameter))
    return {
        **shares(machines),
        "calibration": msgspec.to_builtins(calibration(judgements)),
        "parameters": {name: _row(rows[name], constants) for name in sorted(names)},
    }


def _row(judgements: Sequence[Judgement], constants: Collection[str]) -> dict[str, Any]:
    counted = count(judgements)
    continuous = counted["kind"] == Kind.CONTINUOUS
    holding = calibration(judgements).continuous if continuous else proportion(0, 0)
    return {
        "kind": counted["kind"],
        **shares(tables(judgements, constants)),
        "coverage": msgspec.to_builtins(holding),
        "median_width": counted["median_width"],
    }
