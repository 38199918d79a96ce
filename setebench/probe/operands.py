"""What operations name: bases, operands, and instruction addresses that several accesses share."""

from __future__ import annotations

from dataclasses import dataclass

from setebench.errors import ProbeError

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
