"""What stands against the words of others, and what stayed open and why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from setebench.compare import Agreement, agreement
from setebench.report.alike import joined
from setebench.report.numbers import interval_text, value_text
from setebench.report.sections import Reference, published_text
from setebench.results import Document, Finding, Outcome

METHODS = (".sete", ".chase")
"""Endings of findings that stand behind another one."""


LESS = ("bandwidth.", "loaded_latency.", "counter.")
"""Beginnings of what comes last: numbers of kernels and counts, of which one is like the other."""


class Open(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters without an answer that share a reason."""

    names: str
    reason: str
    number: int


def against(findings: Iterable[Finding], references: Sequence[Reference]) -> list[str]:
    """One line for each finding that contradicts a reference, or that reached less than half of what one says."""
    lines = []
    for finding in findings:
        words: dict[str, list[str]] = {}
        for reference in references:
            said = next((each for each in reference.document.findings if each.parameter == finding.parameter), None)
            if said is not None and finding.value is not None and _stands_against(finding, said):
                words.setdefault(published_text(said), []).append(_who(reference))
        if words:
            others = "; ".join(f"{' and '.join(who)}: {text}" for text, who in words.items())
            lines.append(f"{finding.parameter}: {_found(finding)}; {others}")
    return lines


def _who(reference: Reference) -> str:
    return f"published for {reference.name}" if reference.complete else "said by the operating system"


def _found(finding: Finding) -> str:
    if finding.outcome is Outcome.AT_LEAST:
        return f"{value_text(finding)} seen"
    return " ".join([value_text(finding), *([interval_text(finding)] if finding.low != finding.high else [])])


def _stands_against(finding: Finding, said: Finding) -> bool:
    """Whether a value contradicts what is said, or a bound is less than half of it: sizes and numbers of entries come
    in steps of two, so that above the half no step is missing."""
    if agreement(finding, said) is Agreement.DIFFERS:
        return True
    match finding.outcome, finding.value, said.value:
        case Outcome.AT_LEAST, int() | float() as bound, int() | float() as whole:
            return 2 * bound < whole
    return False


def open_ones(document: Document) -> list[Open]:
    """Findings without a value, gathered where their reasons say the same but for numbers, what the picture shows
    first; not the two methods behind another finding."""
    groups: dict[str, list[Finding]] = {}
    for finding in document.findings:
        if finding.value is None and not finding.parameter.endswith(METHODS):
            groups.setdefault(_without_numbers(finding.reason or ""), []).append(finding)
    found = [
        Open(names=joined([each.parameter for each in group]), reason=_reason(group), number=len(group))
        for group in groups.values()
    ]
    return sorted(found, key=lambda each: each.names.startswith(LESS) or ".vector" in each.names)


def _reason(group: list[Finding]) -> str:
    """What they all say, and whose numbers it has where they differ in these."""
    reasons = list(dict.fromkeys(finding.reason or "" for finding in group))
    return reasons[0] if len(reasons) == 1 else f"{reasons[0]} (of {group[0].parameter})"


def _without_numbers(reason: str) -> str:
    return re.sub(r"(?<![\w.])-?\d+(\.\d+)?(e[+-]?\d+)?(?!\w)", "…", reason)
