"""The score document: everything that judging found, for programs, for the table, and for the accuracy page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import attrgetter
from statistics import median
from typing import Any

from setebench.judge.shares import SHOWN, clustered, row_of, shares, standing, tables
from setebench.judge.verdict import Judgement, Verdict
from setebench.results import Outcome

MOST_ALIKE = 0.95  # of the machines with a parameter those with the same truth, from which on a constant would do
HELD = 0.95  # of the truths by honest intervals


def summary(seed: int, machines: dict[str, int], judgements: list[Judgement]) -> dict[str, Any]:
    """The document of `setebench score --format json`, schema 1: `machines` by name and the seed of each."""
    own = _grouped(judgements, attrgetter("parameter"))
    constants = constant(judgements, len(machines))
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
    widths = [each.width for each in judgements if each.width is not None]
    numbers = _numbers(Counter(map(standing, judgements)), judgements)
    return {**numbers, "median_width": median(widths) if widths else None}


def calibration(judgements: Iterable[Judgement]) -> dict[str, Any]:
    """Of measured latencies, penalties and rates the 95 % intervals that hold the truth, where that is a number,
    clustered by machine (`continuous`)."""
    held: dict[str, list[bool]] = {}
    for each in judgements:
        if each.continuous and each.covered is not None and each.outcome == Outcome.MEASURED.value:
            held.setdefault(each.machine, []).append(each.covered)
    return {"continuous": clustered([*map(sum, held.values())], [*map(len, held.values())])}


def constant(judgements: Iterable[Judgement], machines: int) -> list[dict[str, Any]]:
    """Parameters that have one true value on nearly all machines which have them (`MOST_ALIKE`), where two or more do:
    an answer that is written down somewhere would be right. (Not that something is present, where some of the
    `machines` lack it: there the same answer is wrong.) By name: `parameter`, `truth`, `machines`, and `alike`, how
    many have it so."""
    found = []
    for name, known in sorted(
        _grouped((each for each in judgements if each.truth is not None), attrgetter("parameter")).items()
    ):
        texts = [repr(each.truth) for each in known]
        (same, alike), *_ = Counter(texts).most_common(1)
        lacking = name.endswith(".present") and len(known) < machines
        if len(known) > 1 and alike >= MOST_ALIKE * len(known) and not lacking:
            usual = known[texts.index(same)].truth
            found.append({"parameter": name, "truth": usual, "machines": len(known), "alike": alike})
    return found


def accuracy(
    judgements: Sequence[Judgement], scenario_of: Callable[[str], str], constants: Collection[str] = ()
) -> dict[str, Any]:
    """By scenario the shares of all rows, calibration, and `parameters`: how often each row stands how, how many
    intervals hold the truth (`coverage`, of how many) and how wide they are, and whether that is more or less than 95 %
    (`miscalibrated`: an honest row is one time in twenty)."""
    made = {}
    for name, own in sorted(_grouped(judgements, lambda each: scenario_of(each.parameter)).items()):
        machines, rows = tables(own, constants), _grouped(own, lambda each: row_of(each.parameter))
        named = sorted({row for table in machines.values() for row in table})
        parameters = {row: _row(machines, row, rows[row]) for row in named}
        made[name] = {**shares(machines), "calibration": calibration(own), "parameters": parameters}
    return made


def _row(machines: dict[str, dict[str, str]], row: str, judgements: Sequence[Judgement]) -> dict[str, Any]:
    standings = Counter(table[row] for table in machines.values() if row in table)
    numbers = {share: sum(standings[each] for each in which) for share, which in SHOWN.items()}
    coverage = calibration(judgements)["continuous"]
    return {
        "rows": standings.total(),
        **numbers,
        "coverage": [coverage["hits"], coverage["trials"]] if coverage["trials"] else None,
        "miscalibrated": coverage["low"] is not None and not coverage["low"] <= HELD <= coverage["high"],
        "median_width": _count(judgements)["median_width"],
    }
