"""The score document: everything that judging found, for programs, for the table, and for the accuracy page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from statistics import median
from typing import Any

import msgspec

from setebench.judge.shares import clustered, proportion, row_of, shares, standing, tables
from setebench.judge.verdict import Judgement, Kind, Verdict
from setebench.results import Finding, Outcome

MOST_ALIKE = 0.95  # of the machines with a parameter those with the same truth, from which on a constant would do


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """One machine: what was reported of it, what is true of it, and parameters that it has but whose truth isn't
    known."""

    findings: Sequence[Finding]
    truths: Sequence[Finding]
    left_open: frozenset[str] = frozenset()


def summary(
    seed: int, machines: dict[str, int], judgements: list[Judgement], answers: Sequence[Answered] = ()
) -> dict[str, Any]:
    """The document of `setebench score --format json`, schema 1: `machines` by name and the seed of each.

    `answers` are what the judgements were made of, only with the parameters that are judged."""
    own = _grouped(judgements, lambda each: each.parameter)
    constants = constant(answers)
    wrong = [each for each in judgements if each.verdict is Verdict.WRONG]
    shown = ("machine", "parameter", "value", "truth", "outcome")
    return {
        "schema": 1,
        "seed": seed,
        "machines": list(machines),
        "parameters": {name: _count(own[name]) for name in sorted(own)},
        **totals(judgements, {each["parameter"] for each in constants}),
        "calibration": calibration(judgements),
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
    standings = Counter(each for table in machines.values() for each in table.values())
    return {"totals": _numbers(standings, judgements), "by_machine": shares(machines)}


def _numbers(standings: Counter[str], judgements: Iterable[Judgement]) -> dict[str, Any]:
    """How many stand how: `at_least` of the right ones are bounds only, `near_bounds` of these are within 20 % of the
    truth; and the fraction of intervals that hold the truth, None without any."""
    bounds = standings["bounded"] + standings["loose"]
    covered = [judgement.covered for judgement in judgements if judgement.covered is not None]
    return {
        "right": standings["right"] + bounds,
        "at_least": bounds,
        "near_bounds": standings["bounded"],
        "wrong": standings["wrong"],
        "unresolved": standings["open"],
        "interval_coverage": sum(covered) / len(covered) if covered else None,
    }


def _count(judgements: Sequence[Judgement]) -> dict[str, Any]:
    """The numbers of one parameter, and how wide intervals of measured values are relative to the truth."""
    kinds = [judgement.kind for judgement in judgements if judgement.truth is not None]
    widths = [each.width for each in judgements if each.width is not None and each.kind is Kind.CONTINUOUS]
    return {
        **_numbers(Counter(map(standing, judgements)), judgements),
        "median_width": median(widths) if widths else None,
        "kind": str(kinds[0] if kinds else Kind.CATEGORY),
    }


def calibration(judgements: Iterable[Judgement]) -> dict[str, Any]:
    """Of measured values, clustered by machine. `continuous`: 95 % intervals of latencies, penalties and rates that
    hold the truth, where that is a number; `counts` and `categories`: values that are wrong (also such for something
    that the machine lacks)."""
    own: dict[str, dict[str, list[bool]]] = {"continuous": {}, "counts": {}, "categories": {}}
    for each in judgements:
        if each.outcome != Outcome.MEASURED.value:
            continue
        if each.kind is not Kind.CONTINUOUS:
            name, hit = "counts" if each.kind is Kind.COUNT else "categories", each.verdict is Verdict.WRONG
        elif each.covered is not None and not each.ranged:
            name, hit = "continuous", each.covered
        else:
            continue
        own[name].setdefault(each.machine, []).append(hit)
    found = {name: clustered([*map(sum, by.values())], [*map(len, by.values())]) for name, by in own.items()}
    plain: dict[str, Any] = msgspec.to_builtins(found)
    return plain


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
        lacking = name.endswith(".present") and len(known) < len(answers)
        if len(known) > 1 and alike >= MOST_ALIKE * len(known) and not lacking:
            usual = known[texts.index(same)].value
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
    found = []
    for name in sorted(said.keys() - known):
        head = name.rpartition(".")[0]
        variant, left_open = head if head in known else None, name in open_ones
        found.append({"parameter": name, "machines": said[name], "left_open": left_open, "variant_of": variant})
    return found


# -- the accuracy page ------------------------------------------------------------------------------------------------


def accuracy(
    judgements: Sequence[Judgement], scenario_of: Callable[[str], str], constants: Collection[str] = ()
) -> dict[str, Any]:
    """By scenario a table, called `all`: the shares of all rows, calibration, and the shares of each row by itself."""
    own = _grouped(judgements, lambda each: scenario_of(each.parameter))
    return {name: {"all": _table(each, constants)} for name, each in sorted(own.items())}


def _table(judgements: Sequence[Judgement], constants: Collection[str]) -> dict[str, Any]:
    machines = tables(judgements, constants)
    rows = _grouped(judgements, lambda each: row_of(each.parameter))
    names = sorted({row for table in machines.values() for row in table})
    parameters = {name: _row(rows[name], constants) for name in names}
    return {**shares(machines), "calibration": calibration(judgements), "parameters": parameters}


def _row(judgements: Sequence[Judgement], constants: Collection[str]) -> dict[str, Any]:
    counted = _count(judgements)
    continuous = counted["kind"] == Kind.CONTINUOUS
    return {
        "kind": counted["kind"],
        **shares(tables(judgements, constants)),
        "coverage": calibration(judgements)["continuous"] if continuous else msgspec.to_builtins(proportion(0, 0)),
        "median_width": counted["median_width"],
    }
