"""What is asked of a run of all scenarios, and its document: steps, evidence by scenario, findings merged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from setebench import registry
from setebench.errors import UsageError
from setebench.results import Document, Finding, Outcome
from setebench.scenario import Scenario

NAME = "characterize"
Kept = TypeVar("Kept")
EVIDENCE_PREFIX = "scenario."


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is asked: which scenarios, in this order, and with which settings. With `msr` prefetchers' registers may
    be written. For `patience` seconds what is still open at the end is asked again."""

    scenarios: tuple[str, ...]
    machine: str = "native"
    seed: int = 1
    cpu: int | None = None
    fast: bool = False
    msr: bool = False
    patience: float = 0.0


def runs_code(machine: str) -> bool:
    """Whether a machine's name is that of a function of any module, `module:factory`: one that a file names is only run
    where the user names it too, because the file may come from anybody."""
    return ":" in machine and not machine.startswith("sim:")


def choose(only: Iterable[str] = (), skip: Iterable[str] = ()) -> tuple[str, ...]:
    """Names of the scenarios to run, in the order that they declare: those in `only`, else all but those on request,
    without those in `skip`. Raises `UsageError` for a name that there is not.

    A scenario of another package that can't be loaded stays in: it fails when its turn comes, and alone."""
    catalogue = registry.catalogue()
    only, skip = list(map(registry.command_name, only)), list(map(registry.command_name, skip))
    unknown = [name for name in (*only, *skip) if name not in catalogue]
    if unknown:
        raise UsageError(f"unknown scenario {unknown[0]!r}; one of {', '.join(catalogue)}")
    known = {name: loadable(name) for name in only or catalogue if name not in skip}
    wanted = [name for name, each in known.items() if only or each is None or not each.on_request]
    if not wanted:
        raise UsageError("no scenario is left to run")
    return tuple(sorted(wanted, key=lambda name: ((known[name] or Scenario).order, name)))


def loadable(name: str) -> Scenario | None:
    """The scenario, None where it can't be loaded: that is reported when its turn comes, as its failure alone."""
    try:
        return registry.catalogue()[name].load()
    except (Exception, SystemExit):  # another author's file may raise anything while it runs
        return None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """How far one scenario got. `reported` are the parameters of its findings, `parameters` the prefixes of all that it
    may report; `reason` says why it failed. It was `asked` so often, which took `elapsed_seconds` altogether.

    Scenarios of one `session`, which an interrupt ends, know what the earlier ones of it found."""

    scenario: str
    state: Literal["pending", "done", "failed"] = "pending"
    reason: str | None = None
    elapsed_seconds: float = 0.0
    reported: list[str] = msgspec.field(name="told", default_factory=list)
    parameters: list[str] = []
    session: int = 1
    asked: int = 1


class Again(msgspec.Struct, frozen=True, kw_only=True):
    """An asking of a scenario but the first, which is `number` 0. It took so many `seconds` of the machine's own clock,
    `answered` these parameters that were open, and says of those `contradicted` what excludes the answers before.
    `reason` says why it failed."""

    scenario: str
    number: int
    seconds: float
    answered: list[str] = []
    contradicted: list[str] = []
    reason: str | None = None
    session: int = 1


class Asking(NamedTuple):
    """One asking of a scenario; the first has number 0."""

    scenario: str
    number: int = 0

    @property
    def name(self) -> str:
        """What its evidence and recording are called."""
        return f"{self.scenario}.again_{self.number}" if self.number else self.scenario


def lost(scenario: str, reason: str, elapsed_seconds: float) -> Step:
    """The step of a scenario that failed without a finding."""
    loaded = loadable(scenario)
    prefixes = list(loaded.parameters) if loaded else []
    return Step(scenario=scenario, state="failed", reason=reason, elapsed_seconds=elapsed_seconds, parameters=prefixes)


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
    return _listed(document, "steps", list[Step]) if document.settings.get("scenario") == NAME else []


def askings_of(document: Document) -> list[Again]:
    """All askings of a characterize document but the first of each scenario, in their order. Raises `UsageError`."""
    return _listed(document, "asked_again", list[Again])


def _listed(document: Document, name: str, kind: type[Kept]) -> Kept:
    try:
        return msgspec.convert(document.evidence.get(name, []), type=kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"its list of {name.replace('_', ' ')} is damaged: {error}") from error


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
