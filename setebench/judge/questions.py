"""What a score can't show: parameters of which a constant would be right, and such that nobody judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from setebench.results import Finding, Outcome

MOST = 0.95
"""Of the machines with a parameter the fraction with the same truth from which on a constant would do."""


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """One machine: what was reported of it, what is true of it, and parameters that it has but whose truth isn't
    known."""

    machine: str
    findings: Sequence[Finding]
    truths: Sequence[Finding]
    left_open: frozenset[str] = frozenset()


def constant(answers: Iterable[Answered]) -> list[dict[str, Any]]:
    """Parameters that have one true value on nearly all machines which have them (`MOST`), where two or more do: an
    answer that is written down somewhere would be right. (Not that something is present, where some machines lack it:
    there the same answer is wrong.) By name: `parameter`, `truth`, `machines`, and `alike`, how many have it so."""
    values: dict[str, list[Finding]] = {}
    number = 0
    for answer in answers:
        number += 1
        for truth in answer.truths:
            values.setdefault(truth.parameter, []).append(truth)
    found = []
    for name, known in sorted(values.items()):
        (same, alike), *_ = Counter(repr((each.value, each.low, each.high)) for each in known).most_common(1)
        usual = next(each.value for each in known if repr((each.value, each.low, each.high)) == same)
        if len(known) > 1 and alike >= MOST * len(known) and not (name.endswith(".present") and len(known) < number):
            found.append({"parameter": name, "truth": usual, "machines": len(known), "alike": alike})
    return found


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
