"""Calling stitched code from a thunk that notes what it left in registers.

The System V ABI for x86-64, 3.2.1: rbx, rbp, r12 to r15, rsp and the control bits of MXCSR belong to the caller; the
direction flag is clear.
"""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
from iced_x86 import Code, Encoder, Instruction, MemoryOperand, Register
from numpy.typing import NDArray

from setebench.native import _engine

SAVED = ("RBX", "RBP", "R12", "R13", "R14", "R15")
FILLED = tuple(0x1111_2222_3333_0000 + 7 * number for number in range(len(SAVED)))
MXCSR = 0x9FC0  # every exception masked, flush to zero and denormals are zero: not what the process has
_USUAL_MXCSR = 0x1F80
DIRECTION = 1 << 10

# words of the state that the thunk reads and writes
_FILL, _FOUND, _RSP_BEFORE, _RSP_AFTER, _FLAGS, _MXCSR = 0, 6, 12, 13, 14, 15
_MXCSR_SET, _MXCSR_USUAL, _ONES, _WORDS = 16, 17, 20, 32

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def executable(code: bytes) -> tuple[mmap.mmap, int]:
    """A page that holds `code` and may be run, and its address."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    page[: len(code)] = code
    address = np.frombuffer(page, dtype=np.uint8).ctypes.data
    assert _libc.mprotect(address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC) == 0
    return page, address


class Caller:
    """A thunk in a page of its own, and the state that it fills."""

    def __init__(self, dirty_vectors: bool) -> None:
        """With `dirty_vectors` all bits of ymm1 are set before the call, as a caller may leave them."""
        self.state = np.zeros(_WORDS, dtype=np.uint64)
        self.state[_FILL : _FILL + len(SAVED)] = FILLED
        self.state[_MXCSR_SET], self.state[_MXCSR_USUAL] = MXCSR, _USUAL_MXCSR
        self.state[_ONES : _ONES + 4] = 2**64 - 1
        self._page, address = executable(_assembled(_thunk(self.state.ctypes.data, dirty_vectors)))
        self._call = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * 5)(address)

    def run(self, stitched: _engine.Stitched, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Run one repetition per row; the ticks, shape (rows, intervals)."""
        results = np.full((len(rows), max(stitched.intervals, 1)), -1, dtype=np.int64)
        dither = np.ones(len(rows) * stitched.dithers + 1, dtype=np.int32)
        self.call(stitched.address, rows.ctypes.data, results.ctypes.data, len(rows), dither.ctypes.data)
        return results[:, : stitched.intervals]

    def call(self, code: int, *arguments: int) -> None:
        """Call the code at that address with four integers."""
        self._call(code, *arguments)

    @property
    def found(self) -> tuple[int, ...]:
        """What the call left in the registers of `SAVED`."""
        return tuple(int(word) for word in self.state[_FOUND : _FOUND + len(SAVED)])

    @property
    def stack_moved(self) -> int:
        """Bytes by which the call moved the stack pointer."""
        return int(self.state[_RSP_AFTER]) - int(self.state[_RSP_BEFORE])

    @property
    def flags(self) -> int:
        """rflags behind the call."""
        return int(self.state[_FLAGS])

    @property
    def mxcsr(self) -> int:
        """MXCSR behind the call."""
        return int(self.state[_MXCSR])


def _register(name: str) -> int:
    value: int = getattr(Register, name)
    return value


def _at(word: int) -> MemoryOperand:
    return MemoryOperand(Register.R11, displ=8 * word, displ_size=1)


def _move(to: str, source: str) -> Instruction:
    return Instruction.create_reg_reg(Code.MOV_R64_RM64, _register(to), _register(source))


def _fetch(to: str, word: int) -> Instruction:
    return Instruction.create_reg_mem(Code.MOV_R64_RM64, _register(to), _at(word))


def _keep(word: int, source: str) -> Instruction:
    return Instruction.create_mem_reg(Code.MOV_RM64_R64, _at(word), _register(source))


def _thunk(state: int, dirty_vectors: bool) -> list[Instruction]:
    """thunk(code, rows, results, repetitions, dither) calls code(rows, results, repetitions, dither, 0)."""
    load_state = Instruction.create_reg_u64(Code.MOV_R64_IMM64, Register.R11, state)
    push = [Instruction.create_reg(Code.PUSH_R64, _register(name)) for name in SAVED]
    pop = [Instruction.create_reg(Code.POP_R64, _register(name)) for name in reversed(SAVED)]
    align = Instruction.create_reg_i32(Code.SUB_RM64_IMM8, Register.RSP, 8)
    unalign = Instruction.create_reg_i32(Code.ADD_RM64_IMM8, Register.RSP, 8)
    ones = Instruction.create_reg_mem(Code.VEX_VMOVUPS_YMM_YMMM256, Register.YMM1, _at(_ONES))
    return [
        *push,
        align,
        load_state,
        _move("RAX", "RDI"),
        _move("RDI", "RSI"),
        _move("RSI", "RDX"),
        _move("RDX", "RCX"),
        _move("RCX", "R8"),
        Instruction.create_reg_i32(Code.MOV_R32_IMM32, Register.R8D, 0),
        *(_fetch(name, _FILL + index) for index, name in enumerate(SAVED)),
        Instruction.create_mem(Code.LDMXCSR_M32, _at(_MXCSR_SET)),
        *([ones] if dirty_vectors else []),
        _keep(_RSP_BEFORE, "RSP"),
        Instruction.create_reg(Code.CALL_RM64, Register.RAX),
        load_state,
        _keep(_RSP_AFTER, "RSP"),
        _fetch("RSP", _RSP_BEFORE),
        *(_keep(_FOUND + index, name) for index, name in enumerate(SAVED)),
        Instruction.create(Code.PUSHFQ),
        Instruction.create_reg(Code.POP_R64, Register.RAX),
        _keep(_FLAGS, "RAX"),
        Instruction.create_mem(Code.STMXCSR_M32, _at(_MXCSR)),
        Instruction.create_mem(Code.LDMXCSR_M32, _at(_MXCSR_USUAL)),
        Instruction.create(Code.CLD),
        unalign,
        *pop,
        Instruction.create(Code.RETNQ),
    ]


def _assembled(instructions: list[Instruction]) -> bytes:
    encoder = Encoder(64)
    for instruction in instructions:
        encoder.encode(instruction, 0)
    return bytes(encoder.take_buffer())
