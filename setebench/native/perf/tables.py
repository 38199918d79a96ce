"""Which event plays which role on which processor: the files in `events/`, read strictly.

One TOML file describes one microarchitecture and names the processors that it holds for, by vendor, family, model and
stepping. A processor that no file names has no table: a neighbour's is never taken, as the same number may count
something else there. docs/events.md describes the format; what a role means stands in `counters.roles`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from enum import StrEnum
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from setebench.counters.roles import ROLES, Scope
from setebench.errors import SetebenchError
from setebench.host.processor import Processor

FOLDER = Path(__file__).parent / "events"
T = TypeVar("T")


class Status(StrEnum):
    """How far an encoding may be believed. None was ever counted by this project, so there is no third word:
    `documented` stands in one public source, `cross-checked` in two that were written apart and agree."""

    DOCUMENTED = "documented"
    CROSS_CHECKED = "cross-checked"


class Prefetches(StrEnum):
    """Whether lines that hardware prefetchers ask for are counted, as far as is known without counting:
    `contradicted` where the documentation says yes and a published measurement no."""

    YES = "yes"
    NO = "no"
    CONTRADICTED = "contradicted"
    UNKNOWN = "unknown"


class Need(StrEnum):
    """What counting needs beside a PMU. `system_wide`: the right to see everybody's events on a CPU."""

    SYSTEM_WIDE = "system_wide"


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where encodings were looked up: a project's file at a commit, or a document."""

    project: str
    path: str
    commit: str = ""
    licence: str = ""


class Conflict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another source says something else: who, what, and why ours stands. `about` names an event that plays no role."""

    source: str
    value: str
    note: str = ""
    about: str = ""


class Code(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one counter is set to. Fields are terms of the kernel's formats and have their names; those that are zero
    or false are left out. `scale`: how many of the role's units one count stands for, a number or a fraction ("8/9").
    """

    event: int | None = None
    umask: int = 0
    cmask: int = 0
    inv: bool = False
    edge: bool = False
    offcore_rsp: int = 0
    ldlat: int = 0
    rdwrmask: int = 0
    scale: int | str = 1

    @property
    def factor(self) -> Fraction:
        """`scale` as a number."""
        return Fraction(self.scale)

    @property
    def terms(self) -> dict[str, int]:
        """Terms of the PMU's format with their values; `event` always, others where they aren't zero."""
        names = ("umask", "cmask", "inv", "edge", "offcore_rsp", "ldlat", "rdwrmask")
        values = {name: int(getattr(self, name)) for name in names}
        return {"event": self.event or 0} | {name: value for name, value in values.items() if value}


class EventSpec(Code, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The event, or the sum of events, that plays a role.

    `pmu`: kind of PMU as the kernel names it; every box of it (uncore_imc_0, uncore_imc_1, ...) is counted and the
    counts are added. `sum`: events that are added, each with its scale; else the record is the event itself.
    `counters`: numbers of the general counters that can hold it; `counters_without_smt`: those on a core whose second
    thread the firmware switched off, where they are others; `fixed`: the fixed counter that can, too. `width`:
    neighbouring counters that one event takes. `sources`: its name in each source of the file."""

    pmu: str = "cpu"
    sum: tuple[Code, ...] = ()
    counters: tuple[int, ...] = ()
    counters_without_smt: tuple[int, ...] = ()
    fixed: int | None = None
    width: int = 1
    scope: Scope = Scope.THREAD
    needs: tuple[Need, ...] = ()
    errata: tuple[str, ...] = ()
    includes_prefetch: Prefetches = Prefetches.UNKNOWN
    sources: dict[str, str]
    conflicts: tuple[Conflict, ...] = ()
    notes: str = ""
    status: Status

    @property
    def codes(self) -> tuple[Code, ...]:
        """The events whose scaled counts are added."""
        return self.sum or (self,)

    @property
    def text(self) -> str:
        """The event as it may be asked for by text; those of a sum with plus signs and their scales."""
        terms = (",".join(f"{name}={value:#x}" for name, value in code.terms.items()) for code in self.codes)
        scales = ("" if code.factor == 1 else f"{code.scale} x " for code in self.codes)
        return " + ".join(f"{scale}{self.pmu}/{text}/" for scale, text in zip(scales, terms, strict=True))


class Match(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Processors that a file holds for. No `steppings` means all."""

    vendor: str
    family: int
    models: tuple[int, ...]
    steppings: tuple[int, ...] = ()
    names: str = ""

    def holds(self, processor: Processor) -> bool:
        """Whether `processor` is one of them; one whose stepping isn't known is not, where steppings matter."""
        return (
            (processor.vendor, processor.family) == (self.vendor, self.family)
            and processor.model in self.models
            and (not self.steppings or processor.stepping in self.steppings)
        )


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file. `absent`: roles that this microarchitecture has no event for, each with the reason in one line.
    `conflicts`: those about events that play no role here."""

    title: str
    processors: tuple[Match, ...]
    sources: dict[str, Source]
    absent: dict[str, str] = {}
    conflicts: tuple[Conflict, ...] = ()
    roles: dict[str, EventSpec] = {}


class Dispute(NamedTuple):
    """A conflict and where it stands: the table's name, and the role that it is about ("" for none)."""

    table: str
    role: str
    conflict: Conflict


@cache
def load_tables(folder: Path = FOLDER) -> dict[str, Table]:
    """Every table by the name of its file.

    Raises `SetebenchError` with file and line for a file that isn't one, a key that there is not, an unknown role or
    source, or an event without a number."""
    return {path.stem: _Reader(path).table() for path in sorted(folder.glob("*.toml"))}


def table_for(processor: Processor) -> tuple[str, Table] | None:
    """The table that names `processor`, with its name; None where none does."""
    return next(((name, table) for name, table in load_tables().items() if _holds(table, processor)), None)


def events_for(processor: Processor) -> dict[str, EventSpec]:
    """Events by role; empty for a processor that no table names (`why_none` says so in words)."""
    found = table_for(processor)
    return dict(found[1].roles) if found else {}


def why_none(processor: Processor, role: str = "") -> str:
    """Why `processor` has no event for `role`, or ("") no events at all, in one line; "" where it has."""
    found = table_for(processor)
    if found is None:
        return f"no event table for {_named(processor)}; raw events such as cpu/event=0x3c/ can still be counted"
    table = found[1]
    if not role or role in table.roles:
        return ""
    return table.absent.get(role, f"{table.title} has no event for it in our table")


def disputes(name: str, table: Table) -> Iterator[Dispute]:
    """What sources disagree about in one table."""
    for role, spec in table.roles.items():
        yield from (Dispute(name, role, conflict) for conflict in spec.conflicts)
    yield from (Dispute(name, "", conflict) for conflict in table.conflicts)


def _holds(table: Table, processor: Processor) -> bool:
    return any(match.holds(processor) for match in table.processors)


def _named(processor: Processor) -> str:
    if processor.vendor is None or processor.family is None or processor.model is None:
        return "a processor that the system does not identify"
    stepping = "" if processor.stepping is None else f" stepping {processor.stepping}"
    return f"{processor.vendor} family {processor.family} model {processor.model:#x}{stepping}"


# -- reading strictly ------------------------------------------------------------------------------------------------


class _Reader:
    """One file: what is wrong is raised with the line on which it stands."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = path.read_text(encoding="utf-8").splitlines()

    def table(self) -> Table:
        raw = self._parsed()
        roles = raw.pop("roles", {})
        table = self._converted(raw, Table, "")
        specs = {name: self._spec(name, record, table) for name, record in roles.items()}
        for name in table.absent:
            if name not in ROLES or name in specs:
                raise self._error("absent", name, "not a role that this table lacks")
        return msgspec.structs.replace(table, roles=specs)

    def _parsed(self) -> dict[str, Any]:
        try:
            return tomllib.loads("\n".join(self.lines))
        except tomllib.TOMLDecodeError as error:
            line = re.search(r"line (\d+)", str(error))
            raise SetebenchError(f"{self.path}:{line[1] if line else len(self.lines)}: {error}") from error

    def _spec(self, name: str, record: object, table: Table) -> EventSpec:
        section = f"roles.{name}"
        if name not in ROLES:
            raise self._error(section, "", "no such role")
        spec = self._converted(record, EventSpec, section)
        for key in spec.sources.keys() - table.sources.keys():
            raise self._error(section, "sources", f"no source {key!r} in this file")
        if (spec.event is None) == (not spec.sum) or any(code.event is None for code in spec.sum):
            raise self._error(section, "sum" if spec.sum else "", "one event, or a sum of events, with numbers")
        self._check_scales(section, spec)
        return spec

    def _check_scales(self, section: str, spec: EventSpec) -> None:
        for code in (spec, *spec.sum):
            try:
                positive = code.factor > 0
            except (ValueError, ZeroDivisionError):
                positive = False
            if not positive:
                raise self._error(section, "scale", f"not a scale: {code.scale!r}")

    def _converted(self, raw: object, kind: type[T], section: str) -> T:
        try:
            return msgspec.convert(raw, type=kind)
        except msgspec.ValidationError as error:
            word = re.search(r"field `(\w+)`|at `\$\.(\w+)", str(error))
            raise self._error(section, (word[1] or word[2]) if word else "", str(error)) from error

    def _error(self, section: str, key: str, what: str) -> SetebenchError:
        return SetebenchError(f"{self.path}:{self._line(section, key)}: {section or 'the table'}: {what}")

    def _line(self, section: str, key: str) -> int:
        """The line of `key` in `section`, or of the section, or 1; sections are found by their header."""
        header = re.compile(rf"\[+{re.escape(section)}\]+")
        begin = next((at for at, line in enumerate(self.lines) if section and header.match(line)), 0)
        word = re.compile(rf"\s*(?:\[+)?(?:{re.escape(section)}\.)?{re.escape(key)}\b|.*[{{,]\s*{re.escape(key)}\s*=")
        behind = enumerate(self.lines[begin:], begin)
        return next((at for at, line in behind if key and word.match(line)), begin) + 1
