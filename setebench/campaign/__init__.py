"""All scenarios on one machine, one after the other: what `setebench characterize` runs.

What one scenario measures of the clock and the levels goes to the next (`Context.calibration`); findings and evidence
stay its own. A scenario that fails costs its own rows alone. What is still open at the end is measured again, for as
long as there is patience: a co-runner comes and goes within seconds to minutes. An answer once given stays: of two
answers the more welcome one would be a choice, not a measurement. `series` is about runs of one question in a folder.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

import msgspec

from setebench import registry, session, store
from setebench.calibration import Calibration
from setebench.compare import Agreement, agreement
from setebench.errors import SetebenchError, UsageError
from setebench.machine import CountsBusyTime, Machine
from setebench.recording import EVIDENCE_PREFIX as RECORDING
from setebench.recording import recorder_of, recording_of, replay_of
from setebench.results import Document, Finding, Outcome
from setebench.scenario import Context, Scenario

NAME = "characterize"
EVIDENCE = "scenario."
AGAIN = ".again_"
PATIENCE_SECONDS = 60.0  # of the machine's own clock, for all repeats: a run then ends in five minutes
FRUITLESS = 2  # repeats in a row that may answer nothing: one may fall into the same episode of a co-runner
FAST_PACE = 0.4  # what --fast leaves of a scenario's time, until others have shown it
FIRST_GUESS_SECONDS = 20.0  # declared time that the first guess of the pace counts like
INFORMATION = {Outcome.AT_LEAST: 1, Outcome.ABSENT: 2, Outcome.MEASURED: 2}
"""Which outcome says more than which; the others say nothing."""

Listed = TypeVar("Listed")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is measured: which scenarios, in this order, and with which settings. With `msr` prefetchers' registers may
    be written. For `patience` seconds what is still open at the end is measured again. With `raw` the document keeps
    what the machine answers."""

    scenarios: tuple[str, ...]
    machine: str = "native"
    seed: int = 1
    cpu: int | None = None
    fast: bool = False
    msr: bool = False
    patience: float = 0.0
    raw: bool = False


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """How far one scenario got. `reported` are the parameters of its findings, `parameters` the prefixes of all that it
    may report; `reason` says why it failed. It ran so often (`runs`), which took `elapsed_seconds` altogether.

    Scenarios of one `session`, which an interrupt ends, share what they measured of the clock and the levels."""

    scenario: str
    state: Literal["pending", "done", "failed"] = "pending"
    reason: str | None = None
    elapsed_seconds: float = 0.0
    reported: list[str] = msgspec.field(name="told", default_factory=list)
    parameters: list[str] = []
    session: int = 1
    runs: int = msgspec.field(name="asked", default=1)


class Again(msgspec.Struct, frozen=True, kw_only=True):
    """A repeat of a scenario. It took so many `seconds` of the machine's own clock, `answered` these parameters that
    were open, and says of those `contradicted` what excludes the earlier answers. `reason` says why it failed."""

    scenario: str
    number: int
    seconds: float
    answered: list[str] = []
    contradicted: list[str] = []
    reason: str | None = None
    session: int = 1


def _ignore(*_what: object) -> None:
    """What nobody listens to."""


@dataclass(frozen=True, kw_only=True)
class Listener:
    """What is called during a run: with the name of each scenario that begins and the document so far, with what is
    done next, with each finding, with each document, and with each failure."""

    begun: Callable[[str, Document], None] = _ignore
    progress: Callable[[str], None] = _ignore
    on_finding: Callable[[Finding], None] = _ignore
    saved: Callable[[Document], None] = _ignore
    failed: Callable[[str, BaseException], None] = _ignore


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
    loaded = {name: _loadable(name) for name in only or catalogue if name not in skip}
    wanted = [name for name, each in loaded.items() if only or each is None or not each.on_request]
    if not wanted:
        raise UsageError("no scenario is left to run")
    return tuple(sorted(wanted, key=lambda name: ((loaded[name] or Scenario).order, name)))


def _loadable(name: str) -> Scenario | None:
    try:
        return registry.catalogue()[name].load()
    except (Exception, SystemExit):  # another author's file may raise anything while it runs
        return None


# -- documents --------------------------------------------------------------------------------------------------------


def plan_of(document: Document) -> Plan:
    """The plan that a document of `characterize` was made by. Raises `UsageError` for any other document."""
    if document.settings.get("scenario") != NAME:
        raise UsageError("this is no result of characterize, so there is nothing to go on with")
    try:
        plan: Plan = msgspec.convert(document.settings, type=Plan)
    except msgspec.ValidationError as error:
        raise UsageError(f"its settings are damaged: {error}") from error
    return plan


def steps_of(document: Document) -> list[Step]:
    """How far each scenario of a characterize document got; none for another document. Raises `UsageError`."""
    return _listed(document, "steps", list[Step]) if document.settings.get("scenario") == NAME else []


def repeats_of(document: Document) -> list[Again]:
    """All repeats of scenarios of a characterize document, in their order. Raises `UsageError`."""
    return _listed(document, "asked_again", list[Again])


def _listed(document: Document, name: str, kind: type[Listed]) -> Listed:
    try:
        return msgspec.convert(document.evidence.get(name, []), type=kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"its list of {name.replace('_', ' ')} is damaged: {error}") from error


def evidence_of(document: Document) -> dict[str, dict[str, Any]]:
    """Evidence by scenario, of a characterize document or of one scenario's."""
    if document.settings.get("scenario") != NAME:
        return {str(document.settings.get("scenario", "")): document.evidence}
    return {
        key.removeprefix(EVIDENCE): value
        for key, value in document.evidence.items()
        if key.startswith(EVIDENCE) and isinstance(value, dict)
    }


def with_lost(document: Document, scenario: str, reason: str, seconds: float) -> Document:
    """The document with a scenario that ended its process marked as failed, unless its first run was done."""
    loaded = _loadable(scenario)
    lost = Step(
        scenario=scenario,
        state="failed",
        reason=reason,
        elapsed_seconds=seconds,
        parameters=list(loaded.parameters) if loaded else [],
    )
    steps = [lost if step.scenario == scenario and step.state != "done" else step for step in steps_of(document)]
    return msgspec.structs.replace(document, evidence={**document.evidence, "steps": store.plain(steps)})


def merged(groups: Iterable[list[Finding]]) -> list[Finding]:
    """All findings, each parameter once: one with a value goes before one without, else the first."""
    best: dict[str, Finding] = {}
    for finding in (each for group in groups for each in group):
        earlier = best.get(finding.parameter)
        if earlier is None or (finding.outcome in INFORMATION and earlier.outcome not in INFORMATION):
            best[finding.parameter] = finding
    return list(best.values())


def combined(earlier: Iterable[Finding], again: Iterable[Finding]) -> tuple[list[Finding], list[str], list[str]]:
    """The earlier findings with what a repeat says more, the parameters that it answers, and those that it contradicts.

    Where the two contradict each other in what something is, and not in a number with an interval, they may speak of
    different things: then nothing is taken over that belongs to it (the parameters with the same beginning). A bound
    stays as it is: the largest of several is one that noise has raised."""
    before, later = ({finding.parameter: finding for finding in findings} for findings in (earlier, again))
    contradicted = [name for name, each in later.items() if agreement(before.get(name), each) is Agreement.DIFFERS]
    doubtful = {_subject(name) for name in contradicted if before[name].low is None or before[name].high is None}
    answers = {
        name: finding
        for name, finding in later.items()
        if name not in contradicted and _subject(name) not in doubtful
        if INFORMATION.get(finding.outcome, 0) > (INFORMATION.get(before[name].outcome, 0) if name in before else 0)
    }
    return list((before | answers).values()), list(answers), contradicted


def _subject(parameter: str) -> str:
    return parameter.rpartition(".")[0]


# -- running ----------------------------------------------------------------------------------------------------------


def characterize(
    machine: str | Machine = "native",
    *,
    only: Iterable[str] = (),
    skip: Iterable[str] = (),
    listener: Listener | None = None,
    **settings: Any,
) -> Document:
    """Run all scenarios (or `only` some, or all but `skip`) on a machine and return one document.

    `settings` are those of `Plan`: seed, cpu, fast, msr, raw, and patience (by default a minute, none with fast).
    Raises `UsageError` for unknown names; scenarios that fail are listed in the document (`steps`)."""
    name = machine if isinstance(machine, str) else machine.facts.name
    settings.setdefault("patience", 0.0 if settings.get("fast") else PATIENCE_SECONDS)
    plan = Plan(scenarios=choose(only, skip), machine=name, **settings)
    with session.opened(machine, session.Settings(cpu=plan.cpu, seed=plan.seed, msr=plan.msr)) as open_one:
        return carry_out(plan, open_one, listener or Listener())


def carry_out(
    plan: Plan,
    machine: Machine,
    listener: Listener,
    earlier: Document | None = None,
    skip: Iterable[str] = (),
) -> Document:
    """Run the plan on an open machine; with an `earlier` document, what that has not done yet, without scenarios to
    `skip`, which stay as they are there.

    Raises `UsageError` where `earlier` is of another machine, and whatever `listener` raises."""
    session.check_cpu(machine.facts, plan.cpu)
    if plan.cpu is None:
        plan = replace(plan, cpu=machine.facts.cpu if earlier is None else plan_of(earlier).cpu)
    run = _Run(plan, _empty(plan, machine), listener, {name: Step(scenario=name) for name in plan.scenarios})
    run.clock = lambda: _seconds(machine)
    if earlier is not None:
        run.take_over(earlier, set(skip))
    for number, name in enumerate(plan.scenarios, 1):
        if run.steps[name].state == "done" or name in skip:
            continue

        def announce(message: str, head: str = f"[{number}/{len(plan.scenarios)}] {name}", name: str = name) -> None:
            listener.progress(f"{head}: {message} ({_remaining(run, name)})")

        run.measure(name, 0, machine, announce)
    while (again := run.next_repeat()) is not None:
        head = f"{again}, measured again for at most {run.patience_left():.0f} s"
        number = 1 + max((each.number for each in run.again if each.scenario == again), default=0)
        run.measure(again, number, machine, _headed(listener, head))
    return run.document()


def _empty(plan: Plan, machine: Machine) -> Document:
    record = session.machine_record(machine.facts)
    settings = {"scenario": NAME, "options": {}, **{key: getattr(plan, key) for key in Plan.__dataclass_fields__}}
    del settings["raw"]
    return Document(
        tool=store.this_tool(),
        machine=record,
        settings=store.plain(settings | session.measured_cpu(record, plan.cpu)),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        elapsed_seconds=0.0,
        findings=[],
        evidence={},
    )


@dataclass
class _Run:
    """Everything that a run has so far; `document` makes a document of it. Each scenario gets what those before it in
    the session measured of the clock and the levels, and how many layouts they drew."""

    plan: Plan
    base: Document
    listener: Listener
    steps: dict[str, Step]
    findings: dict[str, list[Finding]] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)
    again: list[Again] = field(default_factory=list)
    session: int = 1
    calibration: Calibration = field(default_factory=Calibration)
    layouts: int = 0
    clock: Callable[[], float] = time.monotonic
    begun: float = 0.0

    def take_over(self, earlier: Document, skip: set[str]) -> None:
        """Take what an earlier run has done, and of scenarios to skip what it has. Raises `UsageError` where it was on
        another machine."""
        was, now = earlier.machine, self.base.machine
        if (was.kind, was.name) != (now.kind, now.name):
            raise UsageError(f"it was begun on another machine, {was.name!r}; this is {now.name!r}")
        steps = {step.scenario: step for step in steps_of(earlier) if step.scenario in self.steps}
        done = {name for name, step in steps.items() if step.state == "done"}
        self.base, self.steps = earlier, self.steps | {name: steps[name] for name in steps if name in done | skip}
        by_name = {finding.parameter: finding for finding in earlier.findings}
        for name in done | skip & set(steps):
            self.findings[name] = [by_name[each] for each in steps[name].reported if each in by_name]
        self.again = [each for each in repeats_of(earlier) if each.scenario in done]
        prefixes = tuple(f"{kind}{name}" for kind in (EVIDENCE, RECORDING) for name in done)
        self.evidence = {key: each for key, each in earlier.evidence.items() if key.partition(AGAIN)[0] in prefixes}
        sessions = [steps[name].session for name in done] + [each.session for each in self.again]
        self.session = 1 + max(sessions, default=0)

    def document(self) -> Document:
        """The document so far."""
        steps = list(self.steps.values())
        lists: dict[str, Any] = {"steps": store.plain(steps)}
        lists |= {"asked_again": store.plain(self.again)} if self.again else {}
        ratios = [
            each["cycles"] for key, each in self.evidence.items() if key.startswith(EVIDENCE) and "cycles" in each
        ]
        lists |= {"cycles": ratios[0]} if ratios else {}
        return msgspec.structs.replace(
            self.base,
            elapsed_seconds=round(sum(step.elapsed_seconds for step in steps), 3),
            findings=merged(self.findings[name] for name in self.steps if name in self.findings),
            evidence=lists | self.evidence,
        )

    def measure(self, name: str, number: int, machine: Machine, progress: Callable[[str], None]) -> None:
        """Run a scenario, for the first time (`number` 0) or again, on a machine or on what it answered, and note what
        came of it. What one leaves half done doesn't reach the next."""
        self.listener.begun(name, self.document())
        key = _key(name, number)
        recorder = recorder_of(machine) if self.plan.raw else None
        context = self._context(number, recorder or machine, progress)
        begin, process, self.begun = self.clock(), os.getpid(), time.monotonic()
        findings: list[Finding] = []
        failure: BaseException | None = None
        scenario: Scenario | None = None
        try:
            scenario = registry.catalogue()[name].load()
            context.options = session.complete_options(scenario, {})
            for finding in session.answers(scenario, context, self.base.machine.environment):
                store.plain(finding.value, strict=True)  # a NaN would make the whole document unwritable
                place = f"{EVIDENCE}{key}" + (f"/{finding.evidence}" if finding.evidence else "")
                findings.append(msgspec.structs.replace(finding, evidence=place))
                self.listener.on_finding(finding)
            self.evidence[f"{EVIDENCE}{key}"] = store.plain(context.evidence)
            self.calibration, self.layouts = context.calibration, context.layouts
            if recorder is not None:
                self.evidence[f"{RECORDING}{key}"] = store.plain(recorder.recording())
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
            session=self.session,
        )
        self._note(number, step, findings)
        self.listener.saved(self.document())

    def _context(self, number: int, machine: Machine, progress: Callable[[str], None]) -> Context:
        """A repeat draws lines of its own and measures the levels anew: a disturbance of them would decide the run."""
        plan, calibration, seed = self.plan, self.calibration, self.plan.seed
        if number:
            calibration = replace(calibration, levels=None)
            seed = zlib.crc32(f"{seed} {number}".encode())
        context = Context(machine=machine, seed=seed, cpu=plan.cpu, fast=plan.fast, progress=progress)
        context.calibration, context.layouts = calibration, self.layouts
        return context

    def _note(self, number: int, step: Step, findings: list[Finding]) -> None:
        name, before = step.scenario, self.steps[step.scenario]
        if not number:
            self.steps[name], self.findings[name] = step, findings
            return
        both, answered, contradicted = combined(self.findings[name], findings if step.state == "done" else [])
        self.findings[name] = both
        self.steps[name] = msgspec.structs.replace(
            before,
            elapsed_seconds=round(before.elapsed_seconds + step.elapsed_seconds, 3),
            reported=[finding.parameter for finding in both],
            runs=before.runs + 1,
        )
        repeat = Again(scenario=name, number=number, seconds=step.elapsed_seconds, session=self.session)
        more = {"answered": answered, "contradicted": contradicted, "reason": step.reason}
        self.again.append(msgspec.structs.replace(repeat, **more))

    def patience_left(self) -> float:
        """Seconds."""
        return self.plan.patience - sum(each.seconds for each in self.again if each.session == self.session)

    def next_repeat(self) -> str | None:
        """The scenario to measure again: of those with something open that there is patience for, the one that was
        repeated least often, and of these the cheapest. None where there is none."""
        missing = {each.parameter for each in merged(self.findings.values()) if each.outcome is Outcome.UNRESOLVED}
        costs: dict[str, tuple[int, float]] = {}
        for name, step in self.steps.items():
            again = [each for each in self.again if each.scenario == name and each.session == self.session]
            latest, cost = again[-FRUITLESS:], step.elapsed_seconds / step.runs
            hopeless = any(each.reason for each in again) or (
                len(latest) == FRUITLESS and not any(each.answered for each in latest)
            )
            own = {each.parameter for each in self.findings.get(name, []) if each.outcome is Outcome.UNRESOLVED}
            if step.state == "done" and own & missing and cost <= self.patience_left() > 0 and not hopeless:
                costs[name] = (len(again), cost)
        return min(costs, key=lambda name: costs[name], default=None)


def _key(scenario: str, number: int) -> str:
    """What a run's evidence and recording are called."""
    return f"{scenario}{AGAIN}{number}" if number else scenario


def _seconds(machine: Machine) -> float:
    """The machine's own clock where it has one; else that of the user, as on a simulated machine, of which a second
    costs minutes."""
    busy = machine.busy_time() if isinstance(machine, CountsBusyTime) else None
    return time.monotonic() if busy is None else busy.passed


def infer(document: Document, listener: Listener | None = None) -> Document:
    """What today's inference makes of the answers that a document of characterize keeps; the machine isn't needed.

    Raises `UsageError` where they are not kept. A scenario that measures otherwise today fails, and alone."""
    plan, listener = plan_of(document), listener or Listener()
    turns = [(step.scenario, 0, step.session) for step in steps_of(document) if step.state == "done"]
    turns += [(each.scenario, each.number, each.session) for each in repeats_of(document) if not each.reason]
    turns.sort(key=lambda turn: turn[2])
    keys = [_key(name, number) for name, number, _ in turns]
    recordings = [recording_of(document.evidence, key) for key in keys]
    base = msgspec.structs.replace(document, tool=store.this_tool(), findings=[], evidence={})
    steps = {step.scenario: step for step in steps_of(document)}
    run = _Run(plan, base, listener, steps | {name: Step(scenario=name) for name, _, _ in turns})
    for place, (name, number, session_number) in enumerate(turns):
        if session_number != run.session:
            run.session, run.calibration, run.layouts = session_number, Calibration(), 0
        if number and run.steps[name].state != "done":
            continue  # what can't be inferred the first time can't be added to
        replay = replay_of(recordings[place])  # one at a time: unpacked they may be large
        run.measure(name, number, replay, _headed(listener, f"[{place + 1}/{len(turns)}] {name}"))
    run.evidence |= {f"{RECORDING}{key}": document.evidence[f"{RECORDING}{key}"] for key in keys}
    return run.document()


def _headed(listener: Listener, head: str) -> Callable[[str], None]:
    return lambda message: listener.progress(f"{head}: {message}")


def reason(error: BaseException) -> str:
    """Why a scenario failed, in one line."""
    text = " ".join(str(error).split())
    if isinstance(error, SetebenchError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _remaining(run: _Run, current: str) -> str:
    """About how long the run still takes: what the scenarios declare, at the pace of those that are done."""
    declared = {name: each.seconds for name in run.steps if (each := _loadable(name))}
    done = [step for step in run.steps.values() if step.state == "done" and step.scenario in declared]
    expected = FIRST_GUESS_SECONDS + sum(declared[step.scenario] for step in done)
    guess = FIRST_GUESS_SECONDS * (FAST_PACE if run.plan.fast else 1.0)
    pace = (guess + sum(step.elapsed_seconds for step in done)) / expected
    waiting = sum(declared.get(name, 0.0) for name, step in run.steps.items() if step.state == "pending")
    seconds = pace * waiting - min(pace * declared.get(current, 0.0), time.monotonic() - run.begun)
    if seconds < 1:
        return "nearly done"
    return f"about {seconds:.0f} s left" if seconds < 100 else f"about {seconds / 60:.0f} min left"
