"""Running scenarios as a library: from a machine and a question to a result document.

`run` is what `import setebench` offers and what the command line uses. Nothing is printed and nothing is written here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
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

Progress = Callable[[str], None]
OnFinding = Callable[[Finding], None]


def _ignore(_what: object) -> None:
    """Progress that nobody reads, findings that nobody awaits."""


def run(
    scenario: str | Scenario,
    machine: str | Machine = "native",
    *,
    seed: int = 1,
    cpu: int | None = None,
    fast: bool = False,
    msr: bool = False,
    progress: Progress = _ignore,
    on_finding: OnFinding = _ignore,
    raw: bool = False,
    **options: Any,
) -> Document:
    """Ask one question of a machine and return findings, settings and evidence as a document.

    `scenario` and `machine` are names as on the command line, or objects; a machine given as an object stays open.
    `options` are the scenario's own, by their names; `msr` is `open_machine`'s; `progress` hears what is done
    next, `on_finding` each finding as it comes. With `raw` the document keeps what the machine answered, so that
    `infer` can be run on it later. Raises `UsageError` for unknown names and options, and what the machine raises.
    """
    chosen = registry.scenario(scenario) if isinstance(scenario, str) else scenario
    listeners: dict[str, Any] = {"progress": progress, "on_finding": on_finding}
    return ask(chosen, machine, options, seed=seed, cpu=cpu, fast=fast, msr=msr, raw=raw, **listeners)


def ask(
    scenario: Scenario,
    machine: str | Machine,
    options: Mapping[str, Any],
    *,
    seed: int = 1,
    cpu: int | None = None,
    fast: bool = False,
    msr: bool = False,
    progress: Progress = _ignore,
    on_finding: OnFinding = _ignore,
    noted: Progress = _ignore,
    raw: bool = False,
    environment: Mapping[str, Any] | None = None,
) -> Document:
    """`run` with the scenario's own options as a mapping, so that none can clash with the other arguments.

    `noted` hears what a machine that is opened here says of itself; `environment` is what the operating system said of
    one that is not here."""
    with opened(machine, cpu, seed, noted, msr) as open_one:
        values = complete_options(scenario, options)
        check_cpu(open_one.facts, cpu)
        cpu = open_one.facts.cpu if cpu is None else cpu
        recorder = recorder_of(open_one) if raw else None
        context = Context(
            machine=recorder or open_one, seed=seed, cpu=cpu, fast=fast, options=values, progress=progress
        )
        if scenario.builds_on:
            path = values.get("result")
            known = store.load(path).findings if path else registry.foundations(scenario, context)
            context.foundations = tuple(known)
        started, begin = datetime.now(UTC), time.monotonic()
        record = machine_record(context.machine.facts)
        said = reported_caches(record.environment if environment is None else environment)
        findings = []
        for finding in beside(scenario.answer(context), said):
            findings.append(finding)
            on_finding(finding)
        kept = {f"{EVIDENCE_PREFIX}{scenario.name}": recorder.recording()} if recorder else {}
        settings = {
            "scenario": scenario.name,
            "machine": machine if isinstance(machine, str) else record.name,  # what opens it again, by a name
            "seed": seed,
            **measured_cpu(record, cpu),
            "fast": fast,
            "options": values,
        }
        return Document(
            tool=store.this_tool(),
            machine=record,
            settings=store.plain(settings),
            started=started.isoformat(timespec="seconds"),
            elapsed_seconds=round(time.monotonic() - begin, 3),
            findings=findings,
            evidence=store.plain({**context.evidence, **kept}),
        )


def infer(document: Document, progress: Progress = _ignore, on_finding: OnFinding = _ignore) -> Document:
    """The document that today's inference makes of what a machine answered back then; the machine isn't needed.

    Raises `UsageError` for a document without a recording, `SetebenchError` where today's inference asks otherwise."""
    name = str(document.settings.get("scenario"))
    settings = _settings_of(document)
    replay = replay_of(recording_of(document.evidence, name))
    again = ask(
        registry.scenario(name),
        replay,
        settings.options,
        seed=settings.seed,
        cpu=settings.cpu,
        fast=settings.fast,
        progress=progress,
        on_finding=on_finding,
        environment=document.machine.environment,
    )
    recordings = {key: each for key, each in document.evidence.items() if key.startswith(EVIDENCE_PREFIX)}
    return msgspec.structs.replace(
        document, tool=store.this_tool(), findings=again.findings, evidence={**again.evidence, **recordings}
    )


class _Settings(msgspec.Struct):
    """The settings of a document that inference depends on."""

    seed: int
    fast: bool
    cpu: int | None = None
    options: dict[str, Any] = {}


def _settings_of(document: Document) -> _Settings:
    try:
        return msgspec.convert(document.settings, type=_Settings)
    except msgspec.ValidationError as error:
        raise UsageError(f"its settings are damaged: {error}") from error


def list_scenarios() -> dict[str, str]:
    """Every scenario that `run` takes, by name, with its one-line summary. None is imported."""
    return {name: entry.summary for name, entry in registry.catalogue().items()}


def beside(findings: Iterable[Finding], said: Mapping[str, int]) -> Iterator[Finding]:
    """Findings, each with what the system says of the same parameter where that differs or nothing else is known."""
    for finding in findings:
        other = said.get(finding.parameter)
        if other is None or (finding.outcome is Outcome.MEASURED and finding.value == other):
            yield finding
            continue
        kibibytes = finding.unit == "bytes" and not other % 1024
        remark = f"the operating system says {f'{other // 1024} KiB' if kibibytes else other}"
        reason = f"{finding.reason}; {remark}" if finding.reason else remark
        yield msgspec.structs.replace(finding, reason=reason)


@contextmanager
def opened(
    machine: str | Machine, cpu: int | None, seed: int, noted: Progress = _ignore, msr: bool = False
) -> Iterator[Machine]:
    """The machine of that name, closed afterwards; one that is an object already stays as it is.

    `noted` hears what a machine that is opened here says of itself, and why it could not be closed: what was measured
    must not be lost for that."""
    if not isinstance(machine, str):
        yield machine
        return
    fresh = open_machine(machine, cpu=cpu, seed=seed, msr=msr)
    try:
        for note in fresh.facts.notes:
            noted(note)
        yield fresh
    finally:
        try:
            fresh.close()
        except Exception as error:  # another author's machine may raise anything
            noted(f"the machine could not be closed: {error!r}")


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

        environment = store.plain(msgspec.to_builtins(read_environment()))
        environment["topology"]["allowed"] = list(facts.cpus)  # this thread is pinned by now
    return MachineRecord(kind=facts.kind, name=facts.name, facts=store.plain(facts), environment=environment)


def complete_options(scenario: Scenario, given: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario's own options with defaults for those that are not given. Raises `UsageError` for one that it does
    not have, or a value that it does not take."""
    own = {option.name: option for option in scenario.options}
    unknown = sorted(set(given) - {"no_msr", *own})  # an option of earlier versions that changes nothing any more
    if unknown:
        known = ", ".join(own) or "none"
        raise UsageError(f"scenario {scenario.name!r} has no option {unknown[0]!r}; its options: {known}")
    return {name: _checked(option, given[name]) if name in given else _default(option) for name, option in own.items()}


def _default(option: Option) -> Any:
    if option.flag:
        return bool(option.default)
    return list(option.default or ()) if option.multiple else option.default


def _checked(option: Option, value: Any) -> Any:
    values = list(value) if option.multiple else [value]
    for each in values:
        if option.choices and each not in option.choices:
            raise UsageError(f"option {option.name!r} takes one of {', '.join(option.choices)}, not {each!r}")
    return values if option.multiple else value
