"""All rules together: a machine from a result, with the origin of every field."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from setebench.errors import SetebenchError
from setebench.results import Document
from setebench.sim import spec
from setebench.sim.files.loader import origins, parse
from setebench.sim.files.origins import Origin, field_name
from setebench.sim.files.toml_lines import Path
from setebench.sim.spec.checks import Problem, field_problems, sense_problems
from setebench.sim.spec.fields import table_fields
from setebench.text import visible
from setebench.truth.twin import caches, core, memory, prefetchers, tlbs
from setebench.truth.twin.draft import Draft
from setebench.truth.twin.readings import Readings

RULES: tuple[Callable[[Readings, Draft], None], ...] = (
    core.clock,
    core.cores,
    caches.caches,
    tlbs.tlbs,
    memory.memory,
    memory.software_prefetches,
    prefetchers.prefetchers,
    memory.coherence,
)
UNMEASURED = "not measured; the default of machine files"
NOTHING = "no field of a machine follows from the findings of this result; `setebench characterize` asks for all"
MOST_CONTRADICTIONS = 50
"""Findings that may be set aside because they contradict others, before a result is refused."""


@dataclass(frozen=True)
class Twin:
    """A machine made of findings. `origins` has every field of the machine by its path; `set_aside` are findings that
    contradict others, so that no machine could have both."""

    machine: spec.Machine
    origins: dict[Path, Origin]
    set_aside: dict[str, str]

    def named(self) -> dict[str, Origin]:
        """Origins by the names that a machine file gives fields."""
        return {field_name(path): origin for path, origin in self.origins.items()}


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
        draft = _draft(Readings(document, frozenset(set_aside)))
        problems = field_problems(draft.data)
        machine = None if problems else msgspec.convert(draft.data, spec.Machine)
        problems = problems or sense_problems(machine)  # type: ignore[arg-type]
        if not of_nothing and all(origin.origin == "assumed" for origin in draft.origins.values()):
            raise SetebenchError(NOTHING)
        if machine is not None and not problems:
            return Twin(machine, dict(_complete(machine, draft.origins)), set_aside)
        aside = _behind(problems[0], draft)
        if not aside:
            break
        set_aside |= dict.fromkeys(aside, problems[0].message)
    raise SetebenchError(f"no machine has these findings: {problems[0].name}: {problems[0].message}")


def _draft(readings: Readings) -> Draft:
    draft = Draft()
    _names(readings, draft)
    for rule in RULES:
        rule(readings, draft)
    caches.floors(draft)
    return draft


def _names(readings: Readings, draft: Draft) -> None:
    document = readings.document
    name = visible(f"twin of {readings.fact('name') or document.machine.name}")
    draft.assume(("name",), name[: _most("name")], "a name")
    description = visible(f"made of findings of {document.started} by {document.tool.name} {document.tool.version}")
    draft.assume(("description",), description[: _most("description")], "which result it is from")
    line = readings.get("cache.l1.line_size")
    if not draft.put(("line_size_bytes",), line):
        draft.assume(("line_size_bytes",), readings.line, core.SYSTEM)


def _most(field: str) -> int:
    """Characters that a field of a machine may have."""
    return int(table_fields(spec.Machine)[field].limits[1] or 0)


def _behind(problem: Problem, draft: Draft) -> tuple[str, ...]:
    """The findings behind a field that can't be: of the field itself, or of the nearest field around it."""
    for length in range(len(problem.path), 0, -1):
        origin = draft.origins.get(problem.path[:length])
        if origin is not None and origin.parameters:
            return origin.parameters
    inside = (origin for path, origin in draft.origins.items() if path[: len(problem.path)] == problem.path)
    return next((origin.parameters for origin in inside if origin.parameters), ())


def _complete(machine: spec.Machine, known: dict[Path, Origin]) -> Iterator[tuple[Path, Origin]]:
    """Every field of the machine in the order of the schema, with its origin: assumed where no rule filled it."""
    for path, _ in fields_of(machine):
        yield path, known.get(path, Origin(origin="assumed", why=UNMEASURED))
    if ("prefetchers",) in known:
        yield ("prefetchers",), known["prefetchers",]


def fields_of(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """(path, value) of every plain field of a table and of the tables in it; lists of numbers are plain."""
    if isinstance(value, msgspec.Struct):
        for field in table_fields(type(value)).values():
            inner = getattr(value, field.name)
            if inner is not None:
                yield from fields_of(inner, (*path, field.name))
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from fields_of(inner, (*path, key))
    elif isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct):
        for index, inner in enumerate(value):
            yield from fields_of(inner, (*path, index))
    elif not (isinstance(value, tuple) and not value and path == ("prefetchers",)):
        yield path, value
