"""What a report opens with: the machine as a picture, what its table is worth, what stands against others' words, what
prefetchers bring, what stayed open, and the summary of the paper. All of it is text; who shows it escapes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from setebench.compare import Agreement, agreement
from setebench.report.opening.answers import Answers
from setebench.report.opening.picture import Box, Map, maps, picture
from setebench.report.opening.tables import Row, summary
from setebench.report.text import interval_text, value_text
from setebench.report.view import merged, published_text, verified
from setebench.results import Document, Finding, Outcome
from setebench.store import part
from setebench.text import shortened

UNVERIFIED = "Not verified on this machine yet: run setebench verify"
LAST = ("bandwidth.", "loaded_latency.", "counter.")
"""Beginnings of what comes last: numbers of kernels and counts, of which one is like the other."""


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """The first page. `open` ends with how many more reasons there are; `maps` are small heat maps."""

    name: str
    picture: list[Box]
    verified: str
    against: list[str]
    maps: list[Map] = []
    open: list[str]
    summary: dict[str, list[Row]]


def opening(document: Document, references: Mapping[str, Document]) -> Opening | None:
    """The first page of a document; None where it holds no machine: latencies and caches both. `references` are what
    others say of it, by who says it: "published for zen5"."""
    answers = Answers(document)
    if not {"latency.l1", "cache.l1.size"} <= answers.findings.keys():
        return None
    return Opening(
        name=processor_name(document),
        picture=picture(answers),
        verified=next(iter(verified(document)), UNVERIFIED),
        against=list(_against(document, references)),
        maps=maps(document),
        open=shortened(_open(document)),
        summary=summary(answers),
    )


def processor_name(document: Document) -> str:
    """What the processor is called, and whose guest it runs in."""
    cpu, hypervisor = (part(document.machine.environment, key) for key in ("cpu", "hypervisor"))
    numbers = [f"{key} {cpu[key]}" for key in ("family", "model") if cpu.get(key) is not None]
    host = hypervisor.get("present") and hypervisor.get("name")
    return ", ".join([document.machine.name, *numbers, *([f"guest of {host}"] if host else [])])


def _against(document: Document, references: Mapping[str, Document]) -> Iterator[str]:
    """One line for each finding that contradicts a reference, or that reached less than half of what one says."""
    for finding in document.findings:
        others = [
            f"{who}: {published_text(stated)}"
            for who, reference in references.items()
            for stated in reference.findings
            if stated.parameter == finding.parameter and _contradicts(finding, stated)
        ]
        if others:
            interval = interval_text(finding) if finding.low != finding.high else ""
            seen = "seen" if finding.outcome is Outcome.AT_LEAST else interval
            yield f"{finding.parameter}: {value_text(finding)} {seen}".rstrip() + f"; {'; '.join(others)}"


def _contradicts(finding: Finding, stated: Finding) -> bool:
    """True if a value contradicts what is stated, or a bound is less than half of it: sizes and numbers of entries come
    in steps of two, so that above the half no step is missing."""
    own, other = finding.number, stated.number
    low = finding.outcome is Outcome.AT_LEAST and own is not None and other is not None and 2 * own < other
    return low or agreement(finding, stated) is Agreement.DIFFERS


def _open(document: Document) -> list[str]:
    """One line for each reason for which findings have no value, what the picture shows first."""
    reasons: dict[str, list[str]] = {}
    for each in merged(document.findings):
        if each.value is None:
            reasons.setdefault(each.reason or "", []).append(each.parameter)
    lines = [f"{', '.join(shortened(names))}: {reason}" for reason, names in reasons.items()]
    return sorted(lines, key=lambda line: line.startswith(LAST) or ".vector" in line)
