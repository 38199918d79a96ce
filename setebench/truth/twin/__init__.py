"""A complete machine file from a result: every field measured, bounded or assumed, and why.

What was found is turned into fields by the rules of `core`, `caches` and `prefetchers`. Every other field that the
schema has is assumed, at its default, so that a field which the schema gains shows up by itself.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from setebench.errors import SetebenchError
from setebench.results import Document
from setebench.sim import spec
from setebench.sim.files.dump import dump, literal
from setebench.sim.files.loader import origins, parse
from setebench.sim.files.origins import TABLE, Origin, Path, field_name
from setebench.sim.spec.checks import Problem, checked
from setebench.sim.spec.fields import table_fields
from setebench.text import remark, visible
from setebench.truth.twin import caches, core, prefetchers
from setebench.truth.twin.readings import Draft, Readings

RULES: tuple[Callable[[Readings, Draft], None], ...] = (
    core.clock,
    core.cores,
    caches.caches,
    core.tlbs,
    core.memory,
    core.streams,
    core.software_prefetches,
    prefetchers.prefetchers,
    core.coherence,
)
PREFETCHERS: Path = ("prefetchers",)
UNMEASURED = "not measured; the default of machine files"
NOTHING = "no field of a machine follows from the findings of this result; `setebench characterize` measures all"
MOST_CONTRADICTIONS = 50
"""Findings that may be set aside because they contradict others, before a result is refused."""

WIDTH = 116
"""Columns of a comment."""


@dataclass(frozen=True)
class Twin:
    """A machine made of findings. `origins` has every field of the machine by its path; `set_aside` are findings that
    contradict others, so that no machine could have both."""

    machine: spec.Machine
    origins: dict[Path, Origin]
    set_aside: dict[str, str]


def twin_of_file(text: str, file: str) -> Twin:
    """A machine file as a twin: its own `[origins]`, and all other fields assumed. Raises `UsageError`."""
    machine, stated = parse(text, file), origins(text, file)
    unknown = Origin(origin="assumed", why="the machine file does not say where it is from")
    return Twin(machine, {path: stated.get(field_name(path), unknown) for path, _ in fields_of(machine)}, {})


def make_twin(document: Document, *, of_nothing: bool = False) -> Twin:
    """The twin of the machine that a result describes. Raises `SetebenchError` where no machine can have it all, and,
    unless a twin `of_nothing` is wanted, where no finding says anything of a memory system."""
    set_aside: dict[str, str] = {}
    for _ in range(MOST_CONTRADICTIONS):
        draft = _draft(Readings(document, set_aside))
        if not of_nothing and all(origin.origin == "assumed" for origin in draft.origins.values()):
            raise SetebenchError(NOTHING)
        found = checked(draft.data)
        if isinstance(found, spec.Machine):
            unmeasured, known = Origin(origin="assumed", why=UNMEASURED), draft.origins
            every = {path: known.get(path, unmeasured) for path, _ in fields_of(found)}
            return Twin(found, every | {path: known[path] for path in [PREFETCHERS] if path in known}, set_aside)
        behind, why = _behind(found, draft), f"no machine has these findings: {found.name}: {found.message}"
        if not behind:
            break
        set_aside |= dict.fromkeys(behind, found.message)
    raise SetebenchError(why)


def _draft(readings: Readings) -> Draft:
    draft, document = Draft(), readings.document
    names = {
        "name": f"twin of {readings.fact('name') or document.machine.name}",
        "description": f"made of findings of {document.started} by {document.tool.name} {document.tool.version}",
    }
    for name, text in names.items():
        most = int(table_fields(spec.Machine)[name].limits[1] or 0)
        draft.assume((name,), visible(text)[:most], "of the result")
    draft.fill(("line_size_bytes",), readings.get("cache.l1.line_size"), readings.line, core.SYSTEM)
    for rule in RULES:
        rule(readings, draft)
    return draft


def _behind(problem: Problem, draft: Draft) -> tuple[str, ...]:
    """The findings behind a field that can't be: of the field itself, of the nearest field around it, or within."""
    around = [draft.origins.get(problem.path[:length]) for length in range(len(problem.path), 0, -1)]
    inside = [origin for path, origin in draft.origins.items() if path[: len(problem.path)] == problem.path]
    return next((origin.parameters for origin in (*around, *inside) if origin and origin.parameters), ())


def fields_of(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """(path, value) of every plain field of a table and of the tables in it; lists of numbers are plain."""
    inner: dict[str | int, Any] | None = None
    if isinstance(value, msgspec.Struct):
        inner = {name: each for name in value.__struct_fields__ if (each := getattr(value, name)) is not None}
    elif isinstance(value, dict):
        inner = value
    elif isinstance(value, tuple) and (path == PREFETCHERS or (value and isinstance(value[0], msgspec.Struct))):
        inner = dict(enumerate(value))
    if inner is None:
        yield path, value
        return
    for key, each in inner.items():
        yield from fields_of(each, (*path, key))


# -- the file ------------------------------------------------------------------------------------------------------


def as_toml(twin: Twin) -> str:
    """The text of the machine file: TOML with the origin of every field in the table `[origins]`."""
    kinds = Counter(origin.origin for origin in twin.origins.values())
    head = [
        f"{twin.machine.name}: {', '.join(f'{kinds[kind]} {kind}' for kind in sorted(kinds))} fields.",
        "measured: found, in this interval; bounded: a bound or an interval stands for it; assumed: not measured.",
        *(f"set aside: {name}, which contradicts other findings: {why}" for name, why in twin.set_aside.items()),
        *(f"{field_name(path)}: {said(origin)}" for path, origin in twin.origins.items() if path == PREFETCHERS),
    ]
    lines = [f"# {line}" for text in head for line in textwrap.wrap(remark(text), WIDTH)]
    lines += ["", *dump(twin.machine).splitlines(), "", f"[{TABLE}]"]
    for path, origin in twin.origins.items():
        fields = {name: getattr(origin, name) for name in ("origin", "low", "high", "parameters", "why")}
        fields |= {name: float(fields[name]) for name in ("low", "high") if fields[name] is not None}
        given = ", ".join(f"{name} = {literal(each)}" for name, each in fields.items() if each not in (None, (), ""))
        lines.append(f"{literal(field_name(path))} = {{{given}}}")
    return "\n".join(lines) + "\n"


def said(origin: Origin) -> str:
    """An origin in words."""
    parts: list[str] = [origin.origin]
    if origin.low is not None or origin.high is not None:
        ends = ("-" if end is None else f"{end:.6g}" for end in (origin.low, origin.high))
        parts.append(f"[{', '.join(ends)}]")
    if origin.parameters:
        parts.append(f"from {', '.join(origin.parameters)}")
    return " ".join(parts) + (f": {origin.why}" if origin.why else "")
