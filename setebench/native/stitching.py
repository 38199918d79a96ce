"""Probes as machine code.

Snippets (asm/*.S) are copied one behind the other, and their fields filled in: the driver, the operations, and behind
them, or where their bits place them, the shared instruction addresses. Memory is writable first, executable then, and
never both.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from setebench.errors import NO_MACHINE_CODE, ProbeError, UnsupportedError
from setebench.host.processor import read_processor
from setebench.host.tree import Tree
from setebench.native import _engine
from setebench.probe import ACCESSES, IP_SPAN_BITS, Kind, Operation, Probe
from setebench.probe.kernels import array_spacing, round_bytes

BASE_REGISTERS, COMPUTED = 5, 5
"""Bases that have registers (rsi, rdi, r8, r9, r10), and the number of rcx, which holds computed addresses."""
KEPT_VALUES, FIRST_KEPT = 8, 8
"""Registers for values that later addresses depend on, from r8 on."""
PAGE, LINE, WORD = 4096, 64, 8
IP_SPAN = 1 << IP_SPAN_BITS
BY_COUNT = (Kind.NOP, Kind.MULTIPLY, Kind.ADD, Kind.TRANSFER)
"""Operations that are as many instructions as they count."""
SIZED = (Kind.LOAD, Kind.STORE, Kind.CHASE)
FIELDS = ("", "offset", "count", "slot", "row", "target", "result", "row_size", "result_size", "spacing")
"""Kinds of fields, in the order of engine.h."""

_FIELD = struct.Struct("=i")
_libc = ctypes.CDLL(None, use_errno=True)


class Snippet(NamedTuple):
    """A snippet for one base register: `fields` are kinds and ends of what is filled in, four bytes each, and `lacks`
    says what it needs that this CPU hasn't."""

    code: bytes
    fields: tuple[tuple[str, int], ...]
    lacks: str


@cache
def snippets() -> dict[tuple[str, int], Snippet]:
    """Every snippet by its name and the number of its base register, -1 for none."""
    found, flags = {}, read_processor(Tree(Path("/"))).flags
    for one in _engine.snippets():
        has = not one["feature"] or one["feature"] in flags
        lacks = "" if has else f"this CPU has no {one['feature']}, which {one['description']!r} needs"
        fields = tuple((FIELDS[kind], end) for kind, end in one["fields"])
        found[one["name"], one["base"]] = Snippet(one["code"], fields, lacks)
    return found


def available(name: str) -> bool:
    """Whether this CPU runs the snippet of that name."""
    snippet = snippets().get((name, -1)) or snippets().get((name, 0))
    return snippet is not None and not snippet.lacks


def _snippet_of(operation: Operation, bracket: str = "") -> str:
    """The name of the snippet that does an operation. `bracket` serves starts and stops that name none."""
    kind, size = operation.kind, str(operation.size or "")
    parts = [kind.name.lower() + (size if kind in SIZED else ""), operation.variant or bracket]
    if kind == Kind.STREAM:
        parts += [size, "rolled" if operation.rolled else ""]
    return ".".join(filter(None, parts))


class Stitched:
    """A probe as machine code in memory of its own.

    The code begins at `address`, that of operation 0 `operations_begin` bytes on, and that of operation i ends
    `operation_ends[i]` bytes on. `stubs` are shared instruction addresses: (address, bytes, operation). `dithers` is
    the number of dithered starts in a repetition. `code` has the driver and the operations."""

    def __init__(self, probe: Probe, bracket: str, together: bool, to_run: bool = True) -> None:
        """`bracket` serves starts and stops that name none; `together` puts a barrier before every repetition. Without
        `to_run` the code is never made executable: it is to be read only. Raises `ProbeError`, or `UnsupportedError`
        for a snippet that this CPU can't run, or where code may not be made executable."""
        self.operation_ends: list[int] = []
        self.stubs: list[tuple[int, int, int]] = []
        self.intervals = probe.intervals
        self._operations = list(probe.operations)
        self.dithers = sum(operation.dither for operation in self._operations)
        self._bases = {base: number for number, base in enumerate(probe.bases)}
        self._bracket, self._together, self._advance = bracket, together, 0
        self._code = bytearray()
        self._calls: list[tuple[int, int]] = []  # (position behind the call, number of what it calls)
        self._addresses = {address: number for number, address in enumerate(probe.instruction_addresses)}
        self._driver_and_body()
        self._settle([address.bits for address in self._addresses], self._shared_accesses(), to_run)

    def operation_at(self, instruction: int) -> int:
        """The number of the operation whose code holds this address, -1 for none."""
        offset = instruction - self.address
        operation = bisect_right(self.operation_ends, offset)
        return operation if self.operations_begin <= offset and operation < len(self.operation_ends) else -1

    # -- the code ---------------------------------------------------------------------------------------------------

    def _emit(self, name: str, base: int = -1, times: int = 1, **fields: int) -> None:
        """Append a snippet with these values in its fields, several times where it has none."""
        snippet = snippets()[name, base]
        if snippet.lacks:
            raise UnsupportedError(snippet.lacks)
        self._code += snippet.code * times
        behind = len(self._code)
        for kind, end in snippet.fields:
            value = fields[kind] - (behind if kind == "target" else 0)
            _FIELD.pack_into(self._code, behind - len(snippet.code) + end - _FIELD.size, value)

    def _driver_and_body(self) -> None:
        bases, wide = len(self._bases), any(operation.size >= 32 for operation in self._operations)
        self._emit("driver.enter")
        # clears the upper halves of xmm1 too, which wide stores store; where it lacks, the body says what needs it
        if wide and available("driver.vzeroupper"):
            self._emit("driver.vzeroupper")
        head = len(self._code)
        for number in range(min(bases, BASE_REGISTERS)):
            self._emit("driver.base", number, row=WORD * number)
        for row in range(WORD * BASE_REGISTERS, WORD * bases + LINE - WORD if bases > BASE_REGISTERS else 0, LINE):
            self._emit("driver.touch", row=min(row, WORD * (bases - 1)))
        if self._together:
            self._emit("barrier")
        self._emit("driver.begin")
        self.operations_begin = len(self._code)
        self._body()
        if wide:
            self._emit("driver.vzeroupper")
        for number in range(self.intervals):
            self._emit("driver.result", slot=WORD * number, result=WORD * number)
        self._emit("driver.next", row_size=WORD * bases, result_size=WORD * self.intervals, target=head)
        self._emit("driver.leave")
        self.code_bytes = len(self._code)

    def _body(self) -> None:
        kept, loop = _kept_values(self._operations), 0
        for number, operation in enumerate(self._operations):
            kind = operation.kind
            if kind == Kind.STREAM:
                self._stream(operation)
            elif kind in ACCESSES:
                self._access(number, operation, kept)
            elif kind == Kind.REPEAT:
                self._advance = operation.advance
                self._emit("repeat.begin", count=operation.count)
                loop = len(self._code)
            elif kind == Kind.END:
                self._emit("repeat.end", offset=self._advance, target=loop)
                self._advance = 0
            elif kind != Kind.BARRIER or self._together:
                if operation.dither:
                    self._emit("dither")
                times = operation.count if kind in BY_COUNT else 1
                name = _snippet_of(operation, self._bracket if kind in (Kind.START, Kind.STOP) else "")
                self._emit(name, times=times, count=operation.count, slot=WORD * (operation.interval or 0))
            self.operation_ends.append(len(self._code))

    def _stream(self, operation: Operation) -> None:
        self._computed_base(operation)
        rounds = operation.count // round_bytes(operation.size, operation.rolled)
        self._fill_line()  # so that the loop, which the snippet aligns, begins a line of instructions
        self._emit(_snippet_of(operation), count=rounds, spacing=array_spacing(operation.count))

    def _fill_line(self) -> None:
        """No-operations up to the next line of instructions: few long ones, as some are run."""
        gap = -len(self._code) % LINE
        self._emit("nop.long", times=gap // WORD)
        self._emit("nop", times=gap % WORD)

    def _computed_base(self, operation: Operation, offset: bool = True) -> None:
        """Code that puts an operation's base, advanced, and its offset into the register of computed addresses."""
        assert operation.operand is not None
        base = self._bases[operation.operand.base]
        if base >= BASE_REGISTERS:
            self._emit("address.row", row=WORD * base)
        else:
            self._emit("address.base", base)
        if self._advance:
            self._emit("address.advance")
        if offset:
            self._emit("address.offset", offset=operation.operand.offset)

    def _access(self, number: int, operation: Operation, kept: dict[int, int | None]) -> None:
        assert operation.operand is not None
        base, called = self._bases[operation.operand.base], operation.ip is not None
        if base >= BASE_REGISTERS or self._advance or called or operation.after is not None:
            self._computed_base(operation, offset=called)
            base = COMPUTED
        if operation.after is not None:
            register = kept[operation.after]
            self._emit("depend.latest" if register is None else f"depend.use{FIRST_KEPT + register}")
        if operation.ip is not None:
            self._emit("call", target=0)
            self._calls.append((len(self._code), self._addresses[operation.ip]))
        else:
            self._emit(_snippet_of(operation), base, offset=operation.operand.offset, count=operation.count)
        if number in kept:
            if operation.size > WORD and operation.kind == Kind.LOAD:
                self._emit("depend.vector")
            if (register := kept[number]) is not None:
                self._emit(f"depend.keep{FIRST_KEPT + register}")

    def _shared_accesses(self) -> list[tuple[int, int, int]]:
        """Write for every shared instruction address the first operation that uses it; the others must be alike. Gives
        (begin, bytes, operation) of each."""
        users = dict[int, int]()
        for number, operation in enumerate(self._operations):
            if operation.ip is not None:
                first = users.setdefault(self._addresses[operation.ip], number)
                if _snippet_of(operation) != _snippet_of(self._operations[first]):
                    raise ProbeError("accesses that share an instruction address must have one kind, size and hint")
        written = []
        for _, number in sorted(users.items()):
            self._fill_line()
            begin, operation = len(self._code), self._operations[number]
            self._emit(_snippet_of(operation), COMPUTED, offset=0, count=operation.count)
            self._emit("return")
            written.append((begin, len(self._code) - begin, number))
        return written

    # -- its memory -------------------------------------------------------------------------------------------------

    def _settle(self, placed: Sequence[int | None], stubs: list[tuple[int, int, int]], to_run: bool) -> None:
        """Map memory, write everything where it belongs, and make it executable (and no longer writable)."""
        spread = any(bits is not None for bits in placed)
        # the page between the span and the code takes the end of an access placed at the span's end
        size = len(self._code) + (2 * IP_SPAN + PAGE if spread else 0)
        try:
            self._memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0)
        except OSError as error:
            raise UnsupportedError(f"no memory for the probe's code: {error.strerror}") from error
        begins = np.frombuffer(self._memory, dtype=np.uint8).ctypes.data
        origin = -(-begins // IP_SPAN) * IP_SPAN
        self.address = origin + IP_SPAN + PAGE if spread else begins
        parts = [(self.address, 0, len(self._code))]
        for (begin, size, number), bits in zip(stubs, placed, strict=True):
            at = self.address + begin if bits is None else origin + bits
            if any(other < at + size and at < other + length for other, length, _ in self.stubs):
                raise ProbeError(f"two instruction addresses overlap at {bits or 0:#x}")
            self.stubs.append((at, size, number))
            parts.append((at, begin, size))
        for position, number in self._calls:
            _FIELD.pack_into(self._code, position - _FIELD.size, self.stubs[number][0] - (self.address + position))
        self.code = bytes(self._code[: self.code_bytes])
        for at, begin, size in parts:
            _protect(at, size, mmap.PROT_READ | mmap.PROT_WRITE)
            ctypes.memmove(at, bytes(self._code[begin : begin + size]), size)
        for at, _, size in parts:
            _protect(at, size, mmap.PROT_READ | (mmap.PROT_EXEC if to_run else 0))


def _kept_values(operations: Sequence[Operation]) -> dict[int, int | None]:
    """Where the value of each load is kept that a later address depends on, by the load's row: a register's number, or
    None where the only reader stands right behind it. Raises `ProbeError` where there are too few registers."""
    last = {operation.after: row for row, operation in enumerate(operations) if operation.after is not None}
    kept: dict[int, int | None] = {}
    busy_until = [-1] * KEPT_VALUES
    for load, reader in sorted(last.items()):
        kept[load] = None
        if reader > load + 1:
            free = [register for register, until in enumerate(busy_until) if until <= load]
            if not free:
                raise ProbeError(f"more than {KEPT_VALUES} loads at once have addresses that depend on them later")
            kept[load] = free[0]
            busy_until[free[0]] = reader
    return kept


def _protect(address: int, size: int, rights: int) -> None:
    """Set the rights of every page that holds some of these bytes."""
    first = address // PAGE * PAGE
    if _libc.mprotect(ctypes.c_void_p(first), ctypes.c_size_t(address + size - first), rights):
        why = os.strerror(ctypes.get_errno())
        raise UnsupportedError(f"no probe can be run on this CPU: {NO_MACHINE_CODE} ({why})")
