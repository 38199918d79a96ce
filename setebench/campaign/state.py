"""Everything that a run of all scenarios has so far, and where an earlier one left off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import msgspec

from setebench import session, store
from setebench.campaign.combined import combined
from setebench.campaign.documents import (
    EVIDENCE_PREFIX,
    NAME,
    Again,
    Asking,
    Step,
    askings_of,
    evidence_of,
    merged,
    steps_of,
)
from setebench.campaign.plan import Plan, declared_seconds
from setebench.errors import UsageError
from setebench.machine import Machine
from setebench.recording import EVIDENCE_PREFIX as RECORDING_PREFIX
from setebench.results import Document, Finding


@dataclass
class State:
    """Everything a run has so far; what `document` is made of."""

    plan: Plan
    base: Document
    steps: dict[str, Step]
    seconds: dict[str, float]
    findings: dict[str, list[Finding]] = field(default_factory=dict)
    evidence: dict[str, dict[str, Any]] = field(default_factory=dict)
    recordings: dict[str, Any] = field(default_factory=dict)
    again: list[Again] = field(default_factory=list)
    session: int = 1

    def next_asking(self, name: str) -> Asking:
        """What the next asking of a scenario is."""
        first = self.steps[name].state != "done"
        latest = max((each.number for each in self.again if each.scenario == name), default=0)
        return Asking(name, 0 if first else latest + 1)

    def note(self, asking: Asking, step: Step, findings: list[Finding]) -> None:
        """Note what an asking gave; `step` is that of this asking alone."""
        before = self.steps[asking.scenario]
        if not asking.number:
            self.steps[asking.scenario], self.findings[asking.scenario] = step, findings
            return
        both = combined(self.findings[asking.scenario], findings if step.state == "done" else [])
        self.findings[asking.scenario] = both.findings
        self.steps[asking.scenario] = msgspec.structs.replace(
            before,
            elapsed_seconds=round(before.elapsed_seconds + step.elapsed_seconds, 3),
            reported=[finding.parameter for finding in both.findings],
            asked=before.asked + 1,
        )
        self.again.append(
            Again(
                scenario=asking.scenario,
                number=asking.number,
                seconds=step.elapsed_seconds,
                answered=both.answered,
                contradicted=both.contradicted,
                reason=step.reason,
                session=self.session,
            )
        )

    def document(self) -> Document:
        """The document so far."""
        steps = list(self.steps.values())
        evidence: dict[str, Any] = {"steps": store.plain(steps)}
        evidence |= {"asked_again": store.plain(self.again)} if self.again else {}
        evidence |= {f"{EVIDENCE_PREFIX}{name}": each for name, each in self.evidence.items()}
        evidence |= {f"{RECORDING_PREFIX}{name}": each for name, each in self.recordings.items()}
        ratio = next((each["cycles"] for each in self.evidence.values() if "cycles" in each), None)
        if ratio is not None:
            evidence["cycles"] = ratio
        return msgspec.structs.replace(
            self.base,
            elapsed_seconds=round(sum(step.elapsed_seconds for step in steps), 3),
            findings=merged(self.findings[name] for name in self.steps if name in self.findings),
            evidence=evidence,
        )


def state_before(
    plan: Plan, machine: Machine, earlier: Document | None, left_out: Mapping[str, Step] = MappingProxyType({})
) -> State:
    """The state before the first scenario, with the steps of those that are `left_out` as they are.

    Raises `UsageError` where `earlier` is of another machine."""
    record = session.machine_record(machine.facts)
    steps = {name: Step(scenario=name) for name in plan.scenarios}
    seconds = {name: 0.0 if name in left_out else declared_seconds(name) for name in plan.scenarios}
    if earlier is None:
        settings = {"scenario": NAME, "options": {}, **{key: getattr(plan, key) for key in Plan.__dataclass_fields__}}
        settings |= session.measured_cpu(record, plan.cpu)
        base = Document(
            tool=store.this_tool(),
            machine=record,
            settings=store.plain(settings),
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            elapsed_seconds=0.0,
            findings=[],
            evidence={},
        )
        return State(plan, base, {**steps, **left_out}, seconds)
    if (record.kind, record.name) != (earlier.machine.kind, earlier.machine.name):
        raise UsageError(f"it was begun on another machine, {earlier.machine.name!r}; this is {record.name!r}")
    done = {step.scenario: step for step in steps_of(earlier) if step.state == "done" and step.scenario in steps}
    kept = {**done, **left_out}
    state = State(plan, earlier, steps | kept, seconds)
    by_name = {finding.parameter: finding for finding in earlier.findings}
    state.findings = {name: [by_name[each] for each in step.reported if each in by_name] for name, step in kept.items()}
    state.again = [each for each in askings_of(earlier) if each.scenario in done]
    state.evidence = {name: each for name, each in evidence_of(earlier).items() if name.partition(".")[0] in done}
    recordings = {
        key.removeprefix(RECORDING_PREFIX): each
        for key, each in earlier.evidence.items()
        if key.startswith(RECORDING_PREFIX)
    }
    state.recordings = {name: each for name, each in recordings.items() if name.partition(".")[0] in done}
    sessions = [step.session for step in done.values()] + [each.session for each in state.again]
    state.session = 1 + max(sessions, default=0)
    return state
