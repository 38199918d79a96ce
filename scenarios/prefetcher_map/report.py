"""Findings about one prefetcher, and what several surveys of a machine agree on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

import msgspec

from setebench.results import Finding, Outcome, Value

UNITS = {
    "trigger": "accesses",
    "trigger_by_l1_prefetcher": "accesses",
    **dict.fromkeys(("trigger_at_page_edge", "trained_by", "ip_bits", "lead", "lead_after_runs"), "list"),
    **dict.fromkeys(("patterns", "stopped_by"), "list"),
    **dict.fromkeys(("degree", "max_distance"), "lines"),
    **dict.fromkeys(("directions", "replacement", "indexed_by", "fills", "leads_by"), "string"),
    **dict.fromkeys(("streams", "streams_per_page"), "streams"),
    **dict.fromkeys(("min_stride", "max_stride", "region_size"), "bytes"),
}
"""All others are truth values."""

UNCLEAR = "some lines were there in some repetitions only; run again at a quieter time"
LEVEL_UNCLEAR = "its level stays unclear; run again without --fast, at a quieter time"
EVIDENCE = "prefetchers"
PRESENT = ".present"


class Report:
    """Findings of one prefetcher, in the order in which they were made."""

    def __init__(self, identity: str) -> None:
        self.identity, self.level = identity, int(identity[1])
        self.findings: list[Finding] = []

    def present(self, value: bool | None, method: str, reason: str) -> bool:
        """Report whether there is one; returns whether there surely is."""
        if value is False:
            self._add("present", value=False, outcome=Outcome.ABSENT, method=method)
        else:
            self.value("present", value, method, reason)
        return value is True

    def value(self, parameter: str, value: Value, method: str, reason: str, within: Sequence[float] = ()) -> None:
        """Report a value, with the interval `within` if any, or, where it is None, why there is none."""
        if value is None:
            self.unresolved(parameter, reason, method)
            return
        low, high = within or (None, None)
        self._add(parameter, value=value, low=low, high=high, method=method, evidence=EVIDENCE)

    def at_least(self, parameter: str, value: int, method: str, reason: str) -> None:
        """No limit was seen up to `value`."""
        bound = {"outcome": Outcome.AT_LEAST, "reason": reason, "method": method, "evidence": EVIDENCE}
        self._add(parameter, value=value, **bound)

    def unresolved(self, parameter: str, reason: str, method: str = "") -> None:
        """Say why there is no value."""
        self._add(parameter, outcome=Outcome.UNRESOLVED, reason=reason, method=method)

    def open(self, parameters: Iterable[str], reason: str, method: str = "") -> None:
        """Say why there is no value of any of these."""
        for parameter in parameters:
            self.unresolved(parameter, reason, method)

    def withdraw(self, reason: str) -> None:
        """Leave every value open but whether there is one."""
        self.findings = [
            each
            if each.value is None or each.parameter.endswith(PRESENT)
            else msgspec.structs.replace(_open(each, reason), evidence="")
            for each in self.findings
        ]

    def _add(self, parameter: str, **fields: object) -> None:
        unit = UNITS.get(parameter, "bool")
        name = f"prefetcher.{self.identity}.{parameter}"
        self.findings.append(Finding(parameter=name, unit=unit, **fields))  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)


# -- agreement -----------------------------------------------------------------------------------------------------
# Everything that one survey asks lies within a few seconds, and a co-runner, a hypervisor that moves the core, or a
# prefetcher that works only when memory is idle can hold for as long: more repetitions in that epoch only repeat the
# error. So a value counts as measured if at least two surveys, each with references and pages of its own, found it, and
# none found another, but for a single accident among four.

Survey = Sequence[Finding]


def agreed(surveys: Sequence[Survey]) -> list[Finding]:
    """One finding per parameter that any of the surveys mentions, in the order of the first mention. Of a prefetcher
    that is not surely there only that is reported."""
    found = [_agreed(each) for each in _by_parameter(surveys)]
    unsure = {owner(each) for each in found if each.parameter.endswith(PRESENT) and each.value is not True}
    return [each for each in found if each.parameter.endswith(PRESENT) or owner(each) not in unsure]


def owner(finding: Finding) -> str:
    """The prefetcher that a finding is about."""
    return finding.parameter.rpartition(".")[0]


def open_questions(surveys: Sequence[Survey]) -> set[str]:
    """The prefetchers of which another survey might settle something: a value that was found, but not yet twice, or
    that one survey alone found otherwise."""
    owners = set()
    for findings in _by_parameter(surveys):
        found = [finding for finding in findings if finding.value is not None]
        if found and _agreed(findings).value is None and len(_consistent(found)) >= len(found) - 1:
            owners.add(owner(found[0]))
    return owners


def _by_parameter(surveys: Sequence[Survey]) -> list[list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for survey in surveys:
        for finding in survey:
            found.setdefault(finding.parameter, []).append(finding)
    return list(found.values())


def _consistent(found: Sequence[Finding]) -> Sequence[Finding]:
    """The most findings that can all be true, the first of such sets."""
    sets = (kept for count in range(len(found), 0, -1) for kept in combinations(found, count))
    return next(kept for kept in sets if _conflict(kept) is None)


def _agreed(findings: list[Finding]) -> Finding:
    """What the surveys say of one parameter together: two must agree, three where one found otherwise."""
    found = [finding for finding in findings if finding.value is not None]
    if not found:
        return findings[-1]
    kept = _consistent(found)
    if len(kept) < len(found) and (len(kept) < len(found) - 1 or len(kept) <= 2):
        return _open(found[0], _conflict(found) or "")
    if len(kept) < 2:
        doubts = [finding.reason for finding in findings if finding.value is None]
        why = f"at another, {doubts[-1]}" if doubts else "it was not asked again"
        return _open(found[0], f"{_words(found[0])} at one time; {why}")
    values = [finding for finding in kept if finding.outcome is not Outcome.AT_LEAST]
    if len(values) > 1:
        lows = [finding.low for finding in values if finding.low is not None]
        highs = [finding.high for finding in values if finding.high is not None]
        return msgspec.structs.replace(values[0], low=min(lows, default=None), high=max(highs, default=None))
    # a limit and a value above it agree on the limit alone
    return min((finding for finding in kept if finding.outcome is Outcome.AT_LEAST), key=_number)


def _conflict(found: Sequence[Finding]) -> str | None:
    """Why findings can't all be true, or None if they can."""
    values = [finding for finding in found if finding.outcome is not Outcome.AT_LEAST]
    limits = [finding for finding in found if finding.outcome is Outcome.AT_LEAST]
    different = values[:1] + [finding for finding in values[1:] if finding.value != values[0].value]
    if values:
        highest = _number(values[0]) if limits and values[0].high is None else values[0].high
        different += [finding for finding in limits if highest is not None and _number(finding) > highest]
    if len(different) < 2:
        return None
    said = ", ".join(dict.fromkeys(_words(finding) for finding in different))
    return f"different at different times: {said}; run again when nothing else runs on the machine"


def _words(finding: Finding) -> str:
    return f"at least {finding.value}" if finding.outcome is Outcome.AT_LEAST else str(finding.value)


def _open(finding: Finding, reason: str) -> Finding:
    return msgspec.structs.replace(finding, value=None, low=None, high=None, outcome=Outcome.UNRESOLVED, reason=reason)


def _number(finding: Finding) -> float:
    if not isinstance(finding.value, int | float):
        raise TypeError(f"{finding.parameter}: only a number can be a limit, not {finding.value!r}")
    return float(finding.value)
