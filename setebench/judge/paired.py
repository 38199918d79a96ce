"""Two versions of the inference on the same machines: what the one gains and loses against the other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from setebench.judge.shares import SHOWN, Table, ratio_variance, row_of, student, tables
from setebench.judge.verdict import Judgement


def difference(old: Sequence[Judgement], new: Sequence[Judgement], constants: Collection[str] = ()) -> dict[str, Any]:
    """What the new version has more of than the old one, of all rows in points (fractions), and rows that changed.

    Counted are machines that both were asked about, and rows that both report, with whatever outcome, on some machine;
    what only one of them ever reports stands apart, with how often it was right. A row that one version alone has on a
    machine (it claims what isn't there) is neither right nor wrong of the other."""
    said = [{row_of(each.parameter) for each in judgements if each.outcome != UNREPORTED} for judgements in (old, new)]
    before, after = tables(old, constants), tables(new, constants)
    machines = [name for name in before if name in after]
    both = said[0] & said[1]
    pairs = [(_only(before[name], both), _only(after[name], both)) for name in machines]
    rows = [len(one.keys() | other.keys()) for one, other in pairs]
    return {
        "machines": len(machines),
        "rows": sum(rows),
        "points": {name: _shift(pairs, rows, which) for name, which in SHOWN.items()},
        "only_old": _right(before, machines, said[0] - both),
        "only_new": _right(after, machines, said[1] - both),
        "parameters": _changed(pairs),
    }


UNREPORTED = "not reported"
"""The outcome of a judgement of what no finding mentions."""


def _only(table: Table, wanted: Collection[str]) -> Table:
    return {row: each for row, each in table.items() if row in wanted}


def _shift(pairs: Sequence[tuple[Table, Table]], rows: Sequence[int], which: Collection[str]) -> dict[str, Any]:
    """New minus old, with Student's interval of the ratio over machines (paired); without spread there is none."""
    gains = [
        sum(each in which for each in new.values()) - sum(each in which for each in old.values()) for old, new in pairs
    ]
    if not sum(rows):
        return {"difference": None, "low": None, "high": None}
    mean = sum(gains) / sum(rows)
    variance = ratio_variance(gains, rows) if len(rows) > 1 else 0.0
    half = student(len(rows) - 1) * variance**0.5 if variance else None
    low, high = (None, None) if half is None else (mean - half, mean + half)
    return {"difference": mean, "low": low, "high": high}


def _right(machines: Mapping[str, Table], names: Iterable[str], wanted: Collection[str]) -> dict[str, int]:
    """By row how often it was right, of rows that only one version reports."""
    own = [machines[name] for name in names]
    return {row: sum(table.get(row) == "right" for table in own) for row in sorted(wanted)}


def _changed(pairs: Iterable[tuple[Table, Table]]) -> dict[str, dict[str, int]]:
    """For every row that stands otherwise on some machine: how often `old -> new`."""
    found: dict[str, dict[str, int]] = {}
    for old, new in pairs:
        for row in sorted(old.keys() | new.keys()):
            was, became = old.get(row, "not judged"), new.get(row, "not judged")
            if was != became:
                steps = found.setdefault(row, {})
                steps[f"{was} -> {became}"] = steps.get(f"{was} -> {became}", 0) + 1
    return dict(sorted(found.items()))
