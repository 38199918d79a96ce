"""Findings without a value that share their reason, as one row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from setebench.results import Finding


def joined(names: Sequence[str]) -> str:
    """Names that differ in one part as one: `latency.l1.vector{16,32}`; other names one after the other."""
    groups: list[list[list[str]]] = []
    for name in names:
        parts = name.split(".")
        group = next((each for each in groups if _one_apart([*each, parts])), None)
        if group is None:
            groups.append([parts])
        else:
            group.append(parts)
    return ", ".join(map(_braced, groups))


def _one_apart(names: Sequence[list[str]]) -> bool:
    same_length = len({len(each) for each in names}) == 1
    return same_length and sum(len(set(column)) > 1 for column in zip(*names, strict=True)) == 1


def _braced(names: list[list[str]]) -> str:
    return ".".join(_part(list(dict.fromkeys(column))) for column in zip(*names, strict=True))


def _part(words: list[str]) -> str:
    if len(words) == 1:
        return words[0]
    common = re.match(r"[A-Za-z_]*", words[0])
    stem = common[0] if common and all(word.startswith(common[0]) and word != common[0] for word in words) else ""
    return f"{stem}{{{','.join(word.removeprefix(stem) for word in words)}}}"


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, with those that lack a value for the same reason as one, where the first of them stands."""
    groups: dict[object, list[Finding]] = {}
    for finding in findings:
        key = (finding.outcome, finding.reason) if finding.value is None else finding.parameter
        groups.setdefault(key, []).append(finding)
    return [_one(group) for group in groups.values()]


def _one(group: list[Finding]) -> Finding:
    return msgspec.structs.replace(group[0], parameter=joined([each.parameter for each in group]))
