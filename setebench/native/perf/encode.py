"""From what an event is called to what the kernel is asked for.

    mem_read                          a role, by the table of this processor
    page-faults  cycles               the kernel's own events
    cpu/event=0x48,umask=0x1,cmask=1/ terms of a PMU's format, in every box of it (amd_umc is amd_umc_0, amd_umc_1, ...)
    uncore_imc_*/cas_count_read/      an event that the kernel names, in every box that matches and has it
    r1b1                              a number for the core's PMU
    mem:0x7f1200/8:w                  accesses to an address (r, w, x)

Modifiers follow the last slash, or a colon: u k h (user, kernel, hypervisor), p (precise), G H (guest, host). Where a
value goes says the kernel's format, which may split it: AMD's event 0x165 is 0x65 and bit 32. The words are those of
perf_event_open(2) and its tools, so that a list from elsewhere can be used here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from fnmatch import fnmatchcase

import msgspec

from setebench.counters.roles import ROLES
from setebench.errors import SetebenchError, UnsupportedError, UsageError
from setebench.native.perf.attributes import Attributes, Breakpoint, Hardware, Software, Type
from setebench.native.perf.libpfm import Libpfm
from setebench.native.perf.plans import SYSTEM_PLANS, Plan, Term
from setebench.native.perf.sysfs import CORE_PMUS, Pmu, core_pmus
from setebench.native.perf.tables import EventSpec

FIELDS = ("config", "config1", "config2", "config3")


def _words(kind: type[IntEnum]) -> dict[str, int]:
    """Names of the kernel's own events as its tools spell them: PAGE_FAULTS is page-faults."""
    return {member.name.lower().replace("_", "-"): member.value for member in kind}


_SOFTWARE = _words(Software)
_HARDWARE = _words(Hardware)
_ALSO = {"faults": "page-faults", "minor-faults": "page-faults-min", "major-faults": "page-faults-maj"}
_ALSO |= {"cs": "context-switches", "migrations": "cpu-migrations"}
_ALSO |= {"cycles": "cpu-cycles", "branches": "branch-instructions"}
_OWN_PMUS = {int(Type.SOFTWARE): "software", int(Type.BREAKPOINT): "breakpoint"}
_IN_KERNEL = (Software.CONTEXT_SWITCHES, Software.CPU_MIGRATIONS)
_ACCESSES = {"r": Breakpoint.READ, "w": Breakpoint.WRITE, "x": Breakpoint.EXECUTE}
_USUAL_ACCESS_BYTES = 4  # what perf's tools take where no length is given
_CODE_ACCESS_BYTES = 8  # sizeof(long): the only length that the kernel takes for execution
_MODIFIERS = "ukhpGH"
_PRECISE_MOST = 3
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]{1,16}|\d{1,20}", re.ASCII)
_PMU_TEXT = re.compile(r"([\w.*?-]+)/([^/]*)/(\w*)", re.ASCII)
_RAW_TEXT = re.compile(r"r([0-9a-fA-F]{1,16})(?::(\w+))?", re.ASCII)
_ACCESS_TEXT = re.compile(r"mem:(0x[0-9a-fA-F]{1,16})(?:/(\d))?(?::(rw?|w|x))?(?::(\w+))?", re.ASCII)
_NAME_TEXT = re.compile(r"([\w.-]+)(?::(\w+))?", re.ASCII)


class Encoded(msgspec.Struct, frozen=True, kw_only=True):
    """An event as the sum of its terms, each count times its factor. `unit`: of the sum, "" for plain events."""

    text: str
    terms: tuple[Term, ...]
    unit: str = ""


def boxes(pmus: dict[str, Pmu], kind: str) -> list[Pmu]:
    """PMUs of one kind, in order: that of this very name, or those numbered (amd_umc_0, amd_umc_1, ...)."""
    numbered = re.compile(rf"{re.escape(kind)}(?:_(\d+))?", re.ASCII)
    found = [(int(match[1] or -1), pmu) for name, pmu in pmus.items() if (match := numbered.fullmatch(name))]
    return [pmu for _, pmu in sorted(found, key=lambda pair: pair[0])]


def placed_terms(pmu: Pmu, values: Mapping[str, int]) -> dict[str, int]:
    """Fields of the attributes with these terms' values in the bits that the PMU's format gives them, lowest first.

    Raises `UsageError` for a term without a place in the format, or a value with more bits than its place."""
    fields = dict.fromkeys(FIELDS, 0)
    for name, value in values.items():
        for field, bits in _deposited(pmu, name, value):
            fields[field] |= bits
    return fields


def encode_spec(spec: EventSpec, pmus: dict[str, Pmu]) -> tuple[Term, ...]:
    """A table's event in every box of its PMU. Raises `UnsupportedError` where the kernel shows no such PMU, or one
    whose format lacks a term."""
    found = boxes(pmus, spec.pmu)
    if not found:
        raise UnsupportedError(_no_pmu(spec.pmu))
    try:
        return tuple(_term(pmu, code.terms, float(code.factor)) for code in spec.codes for pmu in found)
    except UsageError as error:
        raise UnsupportedError(str(error)) from error


def plan_of(role: str, spec: EventSpec, pmus: dict[str, Pmu]) -> Plan:
    """How the role is counted here, or why it can't be."""
    try:
        return Plan(role=role, terms=encode_spec(spec, pmus))
    except SetebenchError as error:
        return Plan(role=role, reason=str(error))


class Encoder:
    """Encodes names and numbers for the PMUs that the kernel shows.

    `specs`: the table's events by role, which come before the kernel's events of the same name. `names`: opens what
    knows more names, once one is asked for that nobody else knows; raises `UnsupportedError` where there is none."""

    def __init__(
        self, pmus: dict[str, Pmu], specs: Mapping[str, EventSpec], names: Callable[[], Libpfm] = Libpfm
    ) -> None:
        self._pmus = pmus
        self._specs = specs
        self._names = names

    def encode(self, text: str) -> Encoded:
        """One event.

        Raises `UsageError` for what isn't one, and `UnsupportedError` for one that this machine lacks."""
        if match := _ACCESS_TEXT.fullmatch(text):
            return self._plain(text, _access(text, match), match[4])
        if match := _PMU_TEXT.fullmatch(text):
            return self._of_pmu(text, match)
        if (match := _RAW_TEXT.fullmatch(text)) and text not in self._specs:
            return self._raw(text, int(match[1], 16), match[2])
        if match := _NAME_TEXT.fullmatch(text):
            found = self._named(text, match[1], match[2])
            if found is not None:
                return found
        return self._plain(text, self._elsewhere(text), None)

    def _elsewhere(self, text: str) -> Attributes:
        try:
            return self._names().encode(text)
        except SetebenchError as error:
            known = "neither a role of this processor nor a name that the kernel knows"
            raise UsageError(f"no event {text!r}: {known}; {error}") from error

    def _named(self, text: str, name: str, modifiers: str | None) -> Encoded | None:
        if name in SYSTEM_PLANS:
            return Encoded(text=text, terms=_modified(SYSTEM_PLANS[name].terms, modifiers), unit=ROLES[name].unit)
        if name in self._specs:
            terms = encode_spec(self._specs[name], self._pmus)
            return Encoded(text=text, terms=_modified(terms, modifiers), unit=ROLES[name].unit)
        if having := [pmu for pmu in core_pmus(self._pmus) if name in pmu.events]:
            return self._encoded(text, having, name, modifiers)
        word = _ALSO.get(name, name)
        for kind, words in ((Type.SOFTWARE, _SOFTWARE), (Type.HARDWARE, _HARDWARE)):
            if word in words:
                return self._plain(text, Attributes(type=kind, config=words[word]), modifiers)
        return None

    def _of_pmu(self, text: str, match: re.Match[str]) -> Encoded:
        kind, terms, modifiers = match[1], match[2], match[3]
        if "*" not in kind and "?" not in kind:
            found = boxes(self._pmus, kind)
        else:
            matching = sorted(name for name in self._pmus if fnmatchcase(name, kind))
            found = [self._pmus[name] for name in matching if _has_names(self._pmus[name], terms)]
        if not found:
            raise UnsupportedError(_no_pmu(kind))
        return self._encoded(text, found, terms, modifiers)

    def _encoded(self, text: str, pmus: list[Pmu], terms: str, modifiers: str | None) -> Encoded:
        made = [_text_term(pmu, terms) for pmu in pmus]
        units = {unit for _, unit in made}
        unit = units.pop() if len(units) == 1 else ""
        return Encoded(text=text, terms=_modified((term for term, _ in made), modifiers), unit=unit)

    def _plain(self, text: str, attributes: Attributes, modifiers: str | None) -> Encoded:
        """An event of one of the kernel's own types, or of a PMU that is listed with its type."""
        pmu = next((pmu for pmu in self._pmus.values() if pmu.type == attributes.type), None)
        in_kernel = attributes.type == Type.SOFTWARE and attributes.config in _IN_KERNEL
        name = pmu.name if pmu else _OWN_PMUS.get(attributes.type, CORE_PMUS[0])
        term = Term(attributes=attributes, pmu=name, cpus=pmu.cpus if pmu else None, in_kernel=in_kernel)
        return Encoded(text=text, terms=_modified((term,), modifiers))

    def _raw(self, text: str, config: int, modifiers: str | None) -> Encoded:
        for pmu in core_pmus(self._pmus)[:1]:
            _check_bits(pmu, "config", config)
        return self._plain(text, Attributes(type=Type.RAW, config=config), modifiers)


# -- terms -----------------------------------------------------------------------------------------------------------


def _deposited(pmu: Pmu, name: str, value: int) -> Iterable[tuple[str, int]]:
    if name in FIELDS:
        _check_bits(pmu, name, value)
        return [(name, value)]
    if name not in pmu.formats:
        known = ", ".join(sorted(pmu.formats)) or "none"
        raise UsageError(f"the PMU {pmu.name} has no term {name!r}; it has {known}")
    return _spread(pmu, name, value)


def _spread(pmu: Pmu, name: str, value: int) -> Iterable[tuple[str, int]]:
    rest = value
    placed = []
    for field, low, high in pmu.formats[name]:
        width = high - low + 1
        placed.append((field, (rest & ((1 << width) - 1)) << low))
        rest >>= width
    if rest:
        room = sum(high - low + 1 for _, low, high in pmu.formats[name])
        raise UsageError(f"{name}={value:#x} is more than the {room} bits that the PMU {pmu.name} has for it")
    return placed


def _check_bits(pmu: Pmu, field: str, value: int) -> None:
    """Whether the PMU's format has a place for every bit that is set; one without formats takes anything."""
    places = [place for bits in pmu.formats.values() for place in bits if place.field == field]
    foreign = value
    for place in places:
        foreign &= ~((1 << (place.high + 1)) - (1 << place.low))
    if foreign and pmu.formats:
        raise UsageError(f"{field}={value:#x} sets bits {foreign:#x}, which the PMU {pmu.name} has no term for")


def _term(pmu: Pmu, values: Mapping[str, int], factor: float) -> Term:
    attributes = msgspec.structs.replace(Attributes(type=pmu.type), **placed_terms(pmu, values))
    return Term(attributes=attributes, pmu=pmu.name, cpus=pmu.cpus, factor=factor)


def _text_term(pmu: Pmu, text: str) -> tuple[Term, str]:
    """What a text of terms means in this PMU, and its unit. Terms that are written out win over an event's own."""
    own: dict[str, int] = {}
    written: dict[str, int] = {}
    factor, unit = 1.0, ""
    for part in filter(None, text.split(",")):
        name, equals, _ = part.partition("=")
        if not equals and name in pmu.events and name not in pmu.formats:
            event = pmu.events[name]
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
    if name not in pmu.formats and name not in FIELDS:
        known = ", ".join(sorted({*pmu.formats, *pmu.events})) or "nothing"
        raise UsageError(f"the PMU {pmu.name} has no term or event {name!r}; it has {known}")
    if not equals:
        return name, 1
    if not _NUMBER.fullmatch(number) or int(number, 0) >= 1 << 64:
        raise UsageError(f"not a number for {name!r} of {pmu.name}: {number!r}")
    return name, int(number, 0)


def _has_names(pmu: Pmu, text: str) -> bool:
    """Whether the PMU knows every term and event of the text, so that a pattern takes it."""
    names = [part.partition("=")[0] for part in text.split(",") if part]
    return all(name in pmu.events or name in pmu.formats or name in FIELDS for name in names)


def _access(text: str, match: re.Match[str]) -> Attributes:
    access = sum(_ACCESSES[letter] for letter in match[3] or "rw")
    code = access == Breakpoint.EXECUTE
    length = int(match[2] or (_CODE_ACCESS_BYTES if code else _USUAL_ACCESS_BYTES))
    address = int(match[1], 16)
    if length not in (1, 2, 4, 8) or (not code and address % length):
        raise UsageError(f"{text!r}: 1, 2, 4 or 8 bytes at a multiple of their number can be watched")
    return Attributes(type=Type.BREAKPOINT, bp_type=access, bp_address=address, bp_bytes=length)


def _modified(terms: Iterable[Term], modifiers: str | None) -> tuple[Term, ...]:
    flags, replace = _flags(modifiers or ""), msgspec.structs.replace
    return tuple(replace(term, attributes=replace(term.attributes, **flags)) for term in terms)


def _flags(modifiers: str) -> dict[str, int | bool]:
    precise = modifiers.count("p")
    if set(modifiers) - set(_MODIFIERS) or precise > _PRECISE_MOST:
        raise UsageError(f"unknown modifiers {modifiers!r}: u, k, h, G, H, and p up to {_PRECISE_MOST} times")
    flags: dict[str, int | bool] = {"precise_ip": precise} if precise else {}
    if set(modifiers) & set("ukh"):
        whole = {"exclude_user": "u", "exclude_kernel": "k", "exclude_hv": "h"}
        flags |= {flag: letter not in modifiers for flag, letter in whole.items()}
    if set(modifiers) & set("GH"):
        flags |= {"exclude_host": "H" not in modifiers, "exclude_guest": "G" not in modifiers}
    return flags


def _no_pmu(kind: str) -> str:
    return f"the kernel shows no PMU {kind!r} here (a guest without one, a missing driver, or another processor)"
