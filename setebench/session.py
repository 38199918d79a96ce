"""Running one scenario as a library: from a machine and a question to a result document.

`run` is what `import setebench` offers and what the command line uses. Nothing is printed and nothing is written here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from setebench import registry, store
from setebench.errors import SetebenchError, UnsupportedError, UsageError, reason
from setebench.machine import Facts, Machine, open_machine
from setebench.recording import EVIDENCE_PREFIX, recorder_of, recording_of, replay_of
from setebench.results import Document, Finding, MachineRecord
from setebench.scenario import Context, Scenario, ignore
from setebench.text import in_bytes

LEAST_MEMORY = 16 << 20
"""Bytes of a machine without which no question can be put: a sweep over sizes takes 8 MiB, of half of what there is."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to measure: `seed`, `cpu` and `fast` as on the command line; `msr` is `open_machine`'s. With `raw` the
    document keeps what the machine answers, for `infer`. `progress` is called with what is done next, `on_finding` with
    each finding as it comes."""

    seed: int = 1
    cpu: int | None = None
    fast: bool = False
    msr: bool = False
    raw: bool = False
    progress: Callable[[str], None] = ignore
    on_finding: Callable[[Finding], None] = ignore


class _Stored(msgspec.Struct):
    """The settings of a document that inference depends on."""

    seed: int
    fast: bool
    cpu: int | None = None
    options: dict[str, Any] = {}


def run(scenario: str | Scenario, machine: str | Machine = "native", **settings: Any) -> Document:
    """Run one scenario on a machine and return findings, settings and evidence as a document.

    `scenario` and `machine` are names as on the command line, or objects; a machine given as an object stays open.
    `settings` are those of `Settings`, and the scenario's own options by their names. Raises `UsageError` for unknown
    names and options, and `SetebenchError` for whatever another author's machine raises."""
    chosen = registry.scenario(scenario) if isinstance(scenario, str) else scenario
    own = {name: settings.pop(name) for name in set(settings) - set(Settings.__dataclass_fields__)}
    how = Settings(**settings)
    with opened(machine, how) as open_one:
        name = machine if isinstance(machine, str) else open_one.facts.name  # what opens it again
        named = {"scenario": chosen.name, "machine": name, "options": own}
        document = begun(open_one, {**named, "seed": how.seed, "cpu": how.cpu, "fast": how.fast})
        return answered(document, chosen, open_one, how, {})


def begun(machine: Machine, settings: dict[str, Any]) -> Document:
    """A document without findings, with these settings, the CPU that is measured, and its kind where there are several.
    Raises `UsageError` where the machine has no such CPU."""
    facts = machine.facts
    cpu = facts.cpu if settings["cpu"] is None else settings["cpu"]
    if cpu is not None and cpu not in facts.cpus:
        raise UsageError(f"{facts.name} has no CPU {cpu}; choose one of {', '.join(map(str, facts.cpus))}")
    record = machine_record(facts)
    kinds = record.environment.get("topology", {}).get("kinds") or {}
    own = [("kind_of_core", kind) for kind, cpus in kinds.items() if cpu in cpus]
    return Document(
        tool=store.this_tool(),
        machine=record,
        settings=store.plain({**settings, "cpu": cpu, **dict(own)}),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        elapsed_seconds=0.0,
        findings=[],
        evidence={},
    )


def infer(document: Document, how: Settings, shared: dict[str, Any]) -> Document:
    """The document that today's inference makes of what a machine answered back then; the machine isn't needed.

    Raises `UsageError` for a document without a recording, `SetebenchError` where today's probes are others."""
    name = str(document.settings.get("scenario"))
    replay = replay_of(recording_of(document.evidence, name))
    found = answered(document, registry.scenario(name), replay, how, shared)
    key = f"{EVIDENCE_PREFIX}{name}"
    found.evidence[key] = document.evidence[key]
    return msgspec.structs.replace(found, elapsed_seconds=document.elapsed_seconds)


def answered(
    document: Document, scenario: Scenario, machine: Machine, how: Settings, shared: dict[str, Any]
) -> Document:
    """The document with what a scenario finds on an open machine, or on its replay, by the document's settings.

    `shared` is what scenarios of one session share, fields of `Context`: what was measured of the clock and the levels,
    and how many layouts of lines were drawn. One that fails adds nothing."""
    try:
        stored = msgspec.convert(document.settings, type=_Stored)
    except msgspec.ValidationError as error:
        raise UsageError(f"its settings are damaged: {error}") from error
    begin, findings = time.monotonic(), list[Finding]()
    recorder = recorder_of(machine) if how.raw else None
    context = Context(
        machine=recorder or machine,
        seed=stored.seed,
        cpu=stored.cpu,
        fast=stored.fast,
        options=complete_options(scenario, stored.options),
        progress=how.progress,
        **shared,
    )
    with _in_a_line(machine):
        if (room := machine.facts.memory_bytes) < LEAST_MEMORY:
            little = f"{in_bytes(room)} may be used, and a question takes at least {in_bytes(LEAST_MEMORY)}"
            raise UnsupportedError(f"too little memory: {little}; free some, or raise this control group's limit")
        if scenario.builds_on:
            path = context.options.get("result")
            context.foundations = tuple(store.load(path).findings if path else registry.foundations(scenario, context))
        for finding in scenario.answer(context):
            store.require_finite(finding)
            version = finding.method_version or scenario.method_version
            findings.append(msgspec.structs.replace(finding, method_version=version))
            how.on_finding(findings[-1])
    if recorder is not None:
        context.evidence[f"{EVIDENCE_PREFIX}{document.settings['scenario']}"] = recorder.recording()
    evidence = store.plain(context.evidence)
    shared.update(calibration=context.calibration, layouts=context.layouts)
    return msgspec.structs.replace(
        document,
        tool=store.this_tool(),
        settings={**document.settings, "options": store.plain(context.options)},
        elapsed_seconds=round(time.monotonic() - begin, 3),
        findings=findings,
        evidence=evidence,
    )


@contextmanager
def _in_a_line(machine: Machine) -> Iterator[None]:
    """Within the context whatever ends the run on another author's machine, an exit too, is a `SetebenchError`."""
    try:
        yield
    except (SetebenchError, KeyboardInterrupt):
        raise
    except BaseException as error:
        if machine.facts.kind in ("native", "sim"):
            raise
        raise SetebenchError(reason(error)) from error


def list_scenarios() -> dict[str, str]:
    """Every scenario that `run` takes, by name, with its one-line summary. None is imported."""
    return {name: entry.summary for name, entry in registry.catalogue().items()}


@contextmanager
def opened(machine: str | Machine, how: Settings) -> Iterator[Machine]:
    """The machine of that name, closed afterwards; one that is an object already stays as it is.

    Why it could not be closed is only said: what was measured must not be lost for that."""
    if not isinstance(machine, str):
        yield machine
        return
    fresh = open_machine(machine, cpu=how.cpu, seed=how.seed, msr=how.msr)
    try:
        yield fresh
    finally:
        try:
            fresh.close()
        except Exception as error:  # another author's machine may raise anything
            how.progress(f"the machine could not be closed: {error!r}")


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
    own = {option.name: given.get(option.name, option.default) for option in scenario.options}
    for unknown in sorted(set(given) - set(own)):
        raise UsageError(
            f"scenario {scenario.name!r} has no option {unknown!r}; its options: {', '.join(own) or 'none'}"
        )
    for option in scenario.options:
        if option.flag:
            own[option.name] = bool(own[option.name])
        elif option.multiple:
            own[option.name] = list(own[option.name] or ())
        for each in own[option.name] if option.multiple else (own[option.name],):
            if option.choices and each not in (None, *option.choices):
                raise UsageError(f"option {option.name!r} takes one of {', '.join(option.choices)}, not {each!r}")
            if option.check is not None and each is not None:
                option.check(each)
    return own
