"""All scenarios on one machine, one after the other: what `setebench characterize` runs.

What one scenario measures of the clock and the levels goes to the next; findings and evidence stay
its own. A scenario that fails costs its own rows alone. `series` is about runs of one question in a folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

import msgspec

from setebench import registry, session, store
from setebench.errors import SetebenchError, UsageError, reason
from setebench.machine import Machine
from setebench.recording import EVIDENCE_PREFIX as RECORDING
from setebench.recording import recording_of
from setebench.results import Document, Finding
from setebench.scenario import Scenario, ignore
from setebench.session import Settings

NAME = "characterize"
EVIDENCE = "scenario."
Kind = TypeVar("Kind")
Ask = Callable[[Document, Settings, dict[str, Any]], Document]
"""Makes of a document of one scenario, with `Settings` and what scenarios share, one with its findings."""


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
    return _converted(document.settings, Plan)


def steps_of(document: Document) -> list[Step]:
    """How far each scenario of a characterize document got; none for another document. Raises `UsageError`."""
    own = document.settings.get("scenario") == NAME
    return _converted(document.evidence.get("steps", []), list[Step]) if own else []


def _converted(value: Any, kind: type[Kind]) -> Kind:
    try:
        return msgspec.convert(value, type=kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"its settings or steps are damaged: {error}") from error


def evidence_of(document: Document) -> dict[str, dict[str, Any]]:
    """Evidence by scenario, of a characterize document or of one scenario's."""
    if document.settings.get("scenario") != NAME:
        return {str(document.settings.get("scenario", "")): document.evidence}
    named = {key.removeprefix(EVIDENCE): each for key, each in document.evidence.items() if key.startswith(EVIDENCE)}
    return {name: each for name, each in named.items() if isinstance(each, dict)}


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
    document = session.begun(machine, {"scenario": NAME, "options": {}, **msgspec.structs.asdict(plan)})
    return _with(document, [Step(scenario=name) for name in plan.scenarios])


def carry_out(document: Document, machine: Machine, listener: Listener, raw: bool = False) -> Document:
    """Run on an open machine what the document says is not done.

    Raises `UsageError` where the document is of another machine, and whatever `listener` raises."""
    was, now = document.machine, machine.facts
    if (was.kind, was.name) != (now.kind, now.name):
        raise UsageError(f"it was begun on another machine, {was.name!r}; this is {now.name!r}")
    plan, done_before = plan_of(document), {step.scenario: step for step in steps_of(document) if step.state == "done"}
    number = 1 + max((step.session for step in done_before.values()), default=0)
    steps = [done_before.get(name, Step(scenario=name, session=number)) for name in plan.scenarios]
    stay = {name for step in done_before.values() for name in step.reported}
    findings = [finding for finding in document.findings if finding.parameter in stay]
    document = _with(msgspec.structs.replace(document, findings=findings), steps)

    def measure(part: Document, how: Settings, shared: dict[str, Any]) -> Document:
        scenario = registry.scenario(str(part.settings["scenario"]))
        return session.answered(part, scenario, machine, replace(how, raw=raw), shared)

    return _in_turn(document, [step for step in steps if step.scenario not in done_before], measure, listener)


def infer(document: Document, listener: Listener | None = None) -> Document:
    """What today's inference makes of the answers that a document keeps, of characterize or of one scenario; the
    machine isn't needed.

    Raises `UsageError` where they are not kept. A scenario of characterize that measures otherwise today fails, and
    alone."""
    listener = listener or Listener()
    if document.settings.get("scenario") != NAME:
        return session.infer(document, Settings(progress=listener.progress), {})
    steps = steps_of(document)
    done = sorted((step for step in steps if step.state == "done"), key=lambda step: step.session)
    recordings = {f"{RECORDING}{step.scenario}": recording_of(document.evidence, step.scenario) for step in done}
    bare = msgspec.structs.replace(document, tool=store.this_tool(), findings=[], evidence=store.plain(recordings))
    return _in_turn(_with(bare, steps), done, session.infer, listener)


def _in_turn(document: Document, left: Sequence[Step], ask: Ask, listener: Listener) -> Document:
    """The document with what came of these scenarios' turns, also of those that failed. `ask` makes the document of a
    scenario alone."""
    shared: dict[int, dict[str, Any]] = {step.session: {} for step in left}
    for place, step in enumerate(left, 1):
        head, begin, findings = f"[{place}/{len(left)}] {step.scenario}: ", time.monotonic(), list[Finding]()
        say = partial(lambda head, line: listener.progress(head + line), head)
        how = Settings(progress=say, on_finding=findings.append)
        settings = {**document.settings, "scenario": step.scenario, "options": {}}
        part = msgspec.structs.replace(document, settings=settings, findings=[])
        own, evidence, why = f"{EVIDENCE}{step.scenario}", dict[str, Any](), None
        try:
            made = ask(part, how, shared[step.session]).evidence
            evidence = {key: made.pop(key) for key in list(made) if key.startswith(RECORDING)} | {own: made}
        except (Exception, SystemExit) as error:  # whatever a scenario does wrong, the others are run
            why = reason(error)
            listener.failed(step.scenario, error)
        scenario = _loadable(step.scenario)
        taken = Step(
            scenario=step.scenario,
            state="failed" if why else "done",
            reason=why,
            elapsed_seconds=round(time.monotonic() - begin, 3),
            reported=[finding.parameter for finding in findings],
            parameters=list(scenario.parameters) if scenario else [],
            session=step.session,
        )
        steps = [taken if each.scenario == step.scenario else each for each in steps_of(document)]
        placed = [msgspec.structs.replace(each, evidence=f"{own}/{each.evidence}".rstrip("/")) for each in findings]
        document = _with(document, steps, placed, evidence)
        listener.saved(document)
    return document


def _with(
    document: Document, steps: list[Step], findings: Sequence[Finding] = (), evidence: Mapping[str, Any] | None = None
) -> Document:
    """The document with these steps, and with a scenario's findings and evidence added: each parameter once, of which a
    finding with a value goes before one without, else the first."""
    added = {**document.evidence, **(evidence or {}), "steps": store.plain(steps)}
    best = {finding.parameter: finding for finding in document.findings}
    for each in findings:
        if (earlier := best.get(each.parameter)) is None or (earlier.value is None and each.value is not None):
            best[each.parameter] = each
    elapsed = round(sum(step.elapsed_seconds for step in steps), 3)
    made = msgspec.structs.replace(document, elapsed_seconds=elapsed, findings=list(best.values()), evidence=added)
    cycles = [each["cycles"] for each in evidence_of(made).values() if "cycles" in each]
    made.evidence.update([("cycles", each) for each in cycles[:1]])
    return made
