"""Documents of all scenarios together: steps, evidence by scenario, findings merged, and reading them again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from setebench.campaign.plan import Plan, loadable
from setebench.errors import UsageError
from setebench.results import Document, Finding, Outcome

NAME = "characterize"
EVIDENCE_PREFIX = "scenario."


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """How far one scenario got. `reported` are the parameters of its findings, `parameters` the prefixes of all that it
    may report; `reason` says why it failed.

    Scenarios of one `session`, which an interrupt ends, know what the earlier ones of it found."""

    scenario: str
    state: Literal["pending", "done", "failed"] = "pending"
    reason: str | None = None
    elapsed_seconds: float = 0.0
    reported: list[str] = msgspec.field(name="told", default_factory=list)
    parameters: list[str] = []
    session: int = 1


def lost(scenario: str, reason: str, elapsed_seconds: float) -> Step:
    """The step of a scenario that failed without a finding."""
    loaded = loadable(scenario)
    return Step(
        scenario=scenario,
        state="failed",
        reason=reason,
        elapsed_seconds=elapsed_seconds,
        parameters=list(loaded.parameters) if loaded else [],
    )


def plan_of(document: Document) -> Plan:
    """The plan that a document of `characterize` was made by. Raises `UsageError` for any other document."""
    if document.settings.get("scenario") != NAME:
        raise UsageError("this is no result of characterize, so there is nothing to go on with")
    try:
        wanted = {key: value for key, value in document.settings.items() if key not in ("scenario", "options")}
        plan: Plan = msgspec.convert(wanted, type=Plan)
    except msgspec.ValidationError as error:
        raise UsageError(f"its settings are damaged: {error}") from error
    return plan


def steps_of(document: Document) -> list[Step]:
    """How far each scenario of a characterize document got; none for another document. Raises `UsageError`."""
    if document.settings.get("scenario") != NAME:
        return []
    try:
        return msgspec.convert(document.evidence.get("steps", []), type=list[Step])
    except msgspec.ValidationError as error:
        raise UsageError(f"its list of steps is damaged: {error}") from error


def evidence_of(document: Document) -> dict[str, dict[str, Any]]:
    """Evidence by scenario, of a characterize document or of one scenario's."""
    if document.settings.get("scenario") != NAME:
        return {str(document.settings.get("scenario", "")): document.evidence}
    return {
        key.removeprefix(EVIDENCE_PREFIX): value
        for key, value in document.evidence.items()
        if key.startswith(EVIDENCE_PREFIX) and isinstance(value, dict)
    }


def merged(groups: Iterable[list[Finding]]) -> list[Finding]:
    """All findings, each parameter once: one with a value goes before one without, else the first."""
    best: dict[str, Finding] = {}
    for finding in (each for group in groups for each in group):
        known = best.get(finding.parameter)
        if known is None or (_has_value(finding) and not _has_value(known)):
            best[finding.parameter] = finding
    return list(best.values())


def _has_value(finding: Finding) -> bool:
    return finding.outcome not in (Outcome.UNRESOLVED, Outcome.UNAVAILABLE)
