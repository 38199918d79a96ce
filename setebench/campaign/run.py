"""Running scenarios one after the other, on a machine or on what it answered back then."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from setebench import registry, session, store
from setebench.calibration import Calibration
from setebench.campaign.documents import (
    EVIDENCE_PREFIX,
    NAME,
    Again,
    Asking,
    Plan,
    Step,
    askings_of,
    choose,
    evidence_of,
    loadable,
    merged,
    plan_of,
    steps_of,
)
from setebench.campaign.patience import combined, default_patience, next_question, patience_left
from setebench.errors import SetebenchError, UsageError
from setebench.host.caches import reported_caches
from setebench.machine import CountsBusyTime, Machine
from setebench.recording import EVIDENCE_PREFIX as RECORDING_PREFIX
from setebench.recording import recorder_of, recording_of, replay_of
from setebench.results import Document, Finding
from setebench.scenario import Context, Scenario

FAST_PACE = 0.4  # what --fast leaves of a scenario's time, until others have shown it
FIRST_GUESS_SECONDS = 20.0  # declared time that the first guess of the pace counts like


@dataclass(kw_only=True)
class Listener:
    """Who hears of a run: each scenario that begins, what is done next, each finding, each document so far, and each
    failure with its exception."""

    begun: Callable[[str], None] = lambda _scenario: None
    progress: Callable[[str], None] = lambda _message: None
    on_finding: Callable[[Finding], None] = lambda _finding: None
    saved: Callable[[Document], None] = lambda _document: None
    failed: Callable[[str, BaseException], None] = lambda _scenario, _error: None


@dataclass
class State:
    """Everything that a run has so far; what `document` is made of."""

    plan: Plan
    base: Document
    steps: dict[str, Step]
    findings: dict[str, list[Finding]] = field(default_factory=dict)
    evidence: dict[str, dict[str, Any]] = field(default_factory=dict)
    recordings: dict[str, Any] = field(default_factory=dict)
    again: list[Again] = field(default_factory=list)
    session: int = 1

    def next_asking(self, name: str) -> Asking:
        """What the next asking of a scenario is."""
        latest = max((each.number for each in self.again if each.scenario == name), default=0)
        return Asking(name, 0 if self.steps[name].state != "done" else latest + 1)

    def note(self, asking: Asking, step: Step, findings: list[Finding]) -> None:
        """Note what an asking gave; `step` is that of this asking alone."""
        name, before = asking.scenario, self.steps[asking.scenario]
        if not asking.number:
            self.steps[name], self.findings[name] = step, findings
            return
        both = combined(self.findings[name], findings if step.state == "done" else [])
        self.findings[name] = both.findings
        self.steps[name] = msgspec.structs.replace(
            before,
            elapsed_seconds=round(before.elapsed_seconds + step.elapsed_seconds, 3),
            reported=[finding.parameter for finding in both.findings],
            asked=before.asked + 1,
        )
        again = Again(
            scenario=name,
            number=asking.number,
            seconds=step.elapsed_seconds,
            answered=both.answered,
            contradicted=both.contradicted,
            reason=step.reason,
            session=self.session,
        )
        self.again.append(again)

    def document(self) -> Document:
        """The document so far."""
        steps = list(self.steps.values())
        evidence: dict[str, Any] = {"steps": store.plain(steps)}
        evidence |= {"asked_again": store.plain(self.again)} if self.again else {}
        evidence |= {f"{EVIDENCE_PREFIX}{name}": each for name, each in self.evidence.items()}
        evidence |= {f"{RECORDING_PREFIX}{name}": each for name, each in self.recordings.items()}
        ratios = [each["cycles"] for each in self.evidence.values() if "cycles" in each]
        evidence |= {"cycles": ratios[0]} if ratios else {}
        return msgspec.structs.replace(
            self.base,
            elapsed_seconds=round(sum(step.elapsed_seconds for step in steps), 3),
            findings=merged(self.findings[name] for name in self.steps if name in self.findings),
            evidence=evidence,
        )

    def take_over(self, earlier: Document, left_out: Iterable[str]) -> None:
        """What an earlier run has done, and of scenarios that are left out what it has. Raises `UsageError` where it
        was on another machine."""
        was, now = earlier.machine, self.base.machine
        if (was.kind, was.name) != (now.kind, now.name):
            raise UsageError(f"it was begun on another machine, {was.name!r}; this is {now.name!r}")
        done = {step.scenario: step for step in steps_of(earlier) if step.state == "done"}
        done = {name: step for name, step in done.items() if name in self.steps and name not in left_out}
        self.base, self.steps = earlier, self.steps | done
        by_name = {finding.parameter: finding for finding in earlier.findings}
        for name in (*done, *left_out):
            self.findings[name] = [by_name[each] for each in self.steps[name].reported if each in by_name]
        self.again = [each for each in askings_of(earlier) if each.scenario in done]
        self.evidence = {name: each for name, each in evidence_of(earlier).items() if name.partition(".")[0] in done}
        for key, each in earlier.evidence.items():
            name = key.removeprefix(RECORDING_PREFIX)
            if name != key and name.partition(".")[0] in done:
                self.recordings[name] = each
        sessions = [step.session for step in done.values()] + [each.session for each in self.again]
        self.session = 1 + max(sessions, default=0)


def characterize(
    machine: str | Machine = "native",
    *,
    only: Iterable[str] = (),
    skip: Iterable[str] = (),
    seed: int = 1,
    cpu: int | None = None,
    fast: bool = False,
    msr: bool = False,
    patience: float | None = None,
    listener: Listener | None = None,
    raw: bool = False,
) -> Document:
    """Run all scenarios (or `only` some, or all but `skip`) on a machine and return one document.

    For `patience` seconds what is still open at the end is asked again; 0 asks once. With `raw` the document keeps what
    the machine answered. Raises `UsageError` for unknown names; scenarios that fail are listed in the document
    (`steps`)."""
    plan = Plan(
        scenarios=choose(only, skip),
        machine=machine if isinstance(machine, str) else machine.facts.name,
        seed=seed,
        cpu=cpu,
        fast=fast,
        msr=msr,
        patience=default_patience(fast) if patience is None else patience,
    )
    with session.opened(machine, cpu, seed, msr=msr) as open_one:
        return carry_out(plan, open_one, listener or Listener(), raw=raw)


def carry_out(
    plan: Plan,
    machine: Machine,
    listener: Listener,
    earlier: Document | None = None,
    raw: bool = False,
    left_out: Mapping[str, Step] | None = None,
) -> Document:
    """Run the plan on an open machine; with an `earlier` document, what that has not done yet. Scenarios that are
    `left_out` are not run this time: the document has the step that is given for them.

    Raises `UsageError` where `earlier` is of another machine, and whatever `listener` raises."""
    session.check_cpu(machine.facts, plan.cpu)
    if plan.cpu is None:
        plan = replace(plan, cpu=machine.facts.cpu if earlier is None else plan_of(earlier).cpu)
    left_out = left_out or {}
    steps = {name: Step(scenario=name) for name in plan.scenarios} | dict(left_out)
    state = State(plan, _empty(plan, machine), steps)
    if earlier is not None:
        state.take_over(earlier, left_out)
    if left_out:
        listener.saved(state.document())  # how it was lost is known even if this run ends early too
    asked = _Campaign(state, listener, partial(_seconds, machine))
    for number, name in enumerate(plan.scenarios, 1):
        if state.steps[name].state != "done" and name not in left_out:
            begin = time.monotonic()

            def announce(message: str, name: str = name, number: int = number, begin: float = begin) -> None:
                left = remaining_text(seconds_left(state, name, time.monotonic() - begin))
                listener.progress(f"[{number}/{len(plan.scenarios)}] {name}: {message} ({left})")

            asked.ask(name, machine, raw, announce)
    while (again := next_question(state)) is not None:
        asked.ask(
            again, machine, raw, _headed(listener, f"{again}, asked again for at most {patience_left(state):.0f} s")
        )
    return state.document()


def _empty(plan: Plan, machine: Machine) -> Document:
    record = session.machine_record(machine.facts)
    settings = {"scenario": NAME, "options": {}, **{key: getattr(plan, key) for key in Plan.__dataclass_fields__}}
    return Document(
        tool=store.this_tool(),
        machine=record,
        settings=store.plain(settings | session.measured_cpu(record, plan.cpu)),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        elapsed_seconds=0.0,
        findings=[],
        evidence={},
    )


def _seconds(machine: Machine) -> float:
    """The machine's own clock where it has one; else that of the user, as on a simulated machine, of which a second
    costs minutes."""
    busy = machine.busy_time() if isinstance(machine, CountsBusyTime) else None
    return time.monotonic() if busy is None else busy.passed


@dataclass
class _Campaign:
    """Asks scenarios one after the other; each knows what those before it measured of the clock and the levels, and how
    many layouts they drew."""

    state: State
    listener: Listener
    clock: Callable[[], float]
    calibration: Calibration = field(default_factory=Calibration)
    layouts: int = 0

    def ask(self, name: str, machine: Machine, raw: bool, progress: Callable[[str], None]) -> None:
        """Ask a scenario, for the first time or again."""
        asking = self.state.next_asking(name)
        self.listener.begun(name)
        recorder = recorder_of(machine) if raw else None
        if self.take(asking, recorder or machine, progress) and recorder is not None:
            self.state.recordings[asking.name] = store.plain(recorder.recording())
        self.listener.saved(self.state.document())

    def context(self, asking: Asking, machine: Machine, progress: Callable[[str], None]) -> Context:
        """Whoever is asked again draws lines of its own and measures the levels anew: a disturbance of them would
        decide the run."""
        plan, calibration, seed = self.state.plan, self.calibration, self.state.plan.seed
        if asking.number:
            calibration = replace(calibration, levels=None)
            seed = zlib.crc32(f"{seed} {asking.number}".encode())
        return Context(
            machine=machine,
            calibration=calibration,
            layouts=self.layouts,
            seed=seed,
            cpu=plan.cpu,
            fast=plan.fast,
            progress=progress,
        )

    def take(self, asking: Asking, machine: Machine, progress: Callable[[str], None]) -> bool:
        """Run one scenario and note what came of it. Returns whether it went through: what one left half done must not
        mislead the next."""
        begin, process = self.clock(), os.getpid()
        findings: list[Finding] = []
        failure: BaseException | None = None
        scenario: Scenario | None = None
        context = self.context(asking, machine, progress)
        name = asking.scenario
        try:
            scenario = registry.catalogue()[name].load()
            context.options = session.complete_options(scenario, {})
            said = reported_caches(self.state.base.machine.environment)
            for finding in session.beside(scenario.answer(context), said):
                store.plain(finding.value, strict=True)  # a NaN would make the whole document unwritable
                entry = f"{EVIDENCE_PREFIX}{asking.name}"
                entry += f"/{finding.evidence}" if finding.evidence else ""
                findings.append(msgspec.structs.replace(finding, evidence=entry))
                self.listener.on_finding(finding)
            self.state.evidence[asking.name] = store.plain(context.evidence)
            self.calibration, self.layouts = context.calibration, context.layouts
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a scenario does wrong, the others are run
            if os.getpid() != process:  # one that the scenario has begun, and which must not run the others again
                raise
            failure = error
            self.listener.failed(name, error)
        step = Step(
            scenario=name,
            state="failed" if failure else "done",
            reason=reason(failure) if failure else None,
            elapsed_seconds=round(self.clock() - begin, 3),
            reported=[finding.parameter for finding in findings],
            parameters=list(scenario.parameters) if scenario else [],
            session=self.state.session,
        )
        self.state.note(asking, step, findings)
        return failure is None


def infer(document: Document, listener: Listener | None = None) -> Document:
    """What today's inference makes of the answers that a document of characterize keeps; the machine isn't needed.

    Raises `UsageError` where they are not kept. A scenario that asks otherwise today fails, and alone."""
    plan, listener = plan_of(document), listener or Listener()
    turns = _turns(document)
    recordings = {asking: recording_of(document.evidence, asking.name) for asking, _ in turns}
    base = msgspec.structs.replace(document, tool=store.this_tool(), findings=[], evidence={})
    steps = {step.scenario: step for step in steps_of(document)}
    state = State(plan, base, steps | {asking.scenario: Step(scenario=asking.scenario) for asking, _ in turns})
    state.recordings = {asking.name: document.evidence[f"{RECORDING_PREFIX}{asking.name}"] for asking in recordings}
    sessions: dict[int, _Campaign] = {}
    for number, (asking, state.session) in enumerate(turns, 1):
        if asking.number and state.steps[asking.scenario].state != "done":
            continue  # what can't be inferred the first time can't be added to
        asked = sessions.setdefault(state.session, _Campaign(state, listener, time.monotonic))
        replay = replay_of(recordings[asking])  # one at a time: unpacked they may be large
        progress = _headed(listener, f"[{number}/{len(turns)}] {asking.scenario}")
        asked.take(asking, replay, progress)
    return state.document()


def _turns(document: Document) -> list[tuple[Asking, int]]:
    """All askings that went through and the sessions that they belong to, in their order."""
    turns = [(Asking(step.scenario), step.session) for step in steps_of(document) if step.state == "done"]
    turns += [(Asking(each.scenario, each.number), each.session) for each in askings_of(document) if not each.reason]
    return sorted(turns, key=lambda turn: turn[1])


def _headed(listener: Listener, head: str) -> Callable[[str], None]:
    return lambda message: listener.progress(f"{head}: {message}")


def reason(error: BaseException) -> str:
    """Why a scenario failed, in one line."""
    text = " ".join(str(error).split())
    if isinstance(error, SetebenchError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# -- how long it still takes ------------------------------------------------------------------------------------------


def seconds_left(state: State, current: str, spent: float) -> float:
    """About how long the run still takes: what the scenarios declare, at the pace of those that are done.

    One that failed has no pace: it may have ended at once."""
    declared = {name: loaded.seconds if (loaded := loadable(name)) else 0.0 for name in state.steps}
    done = [step for step in state.steps.values() if step.state == "done" and step.scenario != current]
    guess = FAST_PACE if state.plan.fast else 1.0
    measured = guess * FIRST_GUESS_SECONDS + sum(step.elapsed_seconds for step in done)
    pace = measured / (FIRST_GUESS_SECONDS + sum(declared[step.scenario] for step in done))
    waiting = (name for name, step in state.steps.items() if step.state == "pending" and name != current)
    return pace * sum(declared[name] for name in waiting) + max(pace * declared[current] - spent, 0.0)


def remaining_text(seconds: float) -> str:
    """`about 40 s left`, `about 3 min left`."""
    if seconds < 1:
        return "nearly done"
    return f"about {seconds:.0f} s left" if seconds < 100 else f"about {seconds / 60:.0f} min left"
