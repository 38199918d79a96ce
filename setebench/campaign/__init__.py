"""All scenarios on one machine, one after the other: what `setebench characterize` runs.

What one scenario measures of the clock and the levels goes to the next (`session.Shared`); findings and evidence stay
its own. A scenario that fails costs its own rows alone. `series` is about runs of one question in a folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import msgspec

from setebench import registry, session, store
from setebench.errors import SetebenchError, UsageError, reason
from setebench.machine import Machine
from setebench.recording import EVIDENCE_PREFIX as RECORDING
from setebench.recording import recording_of
from setebench.results import Document, Finding, Outcome
from setebench.scenario import Scenario
from setebench.session import Settings, Shared, ignore

NAME = "characterize"
EVIDENCE = "scenario."
FAST_PACE = 0.4  # what --fast leaves of a scenario's time, of which only the estimate of the time left knows
_VALUES = (Outcome.MEASURED, Outcome.AT_LEAST, Outcome.ABSENT)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured: which scenarios, in this order, and with which settings. With `msr` prefetchers' registers may
    be written."""

    scenarios: tuple[str, ...]
    machine: str = "native"
    seed: int = 1
    cpu: int | None = None
    fast: bool = False
    msr: bool = False


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """How far one scenario got. `reported` are the parameters of its findings, `parameters` the prefixes of all that it
    may report; `reason` says why it failed.

    Scenarios of one `session`, which an interrupt ends, share what they measured of the clock and the levels."""

    scenario: str
    state: Literal["pending", "done", "failed"] = "pending"
    reason: str | None = None
    elapsed_seconds: float = 0.0
    reported: list[str] = msgspec.field(name="told", default_factory=list)
    parameters: list[str] = []
    session: int = 1


@dataclass(frozen=True, kw_only=True)
class Listener:
    """What is called during a run: with what is done next, with each document, and with each failure."""

    progress: Callable[[str], None] = ignore
    saved: Callable[[Document], None] = ignore
    failed: Callable[[str, BaseException], None] = lambda _name, _error: None


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
        return registry.scenario(name)
    except SetebenchError:
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
        key.removeprefix(EVIDENCE): value
        for key, value in document.evidence.items()
        if key.startswith(EVIDENCE) and isinstance(value, dict)
    }


def merged(groups: Iterable[list[Finding]]) -> list[Finding]:
    """All findings, each parameter once: one with a value goes before one without, else the first."""
    best: dict[str, Finding] = {}
    for finding in (each for group in groups for each in group):
        earlier = best.get(finding.parameter)
        if earlier is None or (finding.outcome in _VALUES and earlier.outcome not in _VALUES):
            best[finding.parameter] = finding
    return list(best.values())


# -- running ----------------------------------------------------------------------------------------------------------


def characterize(
    machine: str | Machine = "native",
    *,
    only: Iterable[str] = (),
    skip: Iterable[str] = (),
    listener: Listener | None = None,
    raw: bool = False,
    **settings: Any,
) -> Document:
    """Run all scenarios (or `only` some, or all but `skip`) on a machine and return one document.

    `settings` are those of `Plan`: seed, cpu, fast, msr; with `raw` the document keeps what the machine answers. Raises
    `UsageError` for unknown names; scenarios that fail are listed in the document (`steps`)."""
    name = machine if isinstance(machine, str) else machine.facts.name
    plan = Plan(scenarios=choose(only, skip), machine=name, **settings)
    with session.opened(machine, Settings(cpu=plan.cpu, seed=plan.seed, msr=plan.msr)) as open_one:
        return carry_out(begun(plan, open_one), open_one, listener or Listener(), raw)


def begun(plan: Plan, machine: Machine) -> Document:
    """The document of a run in which no scenario has had its turn."""
    session.check_cpu(machine.facts, plan.cpu)
    named = {"scenario": NAME, "options": {}, **msgspec.structs.asdict(plan)}
    document = session.begun(machine, named, Settings(seed=plan.seed, cpu=plan.cpu, fast=plan.fast))
    return _with(document, [Step(scenario=name) for name in plan.scenarios])


def carry_out(
    document: Document, machine: Machine, listener: Listener, raw: bool = False, skip: Collection[str] = ()
) -> Document:
    """Run on an open machine what the document says is not done, without scenarios to `skip`.

    Raises `UsageError` where the document is of another machine, and whatever `listener` raises."""
    was, now = document.machine, machine.facts
    if (was.kind, was.name) != (now.kind, now.name):
        raise UsageError(f"it was begun on another machine, {was.name!r}; this is {now.name!r}")
    known = {step.scenario: step for step in steps_of(document)}
    steps = [known.get(name, Step(scenario=name)) for name in plan_of(document).scenarios]
    stay = {name for step in steps if step.state == "done" or step.scenario in skip for name in step.reported}
    findings = [finding for finding in document.findings if finding.parameter in stay]
    document = _with(msgspec.structs.replace(document, findings=findings), steps)
    shared, number = Shared(), 1 + max((step.session for step in steps if step.state == "done"), default=0)

    def measure(part: Document, how: Settings) -> Document:
        return session.answered(part, registry.scenario(str(part.settings["scenario"])), machine, how, shared)

    for place, step in enumerate(steps):
        if step.state == "done" or step.scenario in skip:
            continue
        head, left = f"[{place + 1}/{len(steps)}] {step.scenario}", _left(steps[place:], document)
        how = Settings(raw=raw, progress=_headed(listener, head, left))
        document = _taken(document, Step(scenario=step.scenario, session=number), measure, how, listener)
        listener.saved(document)
    return document


def infer(document: Document, listener: Listener | None = None) -> Document:
    """What today's inference makes of the answers that a document of characterize keeps; the machine isn't needed.

    Raises `UsageError` where they are not kept. A scenario that measures otherwise today fails, and alone."""
    plan_of(document)
    steps, listener = steps_of(document), listener or Listener()
    done = sorted((step for step in steps if step.state == "done"), key=lambda step: step.session)
    kept = {f"{RECORDING}{step.scenario}": recording_of(document.evidence, step.scenario) for step in done}
    left = [Step(scenario=step.scenario) if step in done else step for step in steps]
    bare = msgspec.structs.replace(document, tool=store.this_tool(), findings=[], evidence=store.plain(kept))
    made, shared, number = _with(bare, left), Shared(), 1
    for place, step in enumerate(done, 1):
        if step.session != number:
            shared, number = Shared(), step.session
        how = Settings(progress=_headed(listener, f"[{place}/{len(done)}] {step.scenario}"))
        again = Step(scenario=step.scenario, session=number)
        made = _taken(made, again, partial(session.infer, shared=shared), how, listener)
    return made


def _taken(
    document: Document, step: Step, ask: Callable[[Document, Settings], Document], how: Settings, listener: Listener
) -> Document:
    """The document with what came of a scenario's turn, also where it failed. `ask` makes it of the document of that
    scenario alone."""
    name, begin = step.scenario, time.monotonic()
    findings: list[Finding] = []
    evidence: dict[str, Any] = {}
    failure: BaseException | None = None
    scenario = _loadable(name)
    alone = {**document.settings, "scenario": name, "options": {}}
    try:
        part = msgspec.structs.replace(document, settings=alone, findings=[])
        made = ask(part, replace(how, on_finding=findings.append)).evidence
        kept = [made.pop(key) for key in list(made) if key.startswith(RECORDING)]
        evidence = {f"{EVIDENCE}{name}": made, **{f"{RECORDING}{name}": each for each in kept}}
    except (Exception, SystemExit) as error:  # whatever a scenario does wrong, the others are run
        failure = error
        listener.failed(name, error)
    taken = msgspec.structs.replace(
        step,
        state="failed" if failure else "done",
        reason=reason(failure) if failure else None,
        elapsed_seconds=round(time.monotonic() - begin, 3),
        reported=[finding.parameter for finding in findings],
        parameters=list(scenario.parameters) if scenario else [],
    )
    steps = [taken if each.scenario == name else each for each in steps_of(document)]
    return _with(document, steps, [_placed(finding, name) for finding in findings], evidence)


def _placed(finding: Finding, scenario: str) -> Finding:
    place = f"{EVIDENCE}{scenario}" + (f"/{finding.evidence}" if finding.evidence else "")
    return msgspec.structs.replace(finding, evidence=place)


def _with(
    document: Document, steps: list[Step], findings: Sequence[Finding] = (), evidence: Mapping[str, Any] | None = None
) -> Document:
    """The document with these steps, and with findings and evidence added."""
    made = msgspec.structs.replace(
        document,
        elapsed_seconds=round(sum(step.elapsed_seconds for step in steps), 3),
        findings=merged([document.findings, list(findings)]),
        evidence={**document.evidence, **(evidence or {}), "steps": store.plain(steps)},
    )
    cycles = [each["cycles"] for each in evidence_of(made).values() if "cycles" in each]
    made.evidence.update([("cycles", each) for each in cycles[:1]])
    return made


def _headed(listener: Listener, head: str, left: str = "") -> Callable[[str], None]:
    return lambda message: listener.progress(f"{head}: {message}{left}")


def _left(steps: Sequence[Step], document: Document) -> str:
    """About how long these scenarios take, by what they declare."""
    loaded = [_loadable(step.scenario) for step in steps if step.state != "done"]
    seconds = sum(each.seconds for each in loaded if each) * (FAST_PACE if document.settings.get("fast") else 1.0)
    return f" (about {seconds:.0f} s left)" if seconds < 100 else f" (about {seconds / 60:.0f} min left)"
