"""From what an event is called to the request that the kernel gets.

    mem_read                          a role, by the table of this processor
    page-faults  cycles               the kernel's own events
    cpu/event=0x48,umask=0x1,cmask=1/ terms of a PMU's format, in every box of it (amd_umc is amd_umc_0, amd_umc_1, ...)
    uncore_imc_*/cas_count_read/      an event that the kernel names, in every box that matches and has it
    r1b1                              a number for the core's PMU
    mem:0x7f1200/8:w                  accesses to an address (r, w, x)

Modifiers follow the last slash, or a colon: u k h (user, kernel, hypervisor), p (precise), G H (guest, host). Where a
value goes says the kernel's format, which may split it: AMD's event 0x165 is 0x65 and bit 32.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from setebench.counters.roles import ROLES, Scope
from setebench.errors import SetebenchError, UnsupportedError, UsageError
from setebench.host.processor import read_processor
from setebench.host.tree import Tree
from setebench.native.perf import _perf
from setebench.native.perf.attributes import EVERYBODY, USER_ONLY, Attributes, Flag, Hardware, Software, Type
from setebench.native.perf.messages import Request, Situation, explain, no_pmu, read_situation, user_only
from setebench.native.perf.sysfs import CORE_PMUS, Pmu, core_pmus
from setebench.native.perf.tables import EventSpec, events_for, why_none

FIELDS = ("config", "config1", "config2", "config3")
MOST_EVENTS = 16
"""Wanted at once: as many as a program that marks regions has room for (`setebench.h`). No PMU counts as many."""
REFUSALS = (errno.EACCES, errno.EPERM)

_KERNEL_WORDS: dict[str, tuple[Type, int]] = {
    member.name.lower().replace("_", "-"): (kind, member.value)
    for kind, members in ((Type.HARDWARE, Hardware), (Type.SOFTWARE, Software))
    for member in members
}
"""Names of the kernel's own events as its tools spell them: PAGE_FAULTS is page-faults."""
_ALSO = {"faults": "page-faults", "minor-faults": "page-faults-min", "major-faults": "page-faults-maj"}
_ALSO |= {"cs": "context-switches", "migrations": "cpu-migrations"}
_ALSO |= {"cycles": "cpu-cycles", "branches": "branch-instructions"}
_ACCESSES = {"r": 1, "w": 2, "x": 4}
"""`bp_type` of a breakpoint."""
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]{1,16}|\d{1,19}", re.ASCII)
_PMU_TEXT = re.compile(r"([\w.*?-]+)/([^/]*)/(\w*)", re.ASCII)
_RAW_TEXT = re.compile(r"r([0-9a-fA-F]{1,16})(?::(\w+))?", re.ASCII)
_ACCESS_TEXT = re.compile(r"mem:(0x[0-9a-fA-F]{1,16})(?:/(\d))?(?::(rw?|w|x))?(?::(\w+))?", re.ASCII)
_NAME_TEXT = re.compile(r"([\w.-]+)(?::(\w+))?", re.ASCII)
_LISTED = re.compile(r"(?:mem:0x[0-9a-fA-F]+/\d|[^,/]|/[^/]*/)+")
"""One event of a list. A breakpoint's length follows a single slash (`mem:0x7f00/8:w`)."""


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

    def request(self, cpu: int | None) -> Request:
        """The request of the kernel: for the calling thread, or for everybody on a CPU."""
        if cpu is None:
            return Request(attributes=self.attributes)
        return Request(attributes=self.attributes, pid=EVERYBODY, cpu=cpu)


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


def _system(role: str, event: Software) -> Wanted:
    term = Term(attributes=Attributes(type=Type.SOFTWARE, config=event), pmu="software")
    text = f"software/{event.name.lower().replace('_', '-')}/"
    return Wanted(name=role, terms=(term,), event=text, unit=ROLES[role].unit)


SYSTEM_ROLES = {
    "task_clock": _system("task_clock", Software.TASK_CLOCK),
    "page_fault": _system("page_fault", Software.PAGE_FAULTS),
    "context_switch": _system("context_switch", Software.CONTEXT_SWITCHES),
    "cpu_migration": _system("cpu_migration", Software.CPU_MIGRATIONS),
}
"""Roles that every kernel counts."""


def countable(wanted: Wanted, situation: Situation) -> Wanted:
    """The same with every event in a form that the kernel opens here and that counts; without terms, and with the
    reason, where there is none. Events are opened and closed again; nothing is counted.

    Context switches and migrations happen inside the kernel: opened without the kernel's part, the only form that an
    ordinary user may open at perf_event_paranoid 2, they read 0 whatever happens. Such a form is never used."""
    forms = []
    for term in wanted.terms:
        number = _refusal(term)
        if number in REFUSALS and term.cpus is None and not term.attributes.flags & Flag.EXCLUDE_KERNEL:
            term = msgspec.structs.replace(term, attributes=term.attributes.with_flags(USER_ONLY))
            number = _refusal(term)
            if not number and term.is_software(Software.CONTEXT_SWITCHES, Software.CPU_MIGRATIONS):
                return msgspec.structs.replace(wanted, terms=(), reason=user_only(situation))
        if number:
            reason = explain(number, term.request(term.cpus[0] if term.cpus else None), situation)
            return msgspec.structs.replace(wanted, terms=(), reason=reason)
        forms.append(term)
    return msgspec.structs.replace(wanted, terms=tuple(forms))


def _refusal(term: Term) -> int:
    """0 where the event opens, else errno."""
    request = term.request(term.cpus[0] if term.cpus else None)
    try:
        _perf.close(_perf.open_event(request.attributes.with_flags(Flag.DISABLED), request.pid, request.cpu))
    except _perf.PerfError as error:
        return error.errno or errno.EINVAL
    return 0


# -- names ------------------------------------------------------------------------------------------------------------


class Resolver:
    """Events of the processor that a tree of system files describes (default: this one), by its table where there is
    one, and by the kernel's names and formats."""

    def __init__(self, tree: Tree | None = None) -> None:
        tree = tree or Tree(Path("/"))
        self.situation = read_situation(tree)
        self.processor = read_processor(tree)
        self.specs = events_for(self.processor)

    def named(self, names: Sequence[str]) -> tuple[Wanted, ...]:
        """What is to be counted under each name, in their order, each name once.

        Raises `UsageError` for names that are neither roles nor events, for none, and for more than `MOST_EVENTS`."""
        once = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
        if not once:
            raise UsageError("no event is named; see 'setebench counters list'")
        if len(once) > MOST_EVENTS:
            raise UsageError(f"{len(once)} events are named at once; at most {MOST_EVENTS} can be")
        return tuple(map(self._named, once))

    def _named(self, name: str) -> Wanted:
        role, _, modifiers = name.partition(":")
        if role not in ROLES:
            return self.of_text(name)
        wanted = self.of_role(role)
        return msgspec.structs.replace(wanted, name=name, terms=_modified(wanted.terms, modifiers))

    def of_role(self, name: str) -> Wanted:
        """The event that plays a role; a reason where there is none."""
        if name in SYSTEM_ROLES:
            return SYSTEM_ROLES[name]
        spec, role = self.specs.get(name), ROLES[name]
        scope, event = (spec.scope, spec.text) if spec else (role.scope, "")
        known = Wanted(name=name, event=event, unit=role.unit, scope=scope)
        if not core_pmus(self.situation.pmus):
            return msgspec.structs.replace(known, reason=no_pmu(self.situation))
        if spec is None:
            return msgspec.structs.replace(known, reason=why_none(self.processor, name))
        try:
            terms = table_terms(spec, self.situation.pmus)
        except SetebenchError as error:
            return msgspec.structs.replace(known, reason=str(error))
        return msgspec.structs.replace(known, terms=terms)

    def of_text(self, text: str) -> Wanted:
        """The event that `text` names (`cpu/event=0x48,umask=0x1/`, `r0148`, a name that the kernel lists).

        Raises `UsageError` for text that names none."""
        try:
            terms, unit = encode(text, self.situation.pmus)
        except UnsupportedError as error:
            return Wanted(name=text, event=text, reason=str(error))
        scope = Scope.THREAD if all(term.cpus is None for term in terms) else Scope.SOCKET
        return Wanted(name=text, terms=terms, event=text, unit=unit or "events", scope=scope)

    def offers(self, everything: bool) -> Iterator[tuple[Wanted, str]]:
        """Every role in its countable form, or with a reason, and its meaning; with `everything` also the events that
        the kernel names. Opens each event and closes it again; counts nothing."""
        found = [(self.of_role(role.name), role.meaning) for role in ROLES.values()]
        for pmu in self.situation.pmus.values() if everything else ():
            for name, event in pmu.events.items():
                found.append((self.of_text(f"{pmu.name}/{name}/"), f"named by the kernel: {event.text}"))
        for wanted, meaning in found:
            yield countable(wanted, self.situation), meaning


def split_names(text: str) -> list[str]:
    """Names in a list with commas; those within the slashes of an event are its own: `cycles,cpu/event=1,umask=2/`.

    Raises `UsageError` for a slash without its fellow."""
    names = [name.strip() for name in _LISTED.findall(text) if name.strip()]
    if "".join(",".join(names).split()) != "".join(text.strip(", ").split()):
        raise UsageError(f"{text!r} is no list of events: a slash or a comma too many or too few")
    return names


# -- texts ------------------------------------------------------------------------------------------------------------

Terms = tuple[Term, ...]


def encode(text: str, pmus: Mapping[str, Pmu]) -> tuple[Terms, str]:
    """The terms of one event's text, and their unit ("" for plain events).

    Raises `UsageError` for what isn't one, and `UnsupportedError` for one that this machine lacks."""
    if match := _ACCESS_TEXT.fullmatch(text):
        return _modified([Term(attributes=_access(text, match), pmu="breakpoint")], match[4]), ""
    if match := _PMU_TEXT.fullmatch(text):
        return _encoded(_matching(pmus, match[1], match[2]), match[2], match[3])
    cores = core_pmus(dict(pmus))
    if match := _RAW_TEXT.fullmatch(text):
        for pmu in cores[:1]:
            _check_bits(pmu, "config", int(match[1], 16))
        raw = Attributes(type=Type.RAW, config=int(match[1], 16))
        return _modified([Term(attributes=raw, pmu=CORE_PMUS[0])], match[2]), ""
    if match := _NAME_TEXT.fullmatch(text):
        if having := [pmu for pmu in cores if match[1] in pmu.events]:
            return _encoded(having, match[1], match[2])
        kind, config = _KERNEL_WORDS.get(_ALSO.get(match[1], match[1]), (None, 0))
        if kind is not None:
            name = "software" if kind is Type.SOFTWARE else CORE_PMUS[0]
            return _modified([Term(attributes=Attributes(type=kind, config=config), pmu=name)], match[2]), ""
    raise UsageError(f"no event {text!r}: neither a role of this processor nor a name that the kernel knows")


def boxes(pmus: Mapping[str, Pmu], kind: str) -> list[Pmu]:
    """PMUs of one kind, in order: that of this very name, or those numbered (amd_umc_0, amd_umc_1, ...).

    Raises `UnsupportedError` where the kernel shows none."""
    numbered = re.compile(rf"{re.escape(kind)}(?:_(\d+))?", re.ASCII)
    found = {int(match[1] or -1): pmu for name, pmu in pmus.items() if (match := numbered.fullmatch(name))}
    if not found:
        why = "a guest without one, a missing driver, or another processor"
        raise UnsupportedError(f"the kernel shows no PMU {kind!r} here ({why})")
    return [found[number] for number in sorted(found)]


def _matching(pmus: Mapping[str, Pmu], kind: str, terms: str) -> list[Pmu]:
    """Boxes of a kind, or with a pattern all that match and have every one of the terms."""
    names = {part.partition("=")[0] for part in terms.split(",") if part}
    matching = [pmus[name] for name in sorted(pmus) if fnmatchcase(name, kind)] if set("*?") & set(kind) else []
    having = [pmu for pmu in matching if names <= {*pmu.events, *pmu.formats, *FIELDS}]
    return having or boxes(pmus, kind)


def _encoded(pmus: Sequence[Pmu], terms: str, modifiers: str | None) -> tuple[Terms, str]:
    made = [_text_term(pmu, terms) for pmu in pmus]
    units = {unit for _, unit in made}
    return _modified([term for term, _ in made], modifiers), units.pop() if len(units) == 1 else ""


def table_terms(spec: EventSpec, pmus: Mapping[str, Pmu]) -> Terms:
    """The terms of a table's event in every box of its PMU. Raises `SetebenchError` where there is no such box."""
    found = boxes(pmus, spec.pmu)
    return tuple(_term(pmu, code.terms, float(code.factor)) for code in spec.codes for pmu in found)


def _term(pmu: Pmu, values: Mapping[str, int], factor: float) -> Term:
    """An event with these values in the bits that the PMU's format gives them, lowest first.

    Raises `UsageError` for a term without a place in the format, or a value with more bits than its place."""
    fields = dict.fromkeys(FIELDS, 0)
    for name, value in values.items():
        if name in FIELDS:
            _check_bits(pmu, name, value)
            fields[name] |= value
            continue
        places = pmu.formats.get(name)
        if places is None:
            known = ", ".join(sorted({*pmu.formats, *pmu.events})) or "nothing"
            raise UsageError(f"the PMU {pmu.name} has no term or event {name!r}; it has {known}")
        rest = value
        for field, low, high in places:
            width = high - low + 1
            fields[field] |= (rest & ((1 << width) - 1)) << low
            rest >>= width
        if rest:
            room = sum(high - low + 1 for _, low, high in places)
            raise UsageError(f"{name}={value:#x} is more than the {room} bits that the PMU {pmu.name} has for it")
    return Term(attributes=Attributes(type=pmu.type, **fields), pmu=pmu.name, cpus=pmu.cpus, factor=factor)


def _check_bits(pmu: Pmu, field: str, value: int) -> None:
    """Every bit that is set has a place in the PMU's format; one without formats takes anything."""
    foreign = value
    for place in (place for bits in pmu.formats.values() for place in bits if place.field == field):
        foreign &= ~((1 << (place.high + 1)) - (1 << place.low))
    if foreign and pmu.formats:
        raise UsageError(f"{field}={value:#x} sets bits {foreign:#x}, which the PMU {pmu.name} has no term for")


def _text_term(pmu: Pmu, text: str) -> tuple[Term, str]:
    """What a text of terms means in this PMU, and its unit. Terms that are written out win over an event's own."""
    own: dict[str, int] = {}
    written: dict[str, int] = {}
    factor, unit = 1.0, ""
    for part in filter(None, text.split(",")):
        name = part.partition("=")[0]
        if part in pmu.events and part not in pmu.formats:
            event = pmu.events[part]
            own |= [_pair(pmu, term) for term in event.text.split(",")]
            factor, unit = event.scale or factor, event.unit or unit
        elif name in written:
            raise UsageError(f"{name!r} stands twice in {pmu.name}/{text}/")
        else:
            written |= [_pair(pmu, part)]
    if not own | written:
        raise UsageError(f"no term in {pmu.name}/{text}/")
    return _term(pmu, own | written, factor), unit


def _pair(pmu: Pmu, text: str) -> tuple[str, int]:
    name, equals, number = text.strip().partition("=")
    if equals and not _NUMBER.fullmatch(number):
        raise UsageError(f"not a number for {name!r} of {pmu.name}: {number!r}")
    return name, int(number, 0 if number[:2].lower() == "0x" else 10) if equals else 1


def _access(text: str, match: re.Match[str]) -> Attributes:
    access = sum(_ACCESSES[letter] for letter in match[3] or "rw")
    code = access == _ACCESSES["x"]
    # what perf's tools take where no length is given, and the only length that the kernel takes for execution
    length, address = int(match[2] or (8 if code else 4)), int(match[1], 16)
    if length not in (1, 2, 4, 8) or (not code and address % length):
        raise UsageError(f"{text!r}: 1, 2, 4 or 8 bytes at a multiple of their number can be watched")
    return Attributes(type=Type.BREAKPOINT, bp_type=access, config1=address, config2=length)


_EXCLUDED = {"u": Flag.EXCLUDE_USER, "k": Flag.EXCLUDE_KERNEL, "h": Flag.EXCLUDE_HV}
_PLACES = {"H": Flag.EXCLUDE_HOST, "G": Flag.EXCLUDE_GUEST}


def _modified(terms: Iterable[Term], modifiers: str | None) -> Terms:
    """The terms with the flags of these letters: those of a kind that is not named are excluded."""
    letters, precise = set(modifiers or ""), (modifiers or "").count("p")
    if letters - {*_EXCLUDED, *_PLACES, "p"} or precise > 3:
        raise UsageError(f"unknown modifiers {modifiers!r}: u, k, h, G, H, and p up to 3 times")
    flags = Flag.PRECISE * precise
    for kinds in (_EXCLUDED, _PLACES):
        if letters & set(kinds):
            flags |= sum(flag for letter, flag in kinds.items() if letter not in letters)
    return tuple(msgspec.structs.replace(term, attributes=term.attributes.with_flags(flags)) for term in terms)
