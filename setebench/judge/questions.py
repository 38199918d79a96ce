"""What a score can't show: parameters that no machine could have got wrong, and such that nobody judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from setebench.results import Finding, Outcome


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """One machine: what was reported of it, what is true of it, and parameters that it has but whose truth isn't
    known."""

    machine: str
    findings: Sequence[Finding]
    truths: Sequence[Finding]
    left_open: frozenset[str] = frozenset()


def constant(answers: Iterable[Answered]) -> list[dict[str, Any]]:
    """Parameters that have one true value on all machines which have them, where two or more do: an answer that is
    written down somewhere would be right of every one. (Not that something is present, where some machines lack it:
    there the same answer is wrong.) By name: `parameter`, `truth`, `machines`."""
    values: dict[str, list[Any]] = {}
    number = 0
    for answer in answers:
        number += 1
        for truth in answer.truths:
            values.setdefault(truth.parameter, []).append((truth.value, truth.low, truth.high))
    return [
        {"parameter": name, "truth": known[0][0], "machines": len(known)}
        for name, known in sorted(values.items())
        if len(known) > 1 and all(each == known[0] for each in known)
        if not (name.endswith(".present") and len(known) < number)
    ]


def never_judged(answers: Sequence[Answered]) -> list[dict[str, Any]]:
    """Parameters that were reported, but of no machine is there a truth to hold them against: `parameter`, `machines`,
    `left_open`, whether the machines say that they have it, and `variant_of`, the judged parameter that it is another
    way to measure (`latency.l1` of `latency.l1.chase`), or None."""
    known = {truth.parameter for answer in answers for truth in answer.truths}
    open_ones = {parameter for answer in answers for parameter in answer.left_open}
    reported = Counter(
        finding.parameter for answer in answers for finding in answer.findings if _claims(finding, known)
    )
    return [
        {
            "parameter": name,
            "machines": machines,
            "left_open": name in open_ones,
            "variant_of": _variant_of(name, known),
        }
        for name, machines in sorted(reported.items())
    ]


def _claims(finding: Finding, known: set[str]) -> bool:
    said = finding.outcome not in (Outcome.UNRESOLVED, Outcome.UNAVAILABLE)
    return said and finding.parameter not in known


def _variant_of(parameter: str, known: set[str]) -> str | None:
    head = parameter.rpartition(".")[0]
    return head if head in known else None
