"""Running scenarios one after the other, on a machine or on what it answered back then."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec

from setebench import registry, session, store
from setebench.calibration import Calibration
from setebench.campaign.documents import EVIDENCE_PREFIX, Asking, Step, askings_of, plan_of, steps_of
from setebench.campaign.patience import clock_of, default_patience, next_question, patience_left
from setebench.campaign.plan import Plan, choose
from setebench.campaign.remaining import announcer
from setebench.campaign.state import State, state_before
from setebench.errors import SetebenchError
from setebench.host.caches import reported_caches
from setebench.machine import Machine
from setebench.recording import EVIDENCE_PREFIX as RECORDING_PREFIX
from setebench.recording import recorder_of, recording_of, replay_of
from setebench.results import Document, Finding
from setebench.scenario import Context, Scenario


@dataclass(kw_only=True)
class Listener:
    """Who hears of a run: each scenario that begins, what is done next, each finding, each document so far, and each
    failure with its exception."""

    begun: Callable[[str], None] = lambda _scenario: None
    progress: Callable[[str], None] = lambda _message: None
    on_finding: Callable[[Finding], None] = lambda _finding: None
    saved: Callable[[Document], None] = lambda _document: None
    failed: Callable[[str, BaseException], None] = lambda _scenario, _error: None


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
    state = state_before(plan, machine, earlier, left_out or {})
    if left_out:
        listener.saved(state.document())  # how it was lost is known even if this run ends early too
    campaign = _Campaign(state, machine, listener, raw)
    for number, name in enumerate(plan.scenarios, 1):
        if state.steps[name].state != "done" and not (left_out and name in left_out):
            head = f"[{number}/{len(plan.scenarios)}] {name}"
            campaign.ask(name, announcer(state, name, head, listener.progress))
    while (again := next_question(state)) is not None:
        head = f"{again}, asked again for at most {patience_left(state):.0f} s"
        campaign.ask(again, partial(_headed, listener.progress, head))
    return state.document()


@dataclass
class _Campaign:
    """Asks scenarios of a machine one after the other; each knows what those before it measured of the clock and the
    levels. Whoever is asked again measures the levels anew: a disturbance of them would decide the run."""

    state: State
    machine: Machine
    listener: Listener
    raw: bool
    calibration: Calibration = field(default_factory=Calibration)
    layouts: int = 0

    def ask(self, name: str, progress: Callable[[str], None]) -> None:
        """Ask a scenario, for the first time or again."""
        asking = self.state.next_asking(name)
        self.listener.begun(name)
        recorder = recorder_of(self.machine) if self.raw else None
        context = Context(
            machine=recorder or self.machine,
            calibration=_known(asking, self.calibration),
            layouts=self.layouts,
            **_settings(self.state.plan, asking, progress),
        )
        if _take(self.state, asking, context, self.listener, clock_of(self.machine)):
            # what a scenario left half done must not mislead the next
            self.calibration, self.layouts = context.calibration, context.layouts
            if recorder is not None:
                self.state.recordings[asking.name] = store.plain(recorder.recording())
        self.listener.saved(self.state.document())


def _known(asking: Asking, calibration: Calibration) -> Calibration:
    """What a scenario is told of answers before its own."""
    return replace(calibration, levels=None) if asking.number else calibration


def infer(document: Document, listener: Listener | None = None) -> Document:
    """What today's inference makes of the answers that a document of characterize keeps; the machine isn't needed.

    Raises `UsageError` where they are not kept. A scenario that asks otherwise today fails, and alone."""
    plan = plan_of(document)
    turns = _turns(document)
    recordings = {asking: recording_of(document.evidence, asking.name) for asking, _ in turns}
    base = msgspec.structs.replace(document, tool=store.this_tool(), findings=[], evidence={})
    steps = {step.scenario: step for step in steps_of(document)}
    steps |= {name: Step(scenario=name) for name, step in steps.items() if step.state == "done"}
    state = State(plan, base, steps, dict.fromkeys(steps, 0.0))
    state.recordings = {asking.name: document.evidence[f"{RECORDING_PREFIX}{asking.name}"] for asking in recordings}
    listener = listener or Listener()
    known: dict[int, tuple[Calibration, int]] = {}
    for number, (asking, state.session) in enumerate(turns, 1):
        if asking.number and state.steps[asking.scenario].state != "done":
            continue  # what can't be inferred the first time can't be added to
        progress = partial(_headed, listener.progress, f"[{number}/{len(turns)}] {asking.scenario}")
        calibration, layouts = known.get(state.session, (Calibration(), 0))
        replay = replay_of(recordings[asking])  # one at a time: unpacked they may be large
        settings = _settings(plan, asking, progress)
        context = Context(machine=replay, calibration=_known(asking, calibration), layouts=layouts, **settings)
        if _take(state, asking, context, listener, time.monotonic):
            known[state.session] = context.calibration, context.layouts
    return state.document()


def _turns(document: Document) -> list[tuple[Asking, int]]:
    """All askings that went through and the sessions that they belong to, in their order."""
    turns = [(Asking(step.scenario), step.session) for step in steps_of(document) if step.state == "done"]
    turns += [(Asking(each.scenario, each.number), each.session) for each in askings_of(document) if not each.reason]
    return sorted(turns, key=lambda turn: turn[1])


def _headed(say: Callable[[str], None], head: str, message: str) -> None:
    say(f"{head}: {message}")


def _settings(plan: Plan, asking: Asking, progress: Callable[[str], None]) -> dict[str, Any]:
    """Of an asking; each draws lines of its own."""
    seed = plan.seed if not asking.number else zlib.crc32(f"{plan.seed} {asking.number}".encode())
    return {"seed": seed, "cpu": plan.cpu, "fast": plan.fast, "progress": progress}


def _take(state: State, asking: Asking, context: Context, listener: Listener, clock: Callable[[], float]) -> bool:
    """Run one scenario and note what came of it. Returns whether it went through."""
    begin, process = clock(), os.getpid()
    findings: list[Finding] = []
    failure: BaseException | None = None
    scenario: Scenario | None = None
    name = asking.scenario
    try:
        scenario = registry.catalogue()[name].load()
        context.options = session.complete_options(scenario, {})
        said = reported_caches(state.base.machine.environment)
        for finding in session.beside(scenario.answer(context), said):
            store.plain(finding.value, strict=True)  # a NaN would make the whole document unwritable
            findings.append(_sourced(finding, asking.name))
            listener.on_finding(finding)
        state.evidence[asking.name] = store.plain(context.evidence)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a scenario does wrong, the others are run
        if os.getpid() != process:  # one that the scenario has begun, and which must not run the others again
            raise
        failure = error
        listener.failed(name, error)
    step = Step(
        scenario=name,
        state="failed" if failure else "done",
        reason=reason(failure) if failure else None,
        elapsed_seconds=round(clock() - begin, 3),
        reported=[finding.parameter for finding in findings],
        parameters=list(scenario.parameters) if scenario else [],
        session=state.session,
    )
    state.note(asking, step, findings)
    return failure is None


def reason(error: BaseException) -> str:
    """Why a scenario failed, in one line."""
    text = " ".join(str(error).split())
    if isinstance(error, SetebenchError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _sourced(finding: Finding, asking: str) -> Finding:
    """The finding with its evidence named as the joint document names it."""
    entry = f"{EVIDENCE_PREFIX}{asking}"
    return msgspec.structs.replace(finding, evidence=f"{entry}/{finding.evidence}" if finding.evidence else entry)
