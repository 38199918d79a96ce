"""Operations for people: a row of the table with names in place of indices."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from setebench.probe import kernels
from setebench.probe.operands import Base, InstructionAddress, Operand
from setebench.probe.table import BRACKETS, FENCES, FLUSHES, HINTS, WORKS, Kind


class Operation(msgspec.Struct, frozen=True):
    """One operation, for people; the fields are the columns of `COLUMNS` with names in place of indices."""

    kind: Kind
    operand: Operand | None
    size: int
    variant: str
    count: int
    ip: InstructionAddress | None
    after: int | None
    interval: int | None
    dither: bool
    rolled: bool
    advance: int


_VARIANTS = {
    Kind.PREFETCH: HINTS,
    Kind.FLUSH: FLUSHES,
    Kind.FENCE: FENCES,
    Kind.START: BRACKETS,
    Kind.STOP: BRACKETS,
    Kind.MULTIPLY: ("free", "chained"),
    Kind.STREAM: kernels.NAMES,
    Kind.CHASE: WORKS,
}


def named(bases: Sequence[Base], addresses: Sequence[InstructionAddress], row: Sequence[int]) -> Operation:
    """The operation of a row, whose numbers count the probe's bases and instruction addresses."""
    number, base, offset, size, variant, count, ip, after, interval, dither = row
    kind = Kind(number)
    return Operation(
        kind=kind,
        operand=Operand(bases[base], offset) if base >= 0 else None,
        size=size,
        variant=_VARIANTS[kind][variant] if kind in _VARIANTS and variant >= 0 else "",
        count=count,
        ip=addresses[ip] if ip >= 0 else None,
        after=after if after >= 0 else None,
        interval=interval if interval >= 0 else None,
        dither=kind == Kind.START and bool(dither),
        rolled=kind == Kind.STREAM and bool(dither),
        advance=offset if kind == Kind.REPEAT else 0,
    )
