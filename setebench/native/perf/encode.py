"""From what an event is called to the request that the kernel gets.

    mem_read                          a role, by the table of this processor
    cpu/event=0x48,umask=0x1,cmask=1/ terms of a PMU's format, in every box of it (amd_umc is amd_umc_0, amd_umc_1, ...)
    uncore_imc/cas_count_read/        an event that the kernel names

Where a value goes says the kernel's format, which may split it: AMD's event 0x165 is 0x65 and bit 32.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from setebench.counters.roles import ROLES, Scope
from setebench.errors import SetebenchError, UnsupportedError, UsageError
from setebench.host.processor import read_processor
from setebench.host.tree import Tree
from setebench.native.perf import _perf
from setebench.native.perf.attributes import EVERYBODY, USER_ONLY, Attributes, Flag, Software, Type
from setebench.native.perf.messages import (
    Pmu,
    Situation,
    core_pmus,
    explain,
    no_pmu,
    read_situation,
    user_only,
)
from setebench.native.perf.tables import CYCLES_COUNTER, EventSpec, grouped, table_for, why_none

FIELDS = ("config", "config1", "config2")
MOST_EVENTS = 16
"""Wanted at once: as many as a program that marks regions has room for (`setebench.h`). No PMU counts as many."""
SYSTEM_ROLES = {
    "task_clock": Software.TASK_CLOCK,
    "page_fault": Software.PAGE_FAULTS,
    "context_switch": Software.CONTEXT_SWITCHES,
    "cpu_migration": Software.CPU_MIGRATIONS,
}
"""Roles that every kernel counts."""
INSIDE = (Software.CONTEXT_SWITCHES, Software.CPU_MIGRATIONS)
"""What happens in the kernel only."""
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]{1,16}|\d{1,19}", re.ASCII)
_TEXT = re.compile(r"([\w.-]+)/([^/]*)/", re.ASCII)
_LISTED = re.compile(r"(?:[^,/]|/[^/]*/)+")


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a sum. `cpus`: where an event of everybody is opened; None for an event that follows threads.
    `factor`: how many of the sum's unit one count is. Events of one `pmu` may be in one group."""

    attributes: Attributes
    pmu: str
    cpus: tuple[int, ...] | None = None
    factor: float = 1.0

    def is_software(self, *events: Software) -> bool:
        """Whether it is one of these events of the kernel."""
        return self.attributes.type == Type.SOFTWARE and self.attributes.config in events

    def only(self, flags: int) -> Term:
        """The same with these flags too."""
        return msgspec.structs.replace(self, attributes=self.attributes.with_flags(flags))

    def at_rest(self, cpu: int | None) -> Attributes:
        """The event as it is opened, at rest: of the calling thread, or of everybody on a CPU."""
        event = self.attributes.with_flags(Flag.DISABLED)
        return event if cpu is None else msgspec.structs.replace(event, pid=EVERYBODY, cpu=cpu)


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be counted under `name`: the sum of its terms, or without terms the `reason` why it can't be.
    `event` is its text for people."""

    name: str
    terms: tuple[Term, ...] = ()
    reason: str = ""
    event: str = ""
    unit: str = "events"
    scope: Scope = Scope.THREAD

    @property
    def of_threads(self) -> bool:
        """Whether its events follow threads, rather than counting whatever runs on some CPUs."""
        return all(term.cpus is None for term in self.terms)

    def only(self, flags: int) -> Wanted:
        """The same with these flags in all terms."""
        return msgspec.structs.replace(self, terms=tuple(term.only(flags) for term in self.terms))


def countable(wanted: Wanted, situation: Situation) -> Wanted:
    """The same with every event in a form that the kernel opens here and that counts; without terms, and with the
    reason, where there is none. Events are opened and closed again; nothing is counted.

    Context switches and migrations happen inside the kernel: opened without the kernel's part, the only form that an
    ordinary user may open at perf_event_paranoid 2, they read 0 whatever happens. Such a form is never used."""
    number, event = _refusal(wanted)
    if number in (errno.EACCES, errno.EPERM) and wanted.of_threads:
        wanted = wanted.only(USER_ONLY)
        number, event = _refusal(wanted)
        if not number and any(term.is_software(*INSIDE) for term in wanted.terms):
            return msgspec.structs.replace(wanted, terms=(), reason=user_only(situation))
    return msgspec.structs.replace(wanted, terms=(), reason=explain(number, event, situation)) if number else wanted


def _refusal(wanted: Wanted) -> tuple[int, Attributes]:
    """Errno of the first event that does not open, with it; 0 where all do."""
    event = Attributes(type=Type.SOFTWARE)
    for term in wanted.terms:
        event = term.at_rest(term.cpus[0] if term.cpus else None)
        try:
            os.close(_perf.open_event(event))
        except OSError as error:
            return error.errno or errno.EINVAL, event
    return 0, event


class Resolver:
    """Events of the processor that a tree of system files describes (default: this one), by its table where there is
    one, and by the kernel's names and formats."""

    def __init__(self, tree: Tree | None = None) -> None:
        tree = tree or Tree(Path("/"))
        self.situation = read_situation(tree)
        self.processor = read_processor(tree)
        table = table_for(self.processor)
        self.specs = dict(table.roles) if table else {}

    def groups(self, roles: Sequence[str], always: Sequence[str] = ()) -> tuple[tuple[str, ...], ...]:
        """Those of the roles that the table has, in sets that can each be counted at once, each with `always`; of a
        whole PMU, but for the counter that a watchdog holds."""
        taken = {CYCLES_COUNTER} if self.situation.nmi_watchdog else set()
        return grouped({role: self.specs[role] for role in roles if role in self.specs}, taken, always)

    def named(self, names: Sequence[str]) -> tuple[Wanted, ...]:
        """What is to be counted under each name, in their order, each name once.

        Raises `UsageError` for names that are neither roles nor events, for none, and for more than `MOST_EVENTS`."""
        once = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
        if not once:
            raise UsageError("no event is named; see 'setebench counters list'")
        if len(once) > MOST_EVENTS:
            raise UsageError(f"{len(once)} events are named at once; at most {MOST_EVENTS} can be")
        return tuple(self.of_role(name) if name in ROLES else self.of_text(name) for name in once)

    def of_role(self, name: str) -> Wanted:
        """The event that plays a role; a reason where there is none."""
        role, spec = ROLES[name], self.specs.get(name)
        if name in SYSTEM_ROLES:
            event = SYSTEM_ROLES[name]
            term = Term(attributes=Attributes(type=Type.SOFTWARE, config=event), pmu="software")
            text = f"software/{event.name.lower().replace('_', '-')}/"
            return Wanted(name=name, terms=(term,), event=text, unit=role.unit)
        scope, text = (spec.scope, spec.text) if spec else (role.scope, "")
        known = Wanted(name=name, event=text, unit=role.unit, scope=scope)
        if not core_pmus(self.situation.pmus):
            return msgspec.structs.replace(known, reason=no_pmu(self.situation))
        if spec is None:
            return msgspec.structs.replace(known, reason=why_none(self.processor, name))
        try:
            return msgspec.structs.replace(known, terms=table_terms(spec, self.situation.pmus))
        except SetebenchError as error:
            return msgspec.structs.replace(known, reason=str(error))

    def of_text(self, text: str) -> Wanted:
        """The event that `text` names. Raises `UsageError` for text that names none."""
        try:
            wanted = Wanted(name=text, terms=encode(text, self.situation.pmus), event=text)
        except UnsupportedError as error:
            return Wanted(name=text, event=text, reason=str(error))
        return wanted if wanted.of_threads else msgspec.structs.replace(wanted, scope=Scope.SOCKET)

    def offers(self, everything: bool) -> Iterator[tuple[Wanted, str]]:
        """Every role in its countable form, or with a reason, and its meaning; with `everything` also the events that
        the kernel names. Opens each event and closes it again; counts nothing."""
        found = [(self.of_role(role.name), role.meaning) for role in ROLES.values()]
        for pmu in self.situation.pmus.values() if everything else ():
            for name, event in pmu.events.items():
                found.append((self.of_text(f"{pmu.name}/{name}/"), f"named by the kernel: {event}"))
        for wanted, meaning in found:
            yield countable(wanted, self.situation), meaning


def split_names(text: str) -> list[str]:
    """Names in a list with commas; those within the slashes of an event are its own: `cycles,cpu/event=1,umask=2/`."""
    return _LISTED.findall(text)


def encode(text: str, pmus: Mapping[str, Pmu]) -> tuple[Term, ...]:
    """The terms of one event's text.

    Raises `UsageError` for what isn't one, and `UnsupportedError` for one that this machine lacks."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise UsageError(f"no event {text!r}: neither a role nor PMU/TERMS/; see 'setebench counters list --all'")
    kind, terms = match.groups()
    return tuple(_term(pmu, _values(pmu, pmu.events.get(terms, terms))) for pmu in boxes(pmus, kind))


def boxes(pmus: Mapping[str, Pmu], kind: str) -> list[Pmu]:
    """PMUs of one kind, in order: that of this very name, or those numbered (amd_umc_0, amd_umc_1, ...).

    Raises `UnsupportedError` where the kernel shows none."""
    numbered = re.compile(rf"{re.escape(kind)}(?:_(\d+))?", re.ASCII)
    found = {int(match[1] or -1): pmu for name, pmu in pmus.items() if (match := numbered.fullmatch(name))}
    if not found:
        why = "a guest without one, a missing driver, or another processor"
        raise UnsupportedError(f"the kernel shows no PMU {kind!r} here ({why})")
    return [found[number] for number in sorted(found)]


def table_terms(spec: EventSpec, pmus: Mapping[str, Pmu]) -> tuple[Term, ...]:
    """The terms of a table's event in every box of its PMU. Raises `SetebenchError` where there is no such box."""
    found = boxes(pmus, spec.pmu)
    return tuple(_term(pmu, code.terms, float(code.factor)) for code in spec.codes for pmu in found)


def _term(pmu: Pmu, values: Mapping[str, int], factor: float = 1.0) -> Term:
    """An event with these values in the bits that the PMU's format gives them, lowest first.

    Raises `UsageError` for a term without a place in the format, or a value with more bits than its place."""
    fields = dict.fromkeys(FIELDS, 0)
    for name, value in values.items():
        places = pmu.formats.get(name, ((name, 0, 63),) if name in FIELDS else ())
        if not places:
            known = ", ".join(sorted({*pmu.formats, *pmu.events})) or "nothing"
            raise UsageError(f"the PMU {pmu.name} has no term or event {name!r}; it has {known}")
        rest = value
        for field, low, high in places:
            fields[field] |= (rest & ((1 << (high - low + 1)) - 1)) << low
            rest >>= high - low + 1
        if rest:
            raise UsageError(f"{name}={value:#x} is more than the bits that the PMU {pmu.name} has for it")
    return Term(attributes=Attributes(type=pmu.type, **fields), pmu=pmu.name, cpus=pmu.cpus, factor=factor)


def _values(pmu: Pmu, text: str) -> dict[str, int]:
    """The values of terms; one without a value is 1. Raises `UsageError` for what is no number, and for no term."""
    values = {}
    for part in filter(None, text.split(",")):
        name, equals, number = part.strip().partition("=")
        if equals and not _NUMBER.fullmatch(number):
            raise UsageError(f"not a number for {name!r} of {pmu.name}: {number!r}")
        values[name] = (int(number) if number.isdecimal() else int(number, 0)) if equals else 1
    if not values:
        raise UsageError(f"no term in {pmu.name}/{text}/")
    return values
