"""Findings without a value that share their reason, as one row."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from setebench.results import Finding

MOST_NAMES = 6
"""Names that a row spells out."""


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, with those of one thing that lack a value for the same reason as one, where the first of them
    stands: `latency.l1.{vector16,vector32}`."""
    groups: dict[object, list[Finding]] = {}
    for finding in findings:
        parent, _, name = finding.parameter.rpartition(".")
        key = (finding.outcome, finding.reason, parent) if finding.value is None else (parent, name)
        groups.setdefault(key, []).append(finding)
    return [_one(group) for group in groups.values()]


def _one(group: list[Finding]) -> Finding:
    if len(group) == 1:
        return group[0]
    parent = group[0].parameter.rpartition(".")[0]
    names = [each.parameter.removeprefix(f"{parent}.") for each in group]
    return msgspec.structs.replace(group[0], parameter=f"{parent}.{{{listed(names, ',')}}}")


def listed(names: list[str], between: str = ", ") -> str:
    """The first names, and how many more there are."""
    more = f"{between}... {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return between.join(names[:MOST_NAMES]) + more
