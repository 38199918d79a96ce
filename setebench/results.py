"""Findings and result documents: what a scenario says, and the file it is kept in (schema 1)."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

SCHEMA = 1
Value = float | int | bool | str | list[Any] | None


class Outcome(StrEnum):
    """How a question ended. A reason is required for the last two."""

    MEASURED = "measured"
    AT_LEAST = "at_least"
    ABSENT = "absent"
    UNRESOLVED = "unresolved"
    UNAVAILABLE = "unavailable"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of the machine, as inferred.

    `value` is None unless the outcome is measured, at_least or absent; `low` and `high` bound numbers at 95 %.
    `evidence` names the entry of the document's evidence that stands behind it. `method_version` is that of its
    question's method (`Scenario.method_version`), 0 where the file doesn't say.
    """

    parameter: str
    value: Value = None
    unit: str = ""
    low: float | None = None
    high: float | None = None
    outcome: Outcome = Outcome.MEASURED
    reason: str | None = None
    method: str = ""
    evidence: str = ""
    method_version: int = 0

    def __post_init__(self) -> None:
        has_value = self.outcome in (Outcome.MEASURED, Outcome.AT_LEAST, Outcome.ABSENT)
        if has_value != (self.value is not None):
            raise ValueError(f"{self.parameter}: outcome {self.outcome} with value {self.value!r}")
        if not has_value and not self.reason:
            raise ValueError(f"{self.parameter}: outcome {self.outcome} needs a reason")

    @property
    def number(self) -> float | None:
        """The value where that is a number, else None."""
        return self.value if isinstance(self.value, (int, float)) and not isinstance(self.value, bool) else None


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """What wrote the document."""

    name: str
    version: str


class MachineRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The machine that was measured; `facts` and `environment` are for people and for comparing."""

    kind: str
    name: str
    facts: dict[str, Any]
    environment: dict[str, Any]


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A result file: one run of one scenario (or several) on one machine. Field meanings: docs/parameters.md."""

    schema: int = SCHEMA
    tool: Tool
    machine: MachineRecord
    settings: dict[str, Any]
    started: str
    elapsed_seconds: float
    findings: list[Finding]
    evidence: dict[str, Any]

    def __getitem__(self, parameter: str) -> Finding:
        """The finding of that parameter. Raises KeyError."""
        for finding in self.findings:
            if finding.parameter == parameter:
                return finding
        raise KeyError(parameter)

    def __contains__(self, parameter: object) -> bool:
        return any(finding.parameter == parameter for finding in self.findings)
