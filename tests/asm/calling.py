"""Calling stitched code from a thunk that notes what it left in registers.

The System V ABI for x86-64, 3.2.1: rbx, rbp, r12 to r15, rsp and the control bits of MXCSR belong to the caller; the
direction flag is clear.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from setebench.native import _engine

SAVED = ("rbx", "rbp", "r12", "r13", "r14", "r15")
FILLED = tuple(0x1111_2222_3333_0000 + 7 * number for number in range(len(SAVED)))
MXCSR = 0x9FC0  # every exception masked, flush to zero and denormals are zero: not what the process has
_USUAL_MXCSR = 0x1F80
DIRECTION = 1 << 10

# words of the state that the thunk reads and writes; ymm1 is set where the last is not 0
_FILL, _FOUND, _RSP_BEFORE, _RSP_AFTER, _FLAGS = 0, 6, 12, 13, 14
_MXCSR, _MXCSR_SET, _MXCSR_USUAL, _DIRTY, _WORDS = 15, 16, 17, 18, 19

_THUNK = f"""
.intel_syntax noprefix
.globl thunk                     # thunk(code, rows, results, repetitions, dither, state)
thunk:                           # calls code(rows, results, repetitions, dither, 0)
    {"; ".join(f"push {name}" for name in SAVED)}; sub rsp, 8
    mov [rip + kept], r9; mov r11, r9
    mov rax, rdi; mov rdi, rsi; mov rsi, rdx; mov rdx, rcx; mov rcx, r8; xor r8d, r8d
    {"; ".join(f"mov {name}, [r11 + {8 * (_FILL + number)}]" for number, name in enumerate(SAVED))}
    ldmxcsr [r11 + {8 * _MXCSR_SET}]
    cmp qword ptr [r11 + {8 * _DIRTY}], 0; je 1f
    vpcmpeqd xmm1, xmm1, xmm1; vinsertf128 ymm1, ymm1, xmm1, 1
1:  mov [r11 + {8 * _RSP_BEFORE}], rsp
    call rax
    mov r11, [rip + kept]
    mov [r11 + {8 * _RSP_AFTER}], rsp; mov rsp, [r11 + {8 * _RSP_BEFORE}]
    {"; ".join(f"mov [r11 + {8 * (_FOUND + number)}], {name}" for number, name in enumerate(SAVED))}
    pushfq; pop rax; mov [r11 + {8 * _FLAGS}], rax
    stmxcsr [r11 + {8 * _MXCSR}]; ldmxcsr [r11 + {8 * _MXCSR_USUAL}]; cld
    add rsp, 8; {"; ".join(f"pop {name}" for name in reversed(SAVED))}; ret
.lcomm kept, 8
.section .note.GNU-stack, "", @progbits
"""


@cache
def _library() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "thunk.s"), Path(folder, "thunk.so")
        source.write_text(_THUNK)
        subprocess.run(["gcc", "-shared", "-o", target, source], check=True, timeout=60)
        return ctypes.CDLL(str(target))


class Caller:
    """The thunk and the state that it fills."""

    def __init__(self, dirty_vectors: bool) -> None:
        """With `dirty_vectors` all bits of ymm1 are set before the call, as a caller may leave them."""
        self.state = np.zeros(_WORDS, dtype=np.uint64)
        self.state[_FILL : _FILL + len(SAVED)] = FILLED
        self.state[_MXCSR_SET], self.state[_MXCSR_USUAL], self.state[_DIRTY] = MXCSR, _USUAL_MXCSR, dirty_vectors

    def run(self, stitched: _engine.Stitched, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Run one repetition per row of addresses; the ticks, shape (rows, intervals)."""
        results = np.full((len(rows), max(stitched.intervals, 1)), -1, dtype=np.int64)
        dither = np.ones(len(rows) * stitched.dithers + 1, dtype=np.int32)
        complements = ~rows  # as stitched code wants its rows
        self.call(stitched.address, complements.ctypes.data, results.ctypes.data, len(rows), dither.ctypes.data)
        return results[:, : stitched.intervals]

    def call(self, code: int, *arguments: int) -> None:
        """Call the code at that address with four integers."""
        _library().thunk(*(ctypes.c_uint64(each) for each in (code, *arguments, self.state.ctypes.data)))

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
