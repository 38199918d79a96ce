"""Classes of failure: wrong answers grouped by parameter, and by what the machines have on which they came."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import msgspec

from setebench.judge.proportion import CONFIDENCE, proportion
from setebench.judge.verdict import Judgement, Verdict

Trait = str | bool | int | float


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a machine that was judged: its class of noise, and what it has, by field of its machine file."""

    noise: str
    traits: Mapping[str, Trait]


MOST_WORDS = 6
"""A field with more different values than this (words aside) is parted at its median instead of value by value."""


def failure_classes(
    judgements: Sequence[Judgement], machines: Mapping[str, Machine], seeds: Mapping[str, int]
) -> list[dict[str, Any]]:
    """One for each parameter of which an answer was wrong, those with the most wrong answers first.

    `answers` says how they were wrong and how often; `where` names the one thing that those machines have more often
    than others of which the parameter was judged: that with the least chance under Fisher's exact test, one-sided, if
    that chance times the number of things looked at (Bonferroni) is below 5 %. Without it `where` is None. `machines`
    may be empty, or lack some."""
    own: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        own.setdefault(judgement.parameter, []).append(judgement)
    made = [
        _class(parameter, each, machines, seeds)
        for parameter, each in own.items()
        if any(judgement.verdict is Verdict.WRONG for judgement in each)
    ]
    return sorted(made, key=lambda each: (-each["wrong"], each["judged"], each["parameter"]))


def _class(
    parameter: str, judged: list[Judgement], machines: Mapping[str, Machine], seeds: Mapping[str, int]
) -> dict[str, Any]:
    wrong = [each for each in judged if each.verdict is Verdict.WRONG]
    return {
        "parameter": parameter,
        "wrong": len(wrong),
        "judged": len(judged),
        "rate": msgspec.to_builtins(proportion(len(wrong), len(judged))),
        "answers": dict(Counter(map(_how, wrong)).most_common()),
        "median_ratio": _median_ratio(wrong),
        "where": _where(judged, machines),
        "noise": dict(Counter(machines[each.machine].noise for each in wrong if each.machine in machines)),
        "seeds": [seeds[each.machine] for each in wrong],
    }


def _how(wrong: Judgement) -> str:
    if wrong.truth is None:
        return "there is none"
    if wrong.outcome == "absent":
        return "said to be absent"
    if not _is_number(wrong.truth) or not _is_number(wrong.value):
        return f"{_said(wrong.value)} for {_said(wrong.truth)}"
    if wrong.outcome == "at_least":
        return "a bound above the truth"
    return "too large" if wrong.value > wrong.truth else "too small"


def _said(value: object) -> str:
    return "+".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _median_ratio(wrong: Sequence[Judgement]) -> float | None:
    """Of values to their truths, of numbers."""
    ratios = [
        each.value / each.truth
        for each in wrong
        if _is_number(each.value) and _is_number(each.truth) and each.truth and each.outcome != "absent"
    ]
    return median(ratios) if ratios else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# -- what these machines have -----------------------------------------------------------------------------------------


def _where(judged: list[Judgement], machines: Mapping[str, Machine]) -> dict[str, Any] | None:
    known = {each.machine: each.verdict is Verdict.WRONG for each in judged if each.machine in machines}
    wrong = {name for name, failed in known.items() if failed}
    if not wrong or len(wrong) == len(known):
        return None
    things = list(_things({name: machines[name] for name in known}))
    chances = [
        (_chance(len(wrong & having), (len(known), len(wrong), len(having))), what, having) for what, having in things
    ]
    if not chances:
        return None
    chance, what, having = min(chances, key=lambda each: (each[0], each[1]))
    if chance * len(things) >= 1 - CONFIDENCE:
        return None
    return {"what": what, "machines": len(having), "wrong": len(wrong & having), "chance": chance * len(things)}


def _things(machines: Mapping[str, Machine]) -> Iterator[tuple[str, set[str]]]:
    """What parts these machines, and those that have it; of things that the same ones have only the first."""
    seen: set[frozenset[str]] = set()
    fields = sorted({field for machine in machines.values() for field in machine.traits})
    parts: list[tuple[str, Mapping[str, Trait]]] = [
        ("noise", {name: machine.noise for name, machine in machines.items()})
    ]
    parts += [
        (field, {name: each.traits[field] for name, each in machines.items() if field in each.traits})
        for field in fields
    ]
    for field, values in parts:
        for what, having in _parted(field, values):
            if 0 < len(having) < len(machines) and frozenset(having) not in seen:
                seen.add(frozenset(having))
                yield what, having


def _parted(field: str, values: Mapping[str, Trait]) -> Iterator[tuple[str, set[str]]]:
    different = set(values.values())
    numbers = [value for value in values.values() if not isinstance(value, str)]
    if len(numbers) < len(values) or len(different) <= MOST_WORDS:
        for value in sorted(different, key=str):
            yield _worded(field, value), {name for name, own in values.items() if own == value}
        return
    middle = median(numbers)
    yield f"{field} above {middle:g}", {name for name, own in values.items() if float(own) > middle}
    yield f"{field} at most {middle:g}", {name for name, own in values.items() if float(own) <= middle}


def _worded(field: str, value: Trait) -> str:
    if isinstance(value, bool):
        return field if value else f"{field} is false"
    return f"{field} is {value}"


def _chance(hits: int, table: tuple[int, int, int]) -> float:
    """That of so many machines, of which some were wrong and some have a thing, so many or more wrong ones have it."""
    everyone, wrong, having = table
    ways = math.comb(everyone, having)
    more = range(hits, min(wrong, having) + 1)
    return sum(math.comb(wrong, each) * math.comb(everyone - wrong, having - each) for each in more) / ways
