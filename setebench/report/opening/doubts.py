"""What stands against the words of others, and what stayed open and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from setebench.compare import Agreement, agreement
from setebench.report.alike import listed, merged
from setebench.report.numbers import interval_text, value_text
from setebench.report.sections import Reference, published_text
from setebench.results import Document, Finding, Outcome

LAST = ("bandwidth.", "loaded_latency.", "counter.")
"""Beginnings of what comes last: numbers of kernels and counts, of which one is like the other."""


def against(findings: Iterable[Finding], references: Sequence[Reference]) -> Iterator[str]:
    """One line for each finding that contradicts a reference, or that reached less than half of what one says."""
    for finding in findings:
        others = []
        for reference in references:
            said = next((each for each in reference.document.findings if each.parameter == finding.parameter), None)
            if said is not None and finding.value is not None and _stands_against(finding, said):
                who = f"published for {reference.name}" if reference.complete else "said by the operating system"
                others.append(f"{who}: {published_text(said)}")
        if others:
            seen = " seen" if finding.outcome is Outcome.AT_LEAST else ""
            interval = f" {interval_text(finding)}" if not seen and finding.low != finding.high else ""
            yield f"{finding.parameter}: {value_text(finding)}{seen}{interval}; {'; '.join(others)}"


def _stands_against(finding: Finding, said: Finding) -> bool:
    """True if a value contradicts what is said, or a bound is less than half of it: sizes and numbers of entries come
    in steps of two, so that above the half no step is missing."""
    if agreement(finding, said) is Agreement.DIFFERS:
        return True
    match finding.outcome, finding.value, said.value:
        case Outcome.AT_LEAST, int() | float() as bound, int() | float() as whole:
            return 2 * bound < whole
    return False


def open_ones(document: Document) -> list[str]:
    """One line for each reason for which findings have no value, what the picture shows first."""
    reasons: dict[str, list[str]] = {}
    for each in merged(document.findings):
        if each.value is None:
            reasons.setdefault(each.reason or "", []).append(each.parameter)
    lines = [f"{listed(names)}: {reason}" for reason, names in reasons.items()]
    return sorted(lines, key=lambda line: line.startswith(LAST) or ".vector" in line)
