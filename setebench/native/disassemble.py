"""The machine code of a probe, for people to read. Nothing is run and nothing is calibrated."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from iced_x86 import Decoder, Formatter, FormatterSyntax, Instruction, OpKind

from setebench.errors import UsageError
from setebench.host.processor import read_processor
from setebench.host.tree import Tree
from setebench.native import _engine
from setebench.probe import BRACKETS, InstructionAddress, Probe, notation

_HALF = 1 << 63
_BRANCHES = (OpKind.NEAR_BRANCH16, OpKind.NEAR_BRANCH32, OpKind.NEAR_BRANCH64)


@dataclass(frozen=True, slots=True)
class Line:
    """One instruction; `offset` counts from the code's begin and may be negative for a placed one."""

    offset: int
    code: bytes
    text: str


@dataclass(frozen=True, slots=True)
class Part:
    """Instructions that belong together: an operation, a shared instruction address, or a part of the driver."""

    title: str
    lines: tuple[Line, ...]

    @property
    def code_bytes(self) -> int:
        """Bytes of the part's instructions."""
        return sum(len(line.code) for line in self.lines)


def stitch(probe: Probe, *, bracket: str = "lfence", together: bool = False, to_run: bool = False) -> _engine.Stitched:
    """The probe's machine code on this CPU, to be read, or `to_run`. `bracket` serves starts and stops that name none;
    `together` puts the barrier of a joint run before every repetition.

    Raises `ProbeError` for a probe that makes no sense, `UsageError` for an unknown bracket, `UnsupportedError` for an
    operation that this CPU lacks."""
    if bracket not in BRACKETS:
        raise UsageError(f"unknown bracket {bracket!r}; one of {', '.join(BRACKETS)}")
    _engine.prepare(frozenset(read_processor(Tree(Path("/"))).flags))
    placed = [address.bits for address in probe.instruction_addresses]
    number = BRACKETS.index(bracket)
    return _engine.Stitched(probe.rows, len(probe.bases), probe.intervals, placed, number, together, to_run)


def disassemble(probe: Probe, *, bracket: str = "lfence", together: bool = False) -> tuple[Part, ...]:
    """The probe's code in the order in which it runs; shared accesses that it calls come last. Raises as `stitch`."""
    stitched = stitch(probe, bracket=bracket, together=together)
    code, begin = stitched.code_at(), stitched.operations_begin
    labels = {stub[0] - stitched.address: address.label for stub, address in _shared(stitched, probe)}
    parts = [Part("driver: enter, and begin a repetition", _lines(code[:begin], 0, labels))]
    for number, (end, statement) in enumerate(zip(stitched.operation_ends, notation.statements(probe), strict=True)):
        parts.append(Part(f"operation {number}: {statement}", _lines(code[begin:end], begin, labels)))
        begin = end
    parts.append(Part("driver: end a repetition, and leave", _lines(code[begin:], begin, labels)))
    for (address, size, first), shared in _shared(stitched, probe):
        low = "" if shared.bits is None else f", low 26 bits of its address {shared.bits:#x}"
        title = f"shared instruction address {shared.label}, first used by operation {first}{low}"
        parts.append(Part(title, _lines(ctypes.string_at(address, size), address - stitched.address, labels)))
    return tuple(parts)


def _shared(stitched: _engine.Stitched, probe: Probe) -> Iterator[tuple[tuple[int, int, int], InstructionAddress]]:
    return zip(stitched.stubs, probe.instruction_addresses, strict=True)


def _lines(code: bytes, begin: int, labels: Mapping[int, str] | None = None) -> tuple[Line, ...]:
    """Decode `code`, which lies `begin` bytes from the code's begin. `labels` name the places that calls go to."""
    formatter = Formatter(FormatterSyntax.INTEL)
    formatter.space_after_operand_separator = True
    formatter.hex_prefix, formatter.hex_suffix = "0x", ""
    formatter.uppercase_hex = formatter.branch_leading_zeros = False
    formatter.rip_relative_addresses = formatter.show_branch_size = False
    return tuple(
        Line(begin + one.ip, code[one.ip : one.ip + one.len], _text(one, begin, formatter, labels or {}))
        for one in Decoder(64, code, ip=0)
    )


def _text(instruction: Instruction, begin: int, formatter: Formatter, labels: Mapping[int, str]) -> str:
    if instruction.op_count == 0 or instruction.op0_kind not in _BRANCHES:
        return str(formatter.format(instruction))
    # decoded at 0, so a target that lies below has wrapped around
    target = begin + (instruction.near_branch_target + _HALF) % (2 * _HALF) - _HALF
    return f"{formatter.format_mnemonic(instruction)} {labels.get(target, f'{target:#x}')}"
