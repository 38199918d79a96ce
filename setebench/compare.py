"""Two or more documents side by side: what was set differently, which findings differ, which agree.

Findings are judged by their intervals: two numbers differ where their intervals do not meet. An
`at_least` reaches up without end. What has no value (unresolved, unavailable, or missing) agrees and differs with
nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from setebench.results import Document, Finding, Outcome

ALWAYS = ("machine", "settings.kind_of_core")
"""Settings that are shown also where they agree: whose figures these are."""

REFERENCE = "reference"
"""The machine kind of documents that hold published values."""


class Agreement(StrEnum):
    """How findings of one parameter stand to each other."""

    DIFFERS = "differs"
    OPEN = "open"
    SAME = "same"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter; `findings` has one entry per document, None where it does not mention the parameter."""

    parameter: str
    findings: list[Finding | None]
    agreement: Agreement

    @property
    def method_versions(self) -> set[int]:
        """The versions of the method that the findings state."""
        return {each.method_version for each in self.findings if each is not None} - {0}


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured (`ALWAYS`), or something that is not the same in all documents; None where one lacks it."""

    name: str
    values: list[Any]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Everything: `names` are what the documents are called, the first of them is the baseline."""

    names: list[str]
    settings: list[Setting]
    rows: list[Row]

    def of(self, agreement: Agreement) -> list[Row]:
        """The rows that stand like that."""
        return [row for row in self.rows if row.agreement is agreement]


def compare(documents: Sequence[Document], names: Sequence[str]) -> Comparison:
    """Hold every document against the first. A parameter differs where any does, and is open where none can be held
    against the first."""
    tables = [{finding.parameter: finding for finding in document.findings} for document in documents]
    parameters = dict.fromkeys(parameter for table in tables for parameter in table)
    rows = [_row(parameter, [table.get(parameter) for table in tables]) for parameter in parameters]
    return Comparison(names=list(names), settings=_settings(documents), rows=rows)


def _row(parameter: str, findings: list[Finding | None]) -> Row:
    verdicts = {agreement(findings[0], other) for other in findings[1:]}
    order = (Agreement.DIFFERS, Agreement.SAME, Agreement.OPEN)
    return Row(parameter=parameter, findings=findings, agreement=next(each for each in order if each in verdicts))


# -- one finding against another --------------------------------------------------------------------------------------


def agreement(one: Finding | None, other: Finding | None) -> Agreement:
    """How two findings of one parameter stand to each other."""
    if one is None or other is None or one.value is None or other.value is None:
        return Agreement.OPEN
    if Outcome.ABSENT in (one.outcome, other.outcome):  # the other one may be a nought, or nothing
        same = not any(each.outcome is not Outcome.ABSENT and each.value for each in (one, other))
    elif one.number is not None and other.number is not None:
        (low, high), (other_low, other_high) = reach(one), reach(other)
        same = one.unit == other.unit and _meet(low, other_high) and _meet(other_low, high)
    else:
        same = one.unit == other.unit and _comparable(one.value) == _comparable(other.value)
    return Agreement.SAME if same else Agreement.DIFFERS


def reach(finding: Finding) -> tuple[float, float]:
    """The numbers that a numeric finding allows; without an interval its value alone."""
    ends = [float(end) for end in (finding.low, finding.number, finding.high) if end is not None]
    return min(ends), math.inf if finding.outcome is Outcome.AT_LEAST else max(ends)


def _meet(low: float, high: float) -> bool:
    """Ends that differ by the rounding of floating-point arithmetic are one number: a machine that repeats itself
    exactly yields intervals narrower than that."""
    return low <= high or math.isclose(low, high)


def _comparable(value: Any) -> Any:
    """A list of names is a set; of numbers, the order says something. True is no 1."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return sorted(set(value))
    return type(value) is bool, value


# -- settings ---------------------------------------------------------------------------------------------------------


def _settings(documents: Sequence[Document]) -> list[Setting]:
    """The machines, and what measured documents are not all alike in: version of setebench, and how it was measured."""
    records = [
        {
            "machine": document.machine.name,
            "kind": document.machine.kind,
            "tool": f"{document.tool.name} {document.tool.version}",
            **{f"settings.{name}": value for name, value in document.settings.items()},
        }
        for document in documents
    ]
    measured = [record for record in records if record["kind"] != REFERENCE]
    names = dict.fromkeys(name for record in measured for name in record)
    differing = [name for name in names if len({json.dumps(record.get(name)) for record in measured}) > 1]
    shown = [name for name in names if name in (*ALWAYS, *differing)]
    return [Setting(name=name, values=[record.get(name) for record in records]) for name in shown]
