"""Two versions of the inference on the same machines: what the one gains and loses against the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from setebench.judge.verdict import Judgement, Verdict
from setebench.results import Outcome
from setebench.stats.estimate import over_epochs

STANDINGS = ("right", "at_least", "wrong", "unresolved")
"""How a judgement may stand; here a right one that is a bound counts as `at_least` alone."""


def standing(judgement: Judgement) -> str:
    """One of `STANDINGS`."""
    if judgement.verdict is Verdict.RIGHT and judgement.outcome == Outcome.AT_LEAST.value:
        return "at_least"
    return judgement.verdict.value


def difference(old: Iterable[Judgement], new: Iterable[Judgement]) -> dict[str, Any]:
    """The new version's fraction of each standing minus the old one's, and parameters that changed.

    Fractions are taken machine by machine, because answers of one machine hang together: the mean over machines, with
    Student's interval of their spread (paired). Without any spread, or with a single machine, there is no interval."""
    before, after = _by_machine(old), _by_machine(new)
    both = [name for name in before if name in after]
    return {
        "machines": len(both),
        "fractions": {
            each: _shift([before[name] for name in both], [after[name] for name in both], each) for each in STANDINGS
        },
        "parameters": _changed([(before[name], after[name]) for name in both]),
    }


_Table = Mapping[str, str]


def _by_machine(judgements: Iterable[Judgement]) -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = {}
    for judgement in judgements:
        tables.setdefault(judgement.machine, {})[judgement.parameter] = standing(judgement)
    return tables


def _shift(before: list[dict[str, str]], after: list[dict[str, str]], which: str) -> dict[str, float | None]:
    shifts = [_fraction(new, which) - _fraction(old, which) for old, new in zip(before, after, strict=True)]
    mean = over_epochs(shifts)
    known = mean.error > 0 and len(shifts) > 1
    return {
        "difference": mean.value if shifts else None,
        "low": mean.low if known else None,
        "high": mean.high if known else None,
    }


def _fraction(table: _Table, which: str) -> float:
    return sum(each == which for each in table.values()) / len(table)


def _changed(pairs: list[tuple[dict[str, str], dict[str, str]]]) -> dict[str, dict[str, int]]:
    """For every parameter that stands otherwise on some machine: how often `old -> new`."""
    found: dict[str, dict[str, int]] = {}
    for old, new in pairs:
        for parameter in sorted(old.keys() | new.keys()):
            was, became = old.get(parameter, "not judged"), new.get(parameter, "not judged")
            if was != became:
                steps = found.setdefault(parameter, {})
                steps[f"{was} -> {became}"] = steps.get(f"{was} -> {became}", 0) + 1
    return dict(sorted(found.items()))
