"""What tests of machine code share: decoding, and which registers and memory an instruction uses."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

from iced_x86 import Decoder, Instruction, InstructionInfoFactory, MemorySizeExt, OpAccess, Register, RegisterExt

from setebench.native.stitching import Stitched
from setebench.probe import Probe

READS = {OpAccess.READ, OpAccess.COND_READ, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE}
WRITES = {OpAccess.WRITE, OpAccess.COND_WRITE, OpAccess.READ_WRITE, OpAccess.READ_COND_WRITE}

REGISTER_NAMES = {value: name.lower() for name, value in vars(Register).items() if isinstance(value, int)}
BASE_REGISTERS = tuple(getattr(Register, name) for name in ("RSI", "RDI", "R8", "R9", "R10", "RCX"))

_factory = InstructionInfoFactory()


def stitch(probe: Probe, to_run: bool = False) -> Stitched:
    """The probe's machine code on this CPU, to be read, or `to_run`."""
    return Stitched(probe, "lfence", together=False, to_run=to_run)


def decode(code: bytes, at: int = 0) -> list[Instruction]:
    """All of `code`, which lies at `at`; fails where bytes are no instruction."""
    instructions = list(Decoder(64, code, ip=at))
    assert all(not one.is_invalid for one in instructions), code.hex(" ")
    assert sum(one.len for one in instructions) == len(code)
    return instructions


def registers(instruction: Instruction, accesses: set[int]) -> set[str]:
    """Full names (rax, zmm0) of the registers that the instruction uses in one of these ways."""
    used = _factory.info(instruction).used_registers()
    return {REGISTER_NAMES[RegisterExt.full_register(one.register)] for one in used if one.access in accesses}


def memory(instruction: Instruction, accesses: set[int]) -> list[tuple[int, int, int]]:
    """(base register, displacement, bytes) of the memory that the instruction uses in one of these ways."""
    return [
        (one.base, one.displacement, MemorySizeExt.size(one.memory_size))
        for one in _factory.info(instruction).used_memory()
        if one.access in accesses
    ]


def operation_code(stitched: Stitched, operation: int) -> list[Instruction]:
    """The instructions of an operation, without the shared one that it may call."""
    begin = stitched.operation_ends[operation - 1] if operation else stitched.operations_begin
    code = stitched.code[begin : stitched.operation_ends[operation]]
    return decode(code, stitched.address + begin)


def stub_code(stitched: Stitched, index: int) -> list[Instruction]:
    """The instructions of a shared instruction address."""
    address, size, _ = stitched.stubs[index]
    return decode(ctypes.string_at(address, size), address)


def trace(stitched: Stitched, probe: Probe, operation: int) -> Iterator[Instruction]:
    """The instructions of an operation as they run, through the call of a shared one, each loop's body once."""
    stubs = {address: index for index, (address, _, _) in enumerate(stitched.stubs)}
    for instruction in operation_code(stitched, operation):
        if instruction.is_call_near:
            yield from stub_code(stitched, stubs[instruction.near_branch_target])[:-1]
        else:
            yield instruction
