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
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

import msgspec

from setebench.counters.roles import ROLES
from setebench.errors import SetebenchError, UnsupportedError, UsageError
from setebench.native.perf.attributes import Attributes, Breakpoint, Hardware, Software, Type
from setebench.native.perf.plans import SYSTEM_PLANS, Plan, Term
from setebench.native.perf.sysfs import CORE_PMUS, Pmu, core_pmus
from setebench.native.perf.tables import EventSpec

FIELDS = ("config", "config1", "config2", "config3")
_KERNEL_WORDS: dict[str, tuple[Type, int]] = {
    member.name.lower().replace("_", "-"): (kind, member.value)
    for kind, members in ((Type.HARDWARE, Hardware), (Type.SOFTWARE, Software))
    for member in members
}
"""Names of the kernel's own events as its tools spell them: PAGE_FAULTS is page-faults."""
_ALSO = {"faults": "page-faults", "minor-faults": "page-faults-min", "major-faults": "page-faults-maj"}
_ALSO |= {"cs": "context-switches", "migrations": "cpu-migrations"}
_ALSO |= {"cycles": "cpu-cycles", "branches": "branch-instructions"}
_OWN_PMUS = {int(Type.SOFTWARE): "software", int(Type.BREAKPOINT): "breakpoint"}
_ACCESSES = {"r": Breakpoint.READ, "w": Breakpoint.WRITE, "x": Breakpoint.EXECUTE}
_USUAL_ACCESS_BYTES, _CODE_ACCESS_BYTES = "4", "8"
"""What perf's tools take where no length is given, and the only length that the kernel takes for execution."""
_MODIFIERS, _PRECISE_MOST = "ukhpGH", 3
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


def boxes(pmus: Mapping[str, Pmu], kind: str) -> list[Pmu]:
    """PMUs of one kind, in order: that of this very name, or those numbered (amd_umc_0, amd_umc_1, ...).

    Raises `UnsupportedError` where the kernel shows none."""
    numbered = re.compile(rf"{re.escape(kind)}(?:_(\d+))?", re.ASCII)
    found = {int(match[1] or -1): pmu for name, pmu in pmus.items() if (match := numbered.fullmatch(name))}
    return _some([found[number] for number in sorted(found)], kind)


def _some(pmus: list[Pmu], kind: str) -> list[Pmu]:
    if not pmus:
        why = "a guest without one, a missing driver, or another processor"
        raise UnsupportedError(f"the kernel shows no PMU {kind!r} here ({why})")
    return pmus


def plan_of(role: str, spec: EventSpec, pmus: dict[str, Pmu]) -> Plan:
    """How the role is counted here, in every box of its PMU, or why it can't be."""
    try:
        found = boxes(pmus, spec.pmu)
        return Plan(
            role=role, terms=tuple(_term(pmu, code.terms, float(code.factor)) for code in spec.codes for pmu in found)
        )
    except SetebenchError as error:
        return Plan(role=role, reason=str(error))


class Encoder:
    """Encodes names and numbers for the PMUs that the kernel shows. `specs`: the table's events by role, which come
    before the kernel's events of the same name."""

    def __init__(self, pmus: dict[str, Pmu], specs: Mapping[str, EventSpec]) -> None:
        self._pmus, self._specs = pmus, specs

    def encode(self, text: str) -> Encoded:
        """One event.

        Raises `UsageError` for what isn't one, and `UnsupportedError` for one that this machine lacks."""
        if match := _ACCESS_TEXT.fullmatch(text):
            return self._plain(text, _access(text, match), match[4])
        if match := _PMU_TEXT.fullmatch(text):
            return self._of_pmu(text, *match.groups())
        if (match := _RAW_TEXT.fullmatch(text)) and text not in self._specs:
            return self._raw(text, int(match[1], 16), match[2])
        match = _NAME_TEXT.fullmatch(text)
        found = self._named(text, match[1], match[2]) if match else None
        if found is None:
            raise UsageError(f"no event {text!r}: neither a role of this processor nor a name that the kernel knows")
        return found

    def _named(self, text: str, name: str, modifiers: str | None) -> Encoded | None:
        if name in SYSTEM_PLANS or name in self._specs:
            plan = SYSTEM_PLANS.get(name) or plan_of(name, self._specs[name], self._pmus)
            if plan.reason:
                raise UnsupportedError(plan.reason)
            return Encoded(text=text, terms=_modified(plan.terms, modifiers), unit=ROLES[name].unit)
        if having := [pmu for pmu in core_pmus(self._pmus) if name in pmu.events]:
            return self._encoded(text, having, name, modifiers)
        kind, config = _KERNEL_WORDS.get(_ALSO.get(name, name), (None, 0))
        return None if kind is None else self._plain(text, Attributes(type=kind, config=config), modifiers)

    def _of_pmu(self, text: str, kind: str, terms: str, modifiers: str) -> Encoded:
        if "*" not in kind and "?" not in kind:
            return self._encoded(text, boxes(self._pmus, kind), terms, modifiers)
        names = [part.partition("=")[0] for part in terms.split(",") if part]
        matching = (self._pmus[name] for name in sorted(self._pmus) if fnmatchcase(name, kind))
        having = [pmu for pmu in matching if all(name in {*pmu.events, *pmu.formats, *FIELDS} for name in names)]
        return self._encoded(text, _some(having, kind), terms, modifiers)

    def _encoded(self, text: str, pmus: list[Pmu], terms: str, modifiers: str | None) -> Encoded:
        made = [_text_term(pmu, terms) for pmu in pmus]
        units = {unit for _, unit in made}
        unit = units.pop() if len(units) == 1 else ""
        return Encoded(text=text, terms=_modified((term for term, _ in made), modifiers), unit=unit)

    def _plain(self, text: str, attributes: Attributes, modifiers: str | None) -> Encoded:
        """An event of one of the kernel's own types, or of a PMU that is listed with its type."""
        pmu = next((pmu for pmu in self._pmus.values() if pmu.type == attributes.type), None)
        name = pmu.name if pmu else _OWN_PMUS.get(attributes.type, CORE_PMUS[0])
        term = Term(attributes=attributes, pmu=name, cpus=pmu.cpus if pmu else None)
        return Encoded(text=text, terms=_modified((term,), modifiers))

    def _raw(self, text: str, config: int, modifiers: str | None) -> Encoded:
        for pmu in core_pmus(self._pmus)[:1]:
            _check_bits(pmu, "config", config)
        return self._plain(text, Attributes(type=Type.RAW, config=config), modifiers)


# -- terms -----------------------------------------------------------------------------------------------------------


def placed_terms(pmu: Pmu, values: Mapping[str, int]) -> dict[str, int]:
    """Fields of the attributes with these terms' values in the bits that the PMU's format gives them, lowest first.

    Raises `UsageError` for a term without a place in the format, or a value with more bits than its place."""
    fields = dict.fromkeys(FIELDS, 0)
    for name, value in values.items():
        if name in FIELDS:
            _check_bits(pmu, name, value)
            fields[name] |= value
            continue
        if name not in pmu.formats:
            raise UsageError(
                f"the PMU {pmu.name} has no term {name!r}; it has {', '.join(sorted(pmu.formats)) or 'none'}"
            )
        rest = value
        for field, low, high in pmu.formats[name]:
            width = high - low + 1
            fields[field] |= (rest & ((1 << width) - 1)) << low
            rest >>= width
        if rest:
            room = sum(high - low + 1 for _, low, high in pmu.formats[name])
            raise UsageError(f"{name}={value:#x} is more than the {room} bits that the PMU {pmu.name} has for it")
    return fields


def _check_bits(pmu: Pmu, field: str, value: int) -> None:
    """Every bit that is set has a place in the PMU's format; one without formats takes anything."""
    foreign = value
    for place in (place for bits in pmu.formats.values() for place in bits if place.field == field):
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


def _access(text: str, match: re.Match[str]) -> Attributes:
    access = sum(_ACCESSES[letter] for letter in match[3] or "rw")
    code = access == Breakpoint.EXECUTE
    length, address = int(match[2] or (_CODE_ACCESS_BYTES if code else _USUAL_ACCESS_BYTES)), int(match[1], 16)
    if length not in (1, 2, 4, 8) or (not code and address % length):
        raise UsageError(f"{text!r}: 1, 2, 4 or 8 bytes at a multiple of their number can be watched")
    return Attributes(type=Type.BREAKPOINT, bp_type=access, config1=address, config2=length)


def _modified(terms: Iterable[Term], modifiers: str | None) -> tuple[Term, ...]:
    letters, replace = modifiers or "", msgspec.structs.replace
    precise = letters.count("p")
    if set(letters) - set(_MODIFIERS) or precise > _PRECISE_MOST:
        raise UsageError(f"unknown modifiers {modifiers!r}: u, k, h, G, H, and p up to {_PRECISE_MOST} times")
    flags: dict[str, int] = {"precise_ip": precise} if precise else {}
    if set(letters) & set("ukh"):
        whole = {"exclude_user": "u", "exclude_kernel": "k", "exclude_hv": "h"}
        flags |= {flag: letter not in letters for flag, letter in whole.items()}
    if set(letters) & set("GH"):
        flags |= {"exclude_host": "H" not in letters, "exclude_guest": "G" not in letters}
    return tuple(replace(term, attributes=replace(term.attributes, **flags)) for term in terms)
