"""What several surveys of a machine, one after the other, agree on.

Everything that one survey asks lies within a few seconds, and a neighbour, a hypervisor that moves the core, or a
prefetcher that works only when memory is idle can hold for as long: more repetitions at that time only repeat the
error. So a value counts as measured if at least two surveys, each with references and pages of its own, told it, and
none told another, but for a single accident among four.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import msgspec

from setebench.results import Finding, Outcome

LEAST = 2
"""Surveys that must tell a value."""

OUTVOTED = 3
"""Surveys that must tell a value where one, and no more, told another: an accident, not a matter of time."""

PRESENT = ".present"

Survey = Sequence[Finding]


def agreed(surveys: Sequence[Survey]) -> list[Finding]:
    """One finding per parameter that any of the surveys mentions, in the order of the first mention. Of a prefetcher
    that is not surely there only that is told."""
    found = [_agreed(each) for each in _by_parameter(surveys)]
    unsure = {_owner(each) for each in found if each.parameter.endswith(PRESENT) and each.value is not True}
    return [each for each in found if each.parameter.endswith(PRESENT) or _owner(each) not in unsure]


def _owner(finding: Finding) -> str:
    return finding.parameter.rpartition(".")[0]


def open_questions(surveys: Sequence[Survey]) -> bool:
    """Whether another survey might settle something: a value that was told, but not yet twice, or that one survey
    alone told otherwise."""
    for findings in _by_parameter(surveys):
        told = [finding for finding in findings if finding.value is not None]
        if told and _agreed(findings).value is None and _outliers(told) <= 1:
            return True
    return False


def _outliers(told: list[Finding]) -> int:
    """How many findings must be left out for the others to agree."""
    return next(
        count for count in range(len(told)) if any(_fit(kept) for kept in combinations(told, len(told) - count))
    )


def _fit(told: Sequence[Finding]) -> bool:
    return _conflict(told) is None


def _by_parameter(surveys: Sequence[Survey]) -> list[list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for survey in surveys:
        for finding in survey:
            found.setdefault(finding.parameter, []).append(finding)
    return list(found.values())


def _agreed(findings: list[Finding]) -> Finding:
    """What the surveys say of one parameter together."""
    told = [finding for finding in findings if finding.value is not None]
    if not told:
        return findings[-1]
    conflict = _conflict(told)
    if conflict is not None:
        kept = next((each for each in combinations(told, len(told) - 1) if _fit(each)), ())
        if len(kept) < OUTVOTED:
            return _open(told[0], conflict)
        told = list(kept)
    if len(told) < LEAST:
        doubts = [finding.reason for finding in findings if finding.value is None]
        why = f"at another, {doubts[-1]}" if doubts else "it was not asked again"
        return _open(told[0], f"{_words(told[0])} at one time; {why}")
    limits = [finding for finding in told if finding.outcome is Outcome.AT_LEAST]
    values = [finding for finding in told if finding.outcome is not Outcome.AT_LEAST]
    if len(values) >= LEAST:
        return _widest(values)
    # a limit and a value above it agree on the limit alone
    return min(limits, key=lambda finding: _number(finding))


def _conflict(told: Sequence[Finding]) -> str | None:
    """Why findings can't all be true, or None if they can."""
    values = [finding for finding in told if finding.outcome is not Outcome.AT_LEAST]
    limits = [finding for finding in told if finding.outcome is Outcome.AT_LEAST]
    different = [values[0]] if values else []
    different += [finding for finding in values[1:] if finding.value != values[0].value]
    if values:
        different += [finding for finding in limits if _number(finding) > _highest(values[0])]
    if len(different) < 2:
        return None
    said = ", ".join(dict.fromkeys(_words(finding) for finding in different))
    return f"told differently at different times: {said}; run again when nothing else runs on the machine"


def _words(finding: Finding) -> str:
    return f"at least {finding.value}" if finding.outcome is Outcome.AT_LEAST else str(finding.value)


def _open(finding: Finding, reason: str) -> Finding:
    return Finding(
        parameter=finding.parameter,
        unit=finding.unit,
        outcome=Outcome.UNRESOLVED,
        reason=reason,
        method=finding.method,
        evidence=finding.evidence,
    )


def _widest(values: list[Finding]) -> Finding:
    """A finding with an interval that holds those of all."""
    lows = [finding.low for finding in values if finding.low is not None]
    highs = [finding.high for finding in values if finding.high is not None]
    return msgspec.structs.replace(values[0], low=min(lows, default=None), high=max(highs, default=None))


def _number(finding: Finding) -> float:
    if not isinstance(finding.value, int | float):
        raise TypeError(f"{finding.parameter}: only a number can be a limit, not {finding.value!r}")
    return float(finding.value)


def _highest(finding: Finding) -> float:
    return _number(finding) if finding.high is None else finding.high
