"""Probes: short straight-line programs for a memory system, as data.

A `Probe` is a sequence of operations (`load`, `flush`, `fence`, `start`, ...). It knows nothing of any machine: the
native machine stitches it from assembly snippets, a simulated one interprets it. Addresses are (base, offset) pairs; a
`Base` is a name whose address is set anew for every repetition from a placement table.

Internally a probe is a table of integers, one row of `COLUMNS` per operation. Machines read that table (`Probe.rows`);
people read `Probe.operations`, `str(probe)` and the notation of `setebench.notation`. One table, because stitching
must not cost more than the measurement and because Numba can interpret it as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setebench import kernels
from setebench.errors import ProbeError

COLUMNS = ("kind", "base", "offset", "size", "variant", "count", "ip", "after", "interval", "dither")
"""Columns of a row, all int64:

- `kind`: a `Kind`.
- `base`: index into `Probe.bases`, -1 for operations without an operand.
- `offset`: bytes added to the base; for REPEAT the bytes by which operands of the body advance per round.
- `size`: bytes of each access of LOAD, STORE, CHASE and STREAM (8, 16, 32 or 64), else 0.
- `variant`: index into `HINTS` (PREFETCH), `FLUSHES` (FLUSH), `FENCES` (FENCE), `BRACKETS` (START, STOP; -1 means
  the machine's own choice), `kernels.NAMES` (STREAM), 1 for a chained and 0 for a free MULTIPLY.
- `count`: cycles to WAIT, instructions of NOP, MULTIPLY, ADD and TRANSFER, rounds of REPEAT, steps of CHASE, bytes of
  each array of STREAM.
- `ip`: index into `Probe.instruction_addresses` of a shared or placed instruction, -1 for an address of its own.
- `after`: row of the earlier LOAD or CHASE whose value the operand's address depends on, -1 for none.
- `interval`: number of the interval (START, STOP), else -1.
- `dither`: 1 where a START waits a random time first.
"""

_ROW = struct.Struct("=10q")
ROW_BYTES = _ROW.size
MAX_INTERVALS = 64
ACCESS_SIZES = (8, 16, 32, 64)
HINTS = ("t0", "t1", "t2", "nta", "w")
FLUSHES = ("clflush", "clflushopt", "clwb")
FENCES = ("m", "l", "s", "serialize")
BRACKETS = ("lfence", "rdtscp", "mfence", "cpuid", "rdpru")


class Kind(IntEnum):
    """What an operation does."""

    LOAD = 0
    STORE = 1
    PREFETCH = 2
    FLUSH = 3
    FENCE = 4
    WAIT = 5
    NOP = 6
    MULTIPLY = 7
    ADD = 8
    TRANSFER = 9
    START = 10
    STOP = 11
    REPEAT = 12
    END = 13
    CHASE = 14
    BARRIER = 15
    STREAM = 16


ACCESSES = frozenset({Kind.LOAD, Kind.STORE, Kind.PREFETCH, Kind.FLUSH, Kind.CHASE, Kind.STREAM})


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


IP_SPAN_BITS = 26
"""Instruction addresses can be chosen modulo 2**26; more bits than any published IP-indexed prefetcher table uses."""


@dataclass(frozen=True, slots=True)
class Operation:
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
    advance: int


def _operand(where: Base | Operand) -> Operand:
    return Operand(where) if isinstance(where, Base) else where


def _positive(what: str, count: int, most: int = 10**9) -> int:
    if not 0 < count <= most:
        raise ProbeError(f"{what} takes a count from 1 to {most}, not {count}")
    return count


def _choice(what: str, name: str, names: tuple[str, ...]) -> int:
    if name not in names:
        raise ProbeError(f"unknown {what} {name!r}; one of {', '.join(names)}")
    return names.index(name)


@dataclass(frozen=True)
class Probe:
    """A sequence of operations; every method returns a longer probe and leaves this one as it was.

    Raises `ProbeError` for operands, sizes, names or references that make no sense.
    """

    packed: bytes = b""
    bases: tuple[Base, ...] = ()
    instruction_addresses: tuple[InstructionAddress, ...] = ()

    # -- accesses ---------------------------------------------------------------------------------------------------

    def load(
        self,
        where: Base | Operand,
        size: int = 8,
        *,
        ip: str | None = None,
        ip_bits: int | None = None,
        after: int | None = None,
    ) -> Probe:
        """Load `size` bytes (8, 16, 32 or 64).

        `ip` names an instruction address that all accesses with that name share; `ip_bits` places it (its low 26
        bits). `after` makes the address depend on an earlier load's value, so this access cannot start before that one
        is done: -1 is the latest load of the probe, -2 the one before, 0 the first.
        """
        return self._access(Kind.LOAD, where, size=self._size(size), ip=ip, ip_bits=ip_bits, after=after)

    def store(
        self,
        where: Base | Operand,
        size: int = 8,
        *,
        ip: str | None = None,
        ip_bits: int | None = None,
        after: int | None = None,
    ) -> Probe:
        """Store `size` zero bytes (8, 16, 32 or 64); see `load` for the rest."""
        return self._access(Kind.STORE, where, size=self._size(size), ip=ip, ip_bits=ip_bits, after=after)

    def prefetch(
        self,
        where: Base | Operand,
        hint: str = "t0",
        *,
        ip: str | None = None,
        ip_bits: int | None = None,
        after: int | None = None,
    ) -> Probe:
        """Software prefetch with `hint` t0, t1, t2, nta or w; see `load` for the rest."""
        return self._access(
            Kind.PREFETCH, where, variant=_choice("prefetch hint", hint, HINTS), ip=ip, ip_bits=ip_bits, after=after
        )

    def flush(self, where: Base | Operand, how: str = "clflush", *, after: int | None = None) -> Probe:
        """Write the line back and, but for `clwb`, throw it out of every cache.

        `how` is clflush, clflushopt or clwb."""
        return self._access(Kind.FLUSH, where, variant=_choice("flush", how, FLUSHES), after=after)

    def chase(self, start: Base | Operand, steps: int, size: int = 8, *, after: int | None = None) -> Probe:
        """Follow `steps` pointers that `Machine.link` laid, starting with the one at `start`: `steps` dependent loads.

        With `size` 16, 32 or 64 each pointer is loaded by a vector load and moved to an integer register, so a step is
        one vector load and one vector-to-integer transfer.
        """
        return self._access(Kind.CHASE, start, size=self._size(size), count=_positive("chase", steps), after=after)

    def stream(self, where: Base | Operand, kernel: str, array_bytes: int, width: int = 8) -> Probe:
        """One pass of a streaming kernel (a name of `setebench.kernels.KERNELS`) over arrays of `array_bytes` bytes
        each: the first at `where`, each next `kernels.array_spacing(array_bytes)` bytes on.

        `where` must be a multiple of 64; `array_bytes` is one of 256, and a power of two in random order. `width` is
        the size of each access; kernels that only prefetch have none."""
        variant = _choice("kernel", kernel, kernels.NAMES)
        known = kernels.KERNELS[kernel]
        if array_bytes % kernels.BLOCK_BYTES or not 0 < array_bytes <= kernels.MOST_ARRAY_BYTES:
            most = kernels.MOST_ARRAY_BYTES
            raise ProbeError(f"arrays of a stream have a multiple of 256 bytes, at most {most}, not {array_bytes}")
        if known.random and array_bytes & (array_bytes - 1):
            raise ProbeError(f"a random order needs an array whose size is a power of two, not {array_bytes} bytes")
        size = self._size(width) if known.accesses else 0
        return self._access(Kind.STREAM, where, size=size, variant=variant, count=array_bytes)

    # -- order and time ---------------------------------------------------------------------------------------------

    def fence(self, kind: str = "m") -> Probe:
        """m: memory operations before are done before any after (mfence and, where that isn't serialising, lfence);
        l: instructions before are done before any after start (lfence); s: stores in order (sfence); serialize: the
        paper's cpuid, which in a guest can cost thousands of cycles."""
        return self._append(Kind.FENCE, variant=_choice("fence", kind, FENCES))

    def wait(self, cycles: int) -> Probe:
        """About `cycles` core cycles of instructions that touch no memory. They don't hold back later independent
        operations of an out-of-order core: put a fence behind them where that matters."""
        return self._append(Kind.WAIT, count=_positive("wait", cycles))

    def nop(self, count: int) -> Probe:
        """`count` no-operations."""
        return self._append(Kind.NOP, count=_positive("nop", count, 65536))

    def multiply(self, count: int, *, chained: bool = True) -> Probe:
        """`count` integer multiplications, each needing the one before (`chained`) or none."""
        return self._append(Kind.MULTIPLY, count=_positive("multiply", count, 65536), variant=int(chained))

    def add(self, count: int) -> Probe:
        """`count` chained register additions: one core cycle each, the ruler that turns ticks into cycles."""
        return self._append(Kind.ADD, count=_positive("add", count, 65536))

    def transfer(self, count: int) -> Probe:
        """`count` chained round trips of a value from an integer register to a vector register and back."""
        return self._append(Kind.TRANSFER, count=_positive("transfer", count, 65536))

    def barrier(self) -> Probe:
        """Wait until every CPU of a `Machine.run_together` has come to its barrier with the same number."""
        return self._append(Kind.BARRIER)

    # -- intervals --------------------------------------------------------------------------------------------------

    def start(self, interval: int = 0, *, bracket: str | None = None, dither: bool = True) -> Probe:
        """Start the clock of `interval`. With `dither` a random wait of up to two clock steps comes first: it makes the
        mean of coarse samples unbiased, and costs nothing where the clock is fine. Turn it off between two phases that
        must follow each other at once. `bracket` names how the clock is read; by default the machine's best way."""
        return self._append(
            Kind.START, interval=self._interval(interval), variant=self._bracket(bracket), dither=int(dither)
        )

    def stop(self, interval: int = 0, *, bracket: str | None = None) -> Probe:
        """Stop the clock of `interval` once everything since its start is done. `bracket` must equal the start's."""
        return self._append(Kind.STOP, interval=self._interval(interval), variant=self._bracket(bracket))

    # -- composition ------------------------------------------------------------------------------------------------

    def repeat(self, count: int, body: Probe, *, advance: int = 0) -> Probe:
        """Run `body` `count` times in a loop, so its instructions keep their addresses; each round moves every operand
        by `advance` bytes. Loops don't nest, and hold no start, stop or barrier."""
        inner = {Kind(kind) for kind in body.rows[:, 0]}
        if inner & {Kind.REPEAT, Kind.START, Kind.STOP, Kind.BARRIER}:
            raise ProbeError("a repeated body can't hold another repeat, a start, a stop or a barrier")
        if not inner:
            raise ProbeError("a repeated body needs at least one operation")
        if not -(2**31) <= advance < 2**31:
            raise ProbeError(f"an advance of {advance} bytes does not fit 32 bits")
        opened = self._append(Kind.REPEAT, count=_positive("repeat", count), offset=advance)
        return (opened + body)._append(Kind.END)

    def __add__(self, other: Probe) -> Probe:
        """This probe followed by `other`; equal bases and instruction addresses are the same ones."""
        bases = list(dict.fromkeys((*self.bases, *other.bases)))
        addresses = list(self.instruction_addresses)
        for address in other.instruction_addresses:
            _merge_address(addresses, address)
        rows = other.rows.copy()
        _renumber(rows[:, 1], [bases.index(base) for base in other.bases])
        labels = [address.label for address in addresses]
        _renumber(rows[:, 6], [labels.index(address.label) for address in other.instruction_addresses])
        rows[:, 7][rows[:, 7] >= 0] += len(self)
        return Probe(self.packed + rows.tobytes(), tuple(bases), tuple(addresses))

    # -- reading ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.packed) // ROW_BYTES

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The operations as a read-only table, shape (operations, len(COLUMNS)); see `COLUMNS`."""
        return np.frombuffer(self.packed, dtype=np.int64).reshape(-1, len(COLUMNS))

    @cached_property
    def intervals(self) -> int:
        """How many intervals the probe times: one more than the highest number used.

        Raises `ProbeError` where an interval is started or stopped twice, never stopped, or numbers are left out."""
        begun: dict[int, int] = {}
        ended: set[int] = set()
        kinds = self.rows[:, 0]
        # only the rows that matter, as plain integers: this is part of the cost of stitching
        marks = self.rows[(kinds == int(Kind.START)) | (kinds == int(Kind.STOP))]
        for kind, variant, interval in marks[:, [0, 4, 8]].tolist():
            if kind == Kind.START:
                if interval in begun:
                    raise ProbeError(f"interval {interval} is started twice")
                begun[interval] = variant
                continue
            if interval not in begun or interval in ended:
                raise ProbeError(f"interval {interval} is stopped without a start of its own")
            if begun[interval] != variant:
                raise ProbeError(f"interval {interval} starts and stops with different brackets")
            ended.add(interval)
        if ended != set(begun) or ended != set(range(len(ended))):
            raise ProbeError("every started interval needs a stop, and intervals are numbered 0, 1, 2, ...")
        return len(ended)

    @property
    def operations(self) -> Iterator[Operation]:
        """The operations one by one, with names."""
        for row in self.rows:
            yield self._operation(*(int(value) for value in row))

    def _operation(
        self,
        kind: int,
        base: int,
        offset: int,
        size: int,
        variant: int,
        count: int,
        ip: int,
        after: int,
        interval: int,
        dither: int,
    ) -> Operation:
        names = {
            Kind.PREFETCH: HINTS,
            Kind.FLUSH: FLUSHES,
            Kind.FENCE: FENCES,
            Kind.START: BRACKETS,
            Kind.STOP: BRACKETS,
            Kind.MULTIPLY: ("free", "chained"),
            Kind.STREAM: kernels.NAMES,
        }
        return Operation(
            kind=Kind(kind),
            operand=Operand(self.bases[base], offset) if base >= 0 else None,
            size=size,
            variant=names[Kind(kind)][variant] if Kind(kind) in names and variant >= 0 else "",
            count=count,
            ip=self.instruction_addresses[ip] if ip >= 0 else None,
            after=after if after >= 0 else None,
            interval=interval if interval >= 0 else None,
            dither=bool(dither),
            advance=offset if kind == Kind.REPEAT else 0,
        )

    def __str__(self) -> str:
        from setebench.notation import render  # notation builds on this module

        return render(self)

    # -- building ---------------------------------------------------------------------------------------------------

    def _append(
        self,
        kind: Kind,
        *,
        base: int = -1,
        offset: int = 0,
        size: int = 0,
        variant: int = 0,
        count: int = 0,
        ip: int = -1,
        after: int = -1,
        interval: int = -1,
        dither: int = 0,
    ) -> Probe:
        row = _ROW.pack(kind, base, offset, size, variant, count, ip, after, interval, dither)
        return Probe(self.packed + row, self.bases, self.instruction_addresses)

    def _access(
        self,
        kind: Kind,
        where: Base | Operand,
        *,
        size: int = 0,
        variant: int = 0,
        count: int = 0,
        ip: str | None = None,
        ip_bits: int | None = None,
        after: int | None = None,
    ) -> Probe:
        operand = _operand(where)
        if not -(2**31) <= operand.offset < 2**31:
            raise ProbeError(f"offset {operand.offset} of {operand.base.name} does not fit 32 bits; use another base")
        bases = self.bases if operand.base in self.bases else (*self.bases, operand.base)
        addresses, ip_index = self._address(ip, ip_bits)
        row = _ROW.pack(
            kind,
            bases.index(operand.base),
            operand.offset,
            size,
            variant,
            count,
            ip_index,
            self._earlier_load(after),
            -1,
            0,
        )
        return Probe(self.packed + row, bases, addresses)

    def _address(self, label: str | None, bits: int | None) -> tuple[tuple[InstructionAddress, ...], int]:
        if label is None and bits is None:
            return self.instruction_addresses, -1
        if bits is not None and not 0 <= bits < 2**IP_SPAN_BITS:
            raise ProbeError(f"ip_bits must lie in 0 to 2**{IP_SPAN_BITS} - 1, not {bits}")
        addresses = list(self.instruction_addresses)
        index = _merge_address(addresses, InstructionAddress(label if label is not None else f"@{bits:#x}", bits))
        return tuple(addresses), index

    def _earlier_load(self, after: int | None) -> int:
        if after is None:
            return -1
        kinds = self.rows[:, 0]
        loads = np.flatnonzero((kinds == Kind.LOAD) | (kinds == Kind.CHASE))
        if not -len(loads) <= after < len(loads):
            raise ProbeError(f"after={after}: the probe has {len(loads)} loads before this operation")
        return int(loads[after])

    @staticmethod
    def _size(size: int) -> int:
        if size not in ACCESS_SIZES:
            raise ProbeError(f"an access has 8, 16, 32 or 64 bytes, not {size}")
        return size

    @staticmethod
    def _interval(interval: int) -> int:
        if not 0 <= interval < MAX_INTERVALS:
            raise ProbeError(f"intervals are numbered 0 to {MAX_INTERVALS - 1}, not {interval}")
        return interval

    @staticmethod
    def _bracket(bracket: str | None) -> int:
        return -1 if bracket is None else _choice("bracket", bracket, BRACKETS)


def _merge_address(addresses: list[InstructionAddress], new: InstructionAddress) -> int:
    """Index of `new` in `addresses`, appended if its label is not there yet."""
    for index, known in enumerate(addresses):
        if known.label == new.label:
            if known.bits is None and new.bits is not None:
                addresses[index] = new
            elif new.bits is not None and new.bits != known.bits:
                raise ProbeError(
                    f"instruction address {new.label!r} is placed twice, at {known.bits:#x} and {new.bits:#x}"
                )
            return index
    addresses.append(new)
    return len(addresses) - 1


def _renumber(column: NDArray[np.int64], numbers: list[int]) -> None:
    used = column >= 0
    if used.any():
        column[used] = np.asarray(numbers, dtype=np.int64)[column[used]]


Placements = Mapping[Base, ArrayLike] | int
"""For every base one address per repetition (or one for all); for a probe without bases the number of repetitions."""


def _addresses(base: Base, given: ArrayLike) -> NDArray[np.int64]:
    """`given` as int64, never rounded or wrapped: an address that is a little wrong measures something else."""
    column = np.asarray(given)
    if column.ndim > 1:
        raise ProbeError(f"{base.name} needs one address per repetition, not an array of {column.ndim} dimensions")
    fits = column.dtype.kind == "i" or (column.dtype.kind == "u" and not (column > np.iinfo(np.int64).max).any())
    if column.size and not fits:
        raise ProbeError(f"{base.name} has an address that is no signed 64-bit integer")
    return column.astype(np.int64, copy=False)


def placement_table(probe: Probe, placements: Placements) -> NDArray[np.int64]:
    """The addresses of `probe.bases`, shape (repetitions, bases), C-contiguous int64.

    Bases of the mapping that the probe does not use still say how many repetitions there are.
    Raises `ProbeError` for a missing base, arrays of different lengths, or addresses that are no 64-bit integers.
    """
    if isinstance(placements, int):
        if probe.bases:
            raise ProbeError(f"no placement for {', '.join(base.name for base in probe.bases)}")
        if placements < 0:
            raise ProbeError(f"the number of repetitions can't be {placements}")
        return np.empty((placements, 0), dtype=np.int64)
    columns = {base: _addresses(base, given) for base, given in placements.items()}
    lengths = {len(column) for column in columns.values() if column.ndim}
    if len(lengths) > 1:
        raise ProbeError(f"placements differ in length: {sorted(lengths)}")
    repetitions = lengths.pop() if lengths else 1
    missing = [base.name for base in probe.bases if base not in columns]
    if missing:
        raise ProbeError(f"no placement for {', '.join(missing)}")
    table = np.empty((repetitions, len(probe.bases)), dtype=np.int64)
    for index, base in enumerate(probe.bases):
        table[:, index] = columns[base]
    return table
