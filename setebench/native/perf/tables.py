"""Which event plays which role on which processor: the files in `events/`, read strictly, and which events fit at once.

One TOML file describes one microarchitecture and names the processors that it holds for, by vendor, family, model and
stepping. A processor that no file names has no table: a neighbour's is never taken, as the same number may count
something else there. docs/events.md describes the format; what a role means stands in `counters.roles`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from setebench.counters.roles import ROLES, Scope
from setebench.errors import SetebenchError
from setebench.host.processor import Processor

FOLDER = Path(__file__).parent / "events"
FIRST_FIXED = 32
"""Fixed counter i is number 32 + i here, as in the kernel."""
CYCLES_COUNTER = 33
"""The fixed counter of cycles, which the kernel's NMI watchdog takes."""
OFFCORE_REGISTERS = 2
"""MSRs 0x1A6 and 0x1A7; threads of a core share them."""


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record of a file; a key that it does not have is an error."""


class Code(_Strict, frozen=True, kw_only=True):
    """What one counter is set to. Fields are terms of the kernel's formats and have their names; those that are zero
    are left out. `scale`: how many of the role's units one count stands for, a number or a fraction ("8/9")."""

    event: int | None = None
    umask: int = 0
    cmask: int = 0
    offcore_rsp: int = 0
    rdwrmask: int = 0
    scale: Annotated[int, msgspec.Meta(gt=0)] | Annotated[str, msgspec.Meta(pattern=r"^[1-9]\d*(/[1-9]\d*)?$")] = 1

    @property
    def factor(self) -> Fraction:
        """`scale` as a number."""
        return Fraction(self.scale)

    @property
    def terms(self) -> dict[str, int]:
        """Terms of the PMU's format with their values; `event` always, others where they aren't zero."""
        values = {name: getattr(self, name) for name in Code.__struct_fields__ if name not in ("event", "scale")}
        return {"event": self.event or 0} | {name: value for name, value in values.items() if value}


class EventSpec(Code, frozen=True, kw_only=True):
    """The event, or the sum of events, that plays a role.

    `pmu`: kind of PMU as the kernel names it; every box of it (uncore_imc_0, uncore_imc_1, ...) is counted and the
    counts are added. `sum`: events that are added, each with its scale; else the record is the event itself.
    `counters`: numbers of the general counters that can hold it; `fixed`: the fixed counter that can, too. `width`:
    neighbouring counters that one event takes. `includes_prefetch` is `contradicted` where the documentation says yes
    and a published measurement no. `status`: whether one source documents it, or two that were written apart agree."""

    pmu: str = "cpu"
    sum: tuple[Code, ...] = ()
    counters: tuple[int, ...] = ()
    fixed: int | None = None
    width: int = 1
    scope: Scope = Scope.THREAD
    errata: tuple[str, ...] = ()
    includes_prefetch: Literal["yes", "no", "contradicted", "unknown"] = "unknown"
    sources: dict[str, str]
    conflicts: tuple[dict[str, str], ...] = ()
    notes: str = ""
    status: Literal["documented", "cross-checked"]

    def __post_init__(self) -> None:
        if (self.event is None) == (not self.sum) or any(code.event is None for code in self.sum):
            raise ValueError("needs one event, or a sum of events, with numbers")

    @property
    def codes(self) -> tuple[Code, ...]:
        """The events whose scaled counts are added."""
        return self.sum or (self,)

    @property
    def text(self) -> str:
        """The event as a user names it; those of a sum with plus signs and their scales."""
        terms = (",".join(f"{name}={value:#x}" for name, value in code.terms.items()) for code in self.codes)
        scales = ("" if code.factor == 1 else f"{code.scale} x " for code in self.codes)
        return " + ".join(f"{scale}{self.pmu}/{text}/" for scale, text in zip(scales, terms, strict=True))


class Match(_Strict, frozen=True, kw_only=True):
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


class Table(_Strict, frozen=True, kw_only=True):
    """One file. `like`: the table whose events hold here too, where this one gives a role no event of its own and no
    reason to be absent. `sources`: where encodings were looked up, a project's `path` at a `commit`, or a document.
    `absent`: roles that this microarchitecture has no event for, each with the reason in one line. `conflicts`: what
    another `source` says (`value`), and why ours stands (`note`); here those `about` events that play no role."""

    title: str
    like: str = ""
    processors: tuple[Match, ...]
    sources: dict[str, dict[str, str]]
    absent: dict[str, str] = {}
    conflicts: tuple[dict[str, str], ...] = ()
    roles: dict[str, EventSpec] = {}


def read_table(path: Path) -> Table:
    """The table in a file. Raises `SetebenchError` with file and place for a file that isn't one, a key that there is
    not, an unknown role, or an event without a number."""
    try:
        table = msgspec.toml.decode(path.read_bytes(), type=Table)
    except (msgspec.MsgspecError, ValueError) as error:
        raise SetebenchError(f"{path}: {error}") from error
    for role in (*table.roles, *table.absent):
        if role not in ROLES or (role in table.roles and role in table.absent):
            raise SetebenchError(f"{path}: there is no role {role!r}, or it is both here and absent")
    if table.like:
        others = read_table(path.with_name(f"{table.like}.toml")).roles
        roles = {role: table.roles.get(role) or others.get(role) for role in ROLES if role not in table.absent}
        table = msgspec.structs.replace(table, roles={role: spec for role, spec in roles.items() if spec is not None})
    return table


@cache
def load_tables() -> dict[str, Table]:
    """Every table by the name of its file."""
    return {path.stem: read_table(path) for path in sorted(FOLDER.glob("*.toml"))}


def table_for(processor: Processor) -> Table | None:
    """The table that names `processor`; None where none does."""
    tables = load_tables().values()
    return next((table for table in tables if any(match.holds(processor) for match in table.processors)), None)


def why_none(processor: Processor, role: str) -> str:
    """Why `processor` has no event for `role`, in one line."""
    table = table_for(processor)
    if table is not None:
        return table.absent.get(role, f"{table.title} has no event for it in our table")
    named = f"{processor.vendor} family {processor.family} model {processor.model} stepping {processor.stepping}"
    return f"no event table for {named}; raw events such as cpu/event=0x3c/ can still be counted"


# -- what fits at once: each event needs a counter that it may use, and no counter serves two -------------------------


def grouped(
    specs: Mapping[str, EventSpec], taken: Collection[int] = (), always: Sequence[str] = ()
) -> tuple[tuple[str, ...], ...]:
    """The roles in few sets that can each be counted at once, in the order of `specs` within a set. Each role goes into
    the first set that it fits, those that few counters can hold first; a role that no set holds has one of its own.
    `taken`: counters of a core that others use. `always`: roles that every set has, so that sets can be compared."""
    common = [role for role in always if role in specs]
    groups: list[list[str]] = []
    for role in sorted((role for role in specs if role not in common), key=lambda role: len(_ways(specs[role], taken))):
        place = next((group for group in groups if fits([specs[each] for each in (*group, role)], taken)), None)
        if place is None:
            groups.append([*common, role])
        else:
            place.append(role)
    return tuple(tuple(role for role in specs if role in group) for group in groups or ([common] if common else []))


def fits(specs: Sequence[EventSpec], taken: Collection[int] = ()) -> bool:
    """Whether these events can be counted at once: those that few counters can hold choose first. Boxes of other PMUs
    have counters of their own; an event without numbers takes any."""
    if len({code.offcore_rsp for spec in specs for code in spec.codes if code.offcore_rsp}) > OFFCORE_REGISTERS:
        return False
    used: set[tuple[str, int]] = {("cpu", counter) for counter in taken}
    limited = [spec for spec in specs for _ in spec.codes if spec.counters or spec.fixed is not None]
    for spec in sorted(limited, key=lambda spec: len(_ways(spec, taken))):
        ways = ({(spec.pmu, counter) for counter in way} for way in _ways(spec, taken))
        way = next((way for way in ways if not way & used), None)
        if way is None:
            return False
        used |= way
    return True


def _ways(spec: EventSpec, taken: Collection[int]) -> list[tuple[int, ...]]:
    """Counters that the event may take at once, the fixed one first, which fewer others can use."""
    ways: list[tuple[int, ...]] = [] if spec.fixed is None else [(FIRST_FIXED + spec.fixed,)]
    ways += [tuple(range(first, first + spec.width)) for first in spec.counters]
    return [way for way in ways if spec.pmu != "cpu" or not set(way) & set(taken)]
