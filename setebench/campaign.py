"""All scenarios on one machine, one after the other: what `setebench characterize` runs.

What one scenario finds of the clock and the levels is known to the next (`Context.known`); findings and evidence stay
its own. A scenario that fails costs its own rows alone. After each one the document so far is handed out, so that an
interrupted run can go on from it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from setebench import registry, session, store
from setebench.errors import SetebenchError, UsageError
from setebench.machine import Machine
from setebench.recording import EVIDENCE_PREFIX as RECORDING_PREFIX
from setebench.recording import Recorder, Replay, recording_of
from setebench.results import Document, Finding, Outcome
from setebench.scenario import Context, Scenario

NAME = "characterize"
EVIDENCE_PREFIX = "scenario."
FAST_PACE = 0.4
"""What --fast leaves of a scenario's time, until the first one has shown it."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """How far one scenario got. `told` are the parameters of its findings, `parameters` the prefixes of all that it may
    tell; `reason` says why it failed.

    Scenarios of one `session`, which an interrupt ends, know what the earlier ones of it found."""

    scenario: str
    state: Literal["pending", "done", "failed"] = "pending"
    reason: str | None = None
    elapsed_seconds: float = 0.0
    told: list[str] = []
    parameters: list[str] = []
    session: int = 1


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is asked: which scenarios, in this order, and with which settings. `no_msr` is given to those that have that
    option: no registers of prefetchers are written."""

    scenarios: tuple[str, ...]
    machine: str = "native"
    seed: int = 1
    cpu: int | None = None
    fast: bool = False
    no_msr: bool = False


@dataclass(kw_only=True)
class Listener:
    """Who hears of a run: what is done next, each finding, each document so far, each failure with its exception."""

    progress: Callable[[str], None] = lambda _message: None
    told: Callable[[Finding], None] = lambda _finding: None
    saved: Callable[[Document], None] = lambda _document: None
    failed: Callable[[str, Exception], None] = lambda _scenario, _error: None


def choose(only: Iterable[str] = (), skip: Iterable[str] = ()) -> tuple[str, ...]:
    """Names of the scenarios to run, in the order that they declare. Raises `UsageError` for a name that there is not.

    A scenario of another package that can't be loaded stays in: it fails when its turn comes, and alone."""
    catalogue = registry.catalogue()
    only, skip = list(map(registry.command_name, only)), list(map(registry.command_name, skip))
    unknown = [name for name in (*only, *skip) if name not in catalogue]
    if unknown:
        raise UsageError(f"unknown scenario {unknown[0]!r}; one of {', '.join(catalogue)}")
    wanted = [name for name in catalogue if (not only or name in only) and name not in skip]
    if not wanted:
        raise UsageError("no scenario is left to run")
    return tuple(sorted(wanted, key=lambda name: (_order(name), name)))


def _order(name: str) -> int:
    scenario = _loadable(name)
    return Scenario.order if scenario is None else scenario.order


def _loadable(name: str) -> Scenario | None:
    """The scenario, None where it can't be loaded: that is told when its turn comes, as its failure, and alone."""
    try:
        return registry.catalogue()[name].load()
    except Exception:  # whatever somebody else's file does while it is run
        return None


def characterize(
    machine: str | Machine = "native",
    *,
    only: Iterable[str] = (),
    skip: Iterable[str] = (),
    seed: int = 1,
    cpu: int | None = None,
    fast: bool = False,
    no_msr: bool = False,
    listener: Listener | None = None,
    raw: bool = False,
) -> Document:
    """Run all scenarios (or `only` some, or all but `skip`) on a machine and return one document.

    With `raw` the document keeps what the machine answered. Raises `UsageError` for unknown names; scenarios that fail
    are told in the document (`steps`)."""
    name = machine if isinstance(machine, str) else machine.facts.name
    plan = Plan(scenarios=choose(only, skip), machine=name, seed=seed, cpu=cpu, fast=fast, no_msr=no_msr)
    with session.opened(machine, cpu, seed) as open_one:
        return carry_out(plan, open_one, listener or Listener(), raw=raw)


# -- going on ---------------------------------------------------------------------------------------------------------


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


def infer(document: Document, listener: Listener | None = None) -> Document:
    """What today's inference makes of the answers that a document of characterize keeps; the machine isn't needed.

    Raises `UsageError` where they are not kept. A scenario that asks otherwise today fails, and alone."""
    plan = plan_of(document)
    done = [step for step in steps_of(document) if step.state == "done"]
    replays = {step.scenario: Replay(recording_of(document.evidence, step.scenario)) for step in done}
    base = msgspec.structs.replace(document, tool=store.this_tool(), findings=[], evidence={})
    steps = {step.scenario: step for step in steps_of(document)}
    state = _State(plan, base, steps, dict.fromkeys(steps, 0.0))
    state.recordings = {name: document.evidence[f"{RECORDING_PREFIX}{name}"] for name in replays}
    listener = listener or Listener()
    known: dict[int, dict[str, Any]] = {}
    for step in done:
        state.session = step.session
        own = known.setdefault(step.session, {})
        before = dict(own)
        context = Context(machine=replays[step.scenario], known=own, **_settings(plan, listener.progress))
        if not _take(state, step.scenario, context, listener):
            known[step.session] = before
    return state.document()


# -- running ----------------------------------------------------------------------------------------------------------


@dataclass
class _State:
    """Everything a run has so far; what `document` is made of."""

    plan: Plan
    base: Document
    steps: dict[str, Step]
    seconds: dict[str, float]
    findings: dict[str, list[Finding]] = field(default_factory=dict)
    evidence: dict[str, dict[str, Any]] = field(default_factory=dict)
    recordings: dict[str, Any] = field(default_factory=dict)
    session: int = 1

    def document(self) -> Document:
        """The document so far."""
        steps = list(self.steps.values())
        evidence: dict[str, Any] = {"steps": store.plain(steps)}
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


def merged(groups: Iterable[list[Finding]]) -> list[Finding]:
    """All findings, each parameter once: one that tells something goes before one that does not, else the first."""
    best: dict[str, Finding] = {}
    for finding in (each for group in groups for each in group):
        known = best.get(finding.parameter)
        if known is None or (_tells(finding) and not _tells(known)):
            best[finding.parameter] = finding
    return list(best.values())


def _tells(finding: Finding) -> bool:
    return finding.outcome not in (Outcome.UNRESOLVED, Outcome.UNAVAILABLE)


def carry_out(
    plan: Plan, machine: Machine, listener: Listener, earlier: Document | None = None, raw: bool = False
) -> Document:
    """Run the plan on an open machine; with an `earlier` document, what that has not done yet.

    Raises `UsageError` where `earlier` is of another machine, and whatever `listener` raises."""
    session.check_cpu(machine.facts, plan.cpu)
    state = _begin(plan, machine, earlier)
    known: dict[str, Any] = {}
    for number, name in enumerate(plan.scenarios, 1):
        if state.steps[name].state == "done":
            continue
        told = _announcer(state, name, f"[{number}/{len(plan.scenarios)}] {name}", listener.progress)
        before = dict(known)
        recorder = Recorder(machine) if raw else None
        context = Context(machine=recorder or machine, known=known, **_settings(plan, told))
        if not _take(state, name, context, listener):
            known = before  # what a scenario left half done must not mislead the next
        elif recorder is not None:
            state.recordings[name] = store.plain(recorder.recording())
        listener.saved(state.document())
    return state.document()


def _settings(plan: Plan, progress: Callable[[str], None]) -> dict[str, Any]:
    return {"seed": plan.seed, "cpu": plan.cpu, "fast": plan.fast, "progress": progress}


def _begin(plan: Plan, machine: Machine, earlier: Document | None) -> _State:
    record = session.machine_record(machine.facts)
    steps = {name: Step(scenario=name) for name in plan.scenarios}
    seconds = {name: _declared_seconds(name) for name in plan.scenarios}
    if earlier is None:
        settings = {"scenario": NAME, "options": {}, **{key: getattr(plan, key) for key in Plan.__dataclass_fields__}}
        base = Document(
            tool=store.this_tool(),
            machine=record,
            settings=store.plain(settings),
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            elapsed_seconds=0.0,
            findings=[],
            evidence={},
        )
        return _State(plan, base, steps, seconds)
    if (record.kind, record.name) != (earlier.machine.kind, earlier.machine.name):
        raise UsageError(f"it was begun on another machine, {earlier.machine.name!r}; this is {record.name!r}")
    done = {step.scenario: step for step in steps_of(earlier) if step.state == "done" and step.scenario in steps}
    state = _State(plan, earlier, steps | done, seconds)
    by_name = {finding.parameter: finding for finding in earlier.findings}
    state.findings = {name: [by_name[each] for each in step.told if each in by_name] for name, step in done.items()}
    state.evidence = {name: each for name, each in evidence_of(earlier).items() if name in done}
    recordings = ((name, earlier.evidence.get(f"{RECORDING_PREFIX}{name}")) for name in done)
    state.recordings = {name: each for name, each in recordings if each is not None}
    state.session = 1 + max((step.session for step in done.values()), default=0)
    return state


def _options(plan: Plan, scenario: Scenario) -> dict[str, Any]:
    """The plan's settings that this scenario has an option for."""
    return {"no_msr": plan.no_msr} if any(option.name == "no_msr" for option in scenario.options) else {}


def _take(state: _State, name: str, context: Context, listener: Listener) -> bool:
    """Run one scenario and note what came of it. Returns whether it went through."""
    begin = time.monotonic()
    findings: list[Finding] = []
    failure: Exception | None = None
    scenario: Scenario | None = None
    try:
        scenario = registry.catalogue()[name].load()
        context.options = session.complete_options(scenario, _options(state.plan, scenario))
        for finding in scenario.answer(context):
            store.plain(finding.value, strict=True)  # a NaN would make the whole document unwritable
            findings.append(_sourced(finding, name))
            listener.told(finding)
        state.evidence[name] = store.plain(context.evidence)
    except Exception as error:  # whatever a scenario does wrong, the others are run
        failure = error
        listener.failed(name, error)
    state.findings[name] = findings
    state.steps[name] = Step(
        scenario=name,
        state="failed" if failure else "done",
        reason=reason(failure) if failure else None,
        elapsed_seconds=round(time.monotonic() - begin, 3),
        told=[finding.parameter for finding in findings],
        parameters=list(scenario.parameters) if scenario else [],
        session=state.session,
    )
    return failure is None


def reason(error: Exception) -> str:
    """Why a scenario failed, in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, SetebenchError) else f"{type(error).__name__}: {text}"


def _sourced(finding: Finding, scenario: str) -> Finding:
    """The finding with its evidence named as the joint document names it."""
    entry = f"{EVIDENCE_PREFIX}{scenario}"
    return msgspec.structs.replace(finding, evidence=f"{entry}/{finding.evidence}" if finding.evidence else entry)


def _announcer(state: _State, name: str, head: str, say: Callable[[str], None]) -> Callable[[str], None]:
    begin = time.monotonic()

    def announce(message: str) -> None:
        say(f"{head}: {message} ({remaining_text(seconds_left(state, name, time.monotonic() - begin))})")

    return announce


def seconds_left(state: _State, current: str, spent: float) -> float:
    """About how long the run still takes: what the scenarios declare, at the pace of those that are done."""
    done = [step for step in state.steps.values() if step.state != "pending" and step.scenario != current]
    measured = sum(step.elapsed_seconds for step in done)
    expected = sum(state.seconds[step.scenario] for step in done)
    pace = measured / expected if expected > 0 and measured > 0 else FAST_PACE if state.plan.fast else 1.0
    waiting = (name for name, step in state.steps.items() if step.state == "pending" and name != current)
    later = sum(state.seconds[name] for name in waiting)
    return pace * later + max(pace * state.seconds[current] - spent, 0.0)


def _declared_seconds(name: str) -> float:
    scenario = _loadable(name)
    return 0.0 if scenario is None else scenario.seconds


def remaining_text(seconds: float) -> str:
    """`about 40 s left`, `about 3 min left`."""
    if seconds < 1:
        return "nearly done"
    return f"about {seconds:.0f} s left" if seconds < 100 else f"about {seconds / 60:.0f} min left"
