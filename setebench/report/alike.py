"""Rows that would all say the same, as one row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from setebench.results import Finding, Outcome

_VECTOR = re.compile(r"(latency\.\w+)\.vector\d+")


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
    return (
        len({len(each) for each in names}) == 1
        and sum(len(set(column)) > 1 for column in zip(*names, strict=True)) == 1
    )


def _braced(names: list[list[str]]) -> str:
    if len(names) == 1:
        return ".".join(names[0])
    return ".".join(_part(list(dict.fromkeys(column))) for column in zip(*names, strict=True))


def _part(words: list[str]) -> str:
    if len(words) == 1:
        return words[0]
    common = re.match(r"[A-Za-z_]*", words[0])
    stem = common[0] if common and all(word.startswith(common[0]) and word != common[0] for word in words) else ""
    return f"{stem}{{{','.join(word.removeprefix(stem) for word in words)}}}"


def merged(findings: Sequence[Finding]) -> list[Finding]:
    """The findings with those that say the same as one: vector loads that take what 8-byte loads take, and what stayed
    open for the same reason."""
    return list(_same_reasons(list(_vectors(findings))))


def _vectors(findings: Sequence[Finding]) -> Iterator[Finding]:
    known = {finding.parameter: finding for finding in findings}
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        if match := _VECTOR.fullmatch(finding.parameter):
            groups.setdefault(match[1], []).append(finding)
    same = {level: group for level, group in groups.items() if len(group) > 1 and _as(known.get(level), group)}
    for finding in findings:
        match = _VECTOR.fullmatch(finding.parameter)
        if match is None or match[1] not in same:
            yield finding
        elif finding is same[match[1]][0]:
            yield _one(same[match[1]])


def _as(base: Finding | None, group: list[Finding]) -> bool:
    """Whether all of them are measured, and no interval leaves that of the 8-byte load."""
    own = _interval(base)
    intervals = [_interval(each) for each in group]
    return own is not None and all(each and each[0] <= own[1] and each[1] >= own[0] for each in intervals)


def _interval(finding: Finding | None) -> tuple[float, float] | None:
    if finding is None or finding.outcome is not Outcome.MEASURED or finding.low is None or finding.high is None:
        return None
    return finding.low, finding.high


def _one(group: list[Finding]) -> Finding:
    """One row for a level's vector loads; its interval spans theirs."""
    return msgspec.structs.replace(
        group[0],
        parameter=joined([each.parameter for each in group]),
        value="as 8-byte loads",
        unit="string",
        low=min(each.low for each in group if each.low is not None),
        high=max(each.high for each in group if each.high is not None),
    )


def _same_reasons(findings: list[Finding]) -> Iterator[Finding]:
    """Neighbours without a value that share outcome and reason."""
    group: list[Finding] = []
    for finding in findings:
        if group and not _alike(group[0], finding):
            yield _together(group)
            group = []
        group.append(finding)
    if group:
        yield _together(group)


def _alike(one: Finding, other: Finding) -> bool:
    return one.value is None and (one.outcome, one.reason) == (other.outcome, other.reason) and other.value is None


def _together(group: list[Finding]) -> Finding:
    if len(group) == 1:
        return group[0]
    return msgspec.structs.replace(group[0], parameter=joined([each.parameter for each in group]))
