"""Running one scenario as a library: from a machine and a question to a result document.

`run` is what `import setebench` offers and what the command line uses. Nothing is printed and nothing is written here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from setebench import registry, store
from setebench.errors import UsageError
from setebench.host.caches import reported_caches
from setebench.machine import Facts, Machine, open_machine
from setebench.recording import EVIDENCE_PREFIX, recorder_of, recording_of, replay_of
from setebench.results import Document, Finding, MachineRecord, Outcome
from setebench.scenario import Context, Option, Scenario

Listener = Callable[[Any], None]


def _ignore(_what: object) -> None:
    """What nobody listens to."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to measure: `seed`, `cpu` and `fast` as on the command line; `msr` is `open_machine`'s. With `raw` the
    document keeps what the machine answers, for `infer`. `progress` is called with what is done next, `on_finding` with
    each finding as it comes, `noted` with what a machine that is opened here says of itself."""

    seed: int = 1
    cpu: int | None = None
    fast: bool = False
    msr: bool = False
    raw: bool = False
    progress: Listener = _ignore
    on_finding: Listener = _ignore
    noted: Listener = _ignore


def run(scenario: str | Scenario, machine: str | Machine = "native", **settings: Any) -> Document:
    """Run one scenario on a machine and return findings, settings and evidence as a document.

    `scenario` and `machine` are names as on the command line, or objects; a machine given as an object stays open.
    `settings` are those of `Settings`, and the scenario's own options by their names. Raises `UsageError` for unknown
    names and options, and what the machine raises."""
    chosen = registry.scenario(scenario) if isinstance(scenario, str) else scenario
    own = {name: settings.pop(name) for name in set(settings) - set(Settings.__dataclass_fields__)}
    return measure(chosen, machine, own, Settings(**settings))


def measure(scenario: Scenario, machine: str | Machine, options: Mapping[str, Any], settings: Settings) -> Document:
    """`run` with the scenario's own options as a mapping, so that none can clash with the settings."""
    with opened(machine, settings) as open_one:
        check_cpu(open_one.facts, settings.cpu)
        record = machine_record(open_one.facts)
        cpu = open_one.facts.cpu if settings.cpu is None else settings.cpu
        recorder = recorder_of(open_one) if settings.raw else None
        context = Context(
            machine=recorder or open_one,
            seed=settings.seed,
            cpu=cpu,
            fast=settings.fast,
            options=complete_options(scenario, options),
            progress=settings.progress,
        )
        started, begin = datetime.now(UTC), time.monotonic()
        findings = []
        for finding in answers(scenario, context, record.environment):
            findings.append(finding)
            settings.on_finding(finding)
        recordings = {f"{EVIDENCE_PREFIX}{scenario.name}": recorder.recording()} if recorder else {}
    stored = {
        "scenario": scenario.name,
        "machine": machine if isinstance(machine, str) else record.name,  # what opens it again, by a name
        "seed": settings.seed,
        **measured_cpu(record, cpu),
        "fast": settings.fast,
        "options": context.options,
    }
    return Document(
        tool=store.this_tool(),
        machine=record,
        settings=store.plain(stored),
        started=started.isoformat(timespec="seconds"),
        elapsed_seconds=round(time.monotonic() - begin, 3),
        findings=findings,
        evidence=store.plain({**context.evidence, **recordings}),
    )


def answers(scenario: Scenario, context: Context, environment: Mapping[str, Any]) -> Iterator[Finding]:
    """What a scenario finds, behind the findings that it builds on; each with what the system says of it (`beside`)."""
    if scenario.builds_on:
        path = context.options.get("result")
        context.foundations = tuple(store.load(path).findings if path else registry.foundations(scenario, context))
    yield from beside(scenario.answer(context), reported_caches(environment))


def beside(findings: Iterable[Finding], reported: Mapping[str, int]) -> Iterator[Finding]:
    """Findings, each with what the system says of the same parameter where that differs or nothing else is known."""
    for finding in findings:
        other = reported.get(finding.parameter)
        if other is None or (finding.outcome is Outcome.MEASURED and finding.value == other):
            yield finding
            continue
        kibibytes = finding.unit == "bytes" and not other % 1024
        remark = f"the operating system says {f'{other // 1024} KiB' if kibibytes else other}"
        yield msgspec.structs.replace(finding, reason=f"{finding.reason}; {remark}" if finding.reason else remark)


class _Stored(msgspec.Struct):
    """The settings of a document that inference depends on."""

    seed: int
    fast: bool
    cpu: int | None = None
    options: dict[str, Any] = {}


def infer(document: Document, progress: Listener = _ignore) -> Document:
    """The document that today's inference makes of what a machine answered back then; the machine isn't needed.

    Raises `UsageError` for a document without a recording, `SetebenchError` where today's probes are others."""
    name = str(document.settings.get("scenario"))
    try:
        settings = msgspec.convert(document.settings, type=_Stored)
    except msgspec.ValidationError as error:
        raise UsageError(f"its settings are damaged: {error}") from error
    scenario, replay = registry.scenario(name), replay_of(recording_of(document.evidence, name))
    check_cpu(replay.facts, settings.cpu)
    context = Context(machine=replay, seed=settings.seed, cpu=settings.cpu, fast=settings.fast, progress=progress)
    context.options = complete_options(scenario, settings.options)
    findings = list(answers(scenario, context, document.machine.environment))
    recordings = {key: each for key, each in document.evidence.items() if key.startswith(EVIDENCE_PREFIX)}
    evidence = {**store.plain(context.evidence), **recordings}
    return msgspec.structs.replace(document, tool=store.this_tool(), findings=findings, evidence=evidence)


def list_scenarios() -> dict[str, str]:
    """Every scenario that `run` takes, by name, with its one-line summary. None is imported."""
    return {name: entry.summary for name, entry in registry.catalogue().items()}


@contextmanager
def opened(machine: str | Machine, settings: Settings) -> Iterator[Machine]:
    """The machine of that name, closed afterwards; one that is an object already stays as it is.

    Why it could not be closed is only noted: what was measured must not be lost for that."""
    if not isinstance(machine, str):
        yield machine
        return
    fresh = open_machine(machine, cpu=settings.cpu, seed=settings.seed, msr=settings.msr)
    try:
        for note in fresh.facts.notes:
            settings.noted(note)
        yield fresh
    finally:
        try:
            fresh.close()
        except Exception as error:  # another author's machine may raise anything
            settings.noted(f"the machine could not be closed: {error!r}")


def check_cpu(facts: Facts, cpu: int | None) -> None:
    """Raise `UsageError` where the machine has no such CPU."""
    if cpu is not None and cpu not in facts.cpus:
        raise UsageError(f"{facts.name} has no CPU {cpu}; choose one of {', '.join(map(str, facts.cpus))}")


def measured_cpu(record: MachineRecord, cpu: int | None) -> dict[str, Any]:
    """The settings that say on which CPU was measured, and on which kind of core where there are several."""
    kinds = record.environment.get("topology", {}).get("kinds") or {}
    own = next((kind for kind, cpus in kinds.items() if cpu in cpus), None)
    return {"cpu": cpu} if own is None else {"cpu": cpu, "kind_of_core": own}


def machine_record(facts: Facts) -> MachineRecord:
    """What a document keeps of the machine: its facts, and for this CPU what the operating system says of it."""
    environment: dict[str, Any] = {}
    if facts.kind == "native":
        from setebench.host.environment import read_environment  # /proc and /sys are only of use where they're measured

        environment = store.plain(read_environment())
        environment["topology"]["allowed"] = list(facts.cpus)  # this thread is pinned by now
    return MachineRecord(kind=facts.kind, name=facts.name, facts=store.plain(facts), environment=environment)


def complete_options(scenario: Scenario, given: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario's own options with defaults for those that are not given. Raises `UsageError` for one that it does
    not have, or a value that it does not take."""
    own = {option.name: option for option in scenario.options}
    unknown = sorted(set(given) - {"no_msr", *own})  # an option of earlier versions that changes nothing any more
    if unknown:
        raise UsageError(
            f"scenario {scenario.name!r} has no option {unknown[0]!r}; its options: {', '.join(own) or 'none'}"
        )
    return {name: _value(option, given.get(name, option.default)) for name, option in own.items()}


def _value(option: Option, value: Any) -> Any:
    if option.flag:
        return bool(value)
    values = list(value or ()) if option.multiple else [value]
    for each in values:
        if option.choices and each not in (None, *option.choices):
            raise UsageError(f"option {option.name!r} takes one of {', '.join(option.choices)}, not {each!r}")
    return values if option.multiple else value
