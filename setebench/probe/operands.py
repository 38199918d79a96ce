"""Operations for people, and what they name: bases, operands, and instruction addresses that several accesses share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from setebench.errors import ProbeError
from setebench.probe import kernels
from setebench.probe.table import BRACKETS, FENCES, FLUSHES, HINTS, WORKS, Kind

IP_SPAN_BITS = 26
"""Instruction addresses can be chosen modulo 2**26; more bits than any published IP-indexed prefetcher table uses."""


@dataclass(frozen=True, slots=True)
class Base:
    """A named address, given anew for every repetition by the placement table."""

    name: str

    def __add__(self, offset: int) -> Operand:
        return Operand(self, offset)

    def __sub__(self, offset: int) -> Operand:
        return Operand(self, -offset)


@dataclass(frozen=True, slots=True)
class Operand:
    """`offset` bytes from `base`."""

    base: Base
    offset: int = 0

    def __add__(self, offset: int) -> Operand:
        return Operand(self.base, self.offset + offset)

    def __sub__(self, offset: int) -> Operand:
        return Operand(self.base, self.offset - offset)


@dataclass(frozen=True, slots=True)
class InstructionAddress:
    """An instruction address that several accesses share, and where it lies.

    `bits` are the low `IP_SPAN_BITS` bits of the address, None where the machine may choose.
    """

    label: str
    bits: int | None = None


def merge_address(addresses: list[InstructionAddress], new: InstructionAddress) -> int:
    """Index of `new` in `addresses`, appended if its label is not there yet."""
    for index, earlier in enumerate(addresses):
        if earlier.label == new.label:
            if earlier.bits is None and new.bits is not None:
                addresses[index] = new
            elif new.bits is not None and new.bits != earlier.bits:
                raise ProbeError(
                    f"instruction address {new.label!r} is placed twice, at {earlier.bits:#x} and {new.bits:#x}"
                )
            return index
    addresses.append(new)
    return len(addresses) - 1


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
