"""Running scenarios one after the other, on a machine or on what it answered back then."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from setebench import registry, session, store
from setebench.calibration import Calibration
from setebench.campaign.documents import EVIDENCE_PREFIX, Step, plan_of, steps_of
from setebench.campaign.plan import Plan, choose
from setebench.campaign.remaining import announcer
from setebench.campaign.state import State, state_before
from setebench.errors import SetebenchError
from setebench.machine import Machine
from setebench.recording import EVIDENCE_PREFIX as RECORDING_PREFIX
from setebench.recording import Recorder, Replay, recording_of
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
    no_msr: bool = False,
    listener: Listener | None = None,
    raw: bool = False,
) -> Document:
    """Run all scenarios (or `only` some, or all but `skip`) on a machine and return one document.

    With `raw` the document keeps what the machine answered. Raises `UsageError` for unknown names; scenarios that fail
    are listed in the document (`steps`)."""
    name = machine if isinstance(machine, str) else machine.facts.name
    plan = Plan(scenarios=choose(only, skip), machine=name, seed=seed, cpu=cpu, fast=fast, no_msr=no_msr)
    with session.opened(machine, cpu, seed) as open_one:
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
    state = state_before(plan, machine, earlier, left_out or {})
    if left_out:
        listener.saved(state.document())  # how it was lost is known even if this run ends early too
    calibration, layouts = Calibration(), 0
    for number, name in enumerate(plan.scenarios, 1):
        if state.steps[name].state == "done" or (left_out and name in left_out):
            continue
        listener.begun(name)
        announce = announcer(state, name, f"[{number}/{len(plan.scenarios)}] {name}", listener.progress)
        recorder = Recorder(machine) if raw else None
        context = Context(
            machine=recorder or machine, calibration=calibration, layouts=layouts, **_settings(plan, announce)
        )
        if _take(state, name, context, listener):  # what a scenario left half done must not mislead the next
            calibration, layouts = context.calibration, context.layouts
            if recorder is not None:
                state.recordings[name] = store.plain(recorder.recording())
        listener.saved(state.document())
    return state.document()


def infer(document: Document, listener: Listener | None = None) -> Document:
    """What today's inference makes of the answers that a document of characterize keeps; the machine isn't needed.

    Raises `UsageError` where they are not kept. A scenario that asks otherwise today fails, and alone."""
    plan = plan_of(document)
    done = [step for step in steps_of(document) if step.state == "done"]
    recordings = {step.scenario: recording_of(document.evidence, step.scenario) for step in done}
    base = msgspec.structs.replace(document, tool=store.this_tool(), findings=[], evidence={})
    steps = {step.scenario: step for step in steps_of(document)}
    state = State(plan, base, steps, dict.fromkeys(steps, 0.0))
    state.recordings = {name: document.evidence[f"{RECORDING_PREFIX}{name}"] for name in recordings}
    listener = listener or Listener()
    known: dict[int, tuple[Calibration, int]] = {}
    for number, step in enumerate(done, 1):
        state.session = step.session
        progress = partial(_headed, listener.progress, f"[{number}/{len(done)}] {step.scenario}")
        calibration, layouts = known.get(step.session, (Calibration(), 0))
        replay = Replay(recordings[step.scenario])  # one at a time: unpacked they may be large
        context = Context(machine=replay, calibration=calibration, layouts=layouts, **_settings(plan, progress))
        if _take(state, step.scenario, context, listener):
            known[step.session] = context.calibration, context.layouts
    return state.document()


def _headed(say: Callable[[str], None], head: str, message: str) -> None:
    say(f"{head}: {message}")


def _settings(plan: Plan, progress: Callable[[str], None]) -> dict[str, Any]:
    return {"seed": plan.seed, "cpu": plan.cpu, "fast": plan.fast, "progress": progress}


def _take(state: State, name: str, context: Context, listener: Listener) -> bool:
    """Run one scenario and note what came of it. Returns whether it went through."""
    begin, process = time.monotonic(), os.getpid()
    findings: list[Finding] = []
    failure: BaseException | None = None
    scenario: Scenario | None = None
    try:
        scenario = registry.catalogue()[name].load()
        context.options = session.complete_options(scenario, state.plan.options(scenario))
        for finding in scenario.answer(context):
            store.plain(finding.value, strict=True)  # a NaN would make the whole document unwritable
            findings.append(_sourced(finding, name))
            listener.on_finding(finding)
        state.evidence[name] = store.plain(context.evidence)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a scenario does wrong, the others are run
        if os.getpid() != process:  # one that the scenario has begun, and which must not run the others again
            raise
        failure = error
        listener.failed(name, error)
    state.findings[name] = findings
    state.steps[name] = Step(
        scenario=name,
        state="failed" if failure else "done",
        reason=reason(failure) if failure else None,
        elapsed_seconds=round(time.monotonic() - begin, 3),
        reported=[finding.parameter for finding in findings],
        parameters=list(scenario.parameters) if scenario else [],
        session=state.session,
    )
    return failure is None


def reason(error: BaseException) -> str:
    """Why a scenario failed, in one line."""
    text = " ".join(str(error).split())
    if isinstance(error, SetebenchError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _sourced(finding: Finding, scenario: str) -> Finding:
    """The finding with its evidence named as the joint document names it."""
    entry = f"{EVIDENCE_PREFIX}{scenario}"
    return msgspec.structs.replace(finding, evidence=f"{entry}/{finding.evidence}" if finding.evidence else entry)
